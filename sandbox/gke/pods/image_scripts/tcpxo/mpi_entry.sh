#!/bin/bash
# Simulated stand-in of the plug-in image: one rank, with the environment that mpirun passed on.
: "${OMPI_COMM_WORLD_RANK:?Must set OMPI_COMM_WORLD_RANK}"
program="$1"
shift
"/third_party/nccl-tests-mpi/build/$program" "$@"
