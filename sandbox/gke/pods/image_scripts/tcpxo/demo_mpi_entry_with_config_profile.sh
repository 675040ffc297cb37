#!/bin/bash
# Simulated stand-in of the plug-in image: one rank, in the installed environment profile.
: "${OMPI_COMM_WORLD_RANK:?Must set OMPI_COMM_WORLD_RANK}"
: "${NCCL_LIB_DIR:?Must set NCCL_LIB_DIR}"
source "$NCCL_LIB_DIR/nccl-env-profile.sh"
program="$1"
shift
"/third_party/nccl-tests-mpi/build/$program" "$@"
