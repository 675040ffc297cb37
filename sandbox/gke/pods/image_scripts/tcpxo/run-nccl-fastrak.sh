#!/bin/bash
# Simulated stand-in of the plug-in image: a benchmark with fixed settings, without LLCM, tuner and
# guest config checker. Arguments: benchmark, library path, GPUs per node, interfaces, smallest and
# largest size, channels, nodes, iterations, flows, flows per group, warm-up.
gpus="$3" nodes="$8"
LD_LIBRARY_PATH="$2" mpirun --mca btl tcp,self --mca btl_tcp_if_include eth0 --allow-run-as-root \
  -np $((gpus * nodes)) --hostfile "/scripts/hostfiles$nodes/hostfile$gpus" \
  -x LD_LIBRARY_PATH -x PATH \
  -x NCCL_FASTRAK_CTRL_DEV=eth0 -x "NCCL_FASTRAK_IFNAME=$4" -x NCCL_SOCKET_IFNAME=eth0 \
  -x "NCCL_DEBUG_FILE=${OUTPUT_DIR:-}/%h/$1-%p.log" \
  -x NCCL_DEBUG=INFO -x NCCL_DEBUG_SUBSYS=INIT,NET \
  -x NCCL_CROSS_NIC=0 -x "NCCL_ALGO=${NCCL_ALGO:-Ring}" -x NCCL_PROTO=Simple \
  -x "NCCL_TUNER_PLUGIN=${NCCL_TUNER_PLUGIN:-UNUSED}" \
  -x "NCCL_TUNER_CONFIG_PATH=${NCCL_TUNER_CONFIG_PATH:-}" \
  -x NCCL_DYNAMIC_CHUNK_SIZE=524288 -x NCCL_P2P_NET_CHUNKSIZE=524288 \
  -x NCCL_P2P_PCI_CHUNKSIZE=524288 -x NCCL_P2P_NVL_CHUNKSIZE=1048576 -x NCCL_BUFFSIZE=8388608 \
  -x "NCCL_FASTRAK_NUM_FLOWS=${10:-8}" -x "NCCL_FASTRAK_FLOWS_PER_GROUP=${11:-2}" \
  -x CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 -x NCCL_NET_GDR_LEVEL=PIX \
  -x NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING=0 -x NCCL_SHIMNET_SHIM_LAYERS=UNUSED \
  -x "NCCL_NVLS_ENABLE=${NCCL_NVLS_ENABLE:-0}" \
  taskset -c 32-63 /scripts/mpi_entry.sh "$1" \
  -b "$5" -e "$6" -f 2 -g 1 -w "${12:-5}" --iters "$9" 2>&1 | tee "/$1.txt"
