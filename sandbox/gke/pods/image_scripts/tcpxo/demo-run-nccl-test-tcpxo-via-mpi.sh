#!/bin/bash
# Simulated stand-in of the plug-in image: a benchmark in the environment that workloads get.
# NCCL's own log goes to a file on each host, and the profile lowers it to warnings.
: "${NCCL_LIB_DIR:?Must set NCCL_LIB_DIR}"
: "${BENCHMARK:?Must set BENCHMARK}"
: "${LD_LIBRARY_PATH:?Must set LD_LIBRARY_PATH}"
: "${NHOSTS:?Must set NHOSTS}"
gpus="${GPU_PER_NODE:-8}"
mpirun --mca btl tcp,self --mca btl_tcp_if_include eth0 --allow-run-as-root \
  -np $((gpus * NHOSTS)) --hostfile "/scripts/hostfiles$NHOSTS/hostfile$gpus" \
  -x LD_LIBRARY_PATH -x PATH -x NCCL_LIB_DIR \
  -x NCCL_DEBUG=INFO -x NCCL_DEBUG_SUBSYS=INIT,NET -x "NCCL_DEBUG_FILE=/tmp/$BENCHMARK-%h-%p.log" \
  -x "NCCL_TESTS_SPLIT_MASK=${NCCL_TESTS_SPLIT_MASK:-0x0}" \
  -x "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY=${NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY:-}" \
  taskset -c 32-63 /scripts/demo_mpi_entry_with_config_profile.sh "$BENCHMARK" \
  -b "${DATA_MIN:-8}" -e "${DATA_MAX:-8G}" -f 2 -g 1 \
  -w "${WARMUP_ITERS:-5}" --iters "${RUN_ITERS:-20}" 2>&1 | tee "/tmp/$BENCHMARK.txt"
