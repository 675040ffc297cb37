#!/bin/bash
# Simulated stand-in of the plug-in image; the published ConfigMap brings another one. Arguments:
# benchmark, library path, GPUs per node, interfaces, smallest and largest size, hosts.
nodes="${7:-2}"
LD_LIBRARY_PATH="$2" mpirun --mca btl tcp,self --mca btl_tcp_if_include eth0 --allow-run-as-root \
  -np $(($3 * nodes)) --hostfile "/scripts/hostfiles$nodes/hostfile$3" \
  -x LD_LIBRARY_PATH -x NCCL_SOCKET_IFNAME=eth0 -x NCCL_ALGO=Ring -x NCCL_PROTO=Simple \
  -x NCCL_CROSS_NIC=0 -x NCCL_NET_GDR_LEVEL=PIX -x NCCL_P2P_PXN_LEVEL=0 \
  -x "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME=$4" -x NCCL_GPUDIRECTTCPX_CTRL_DEV=eth0 \
  -x NCCL_DYNAMIC_CHUNK_SIZE=524288 -x NCCL_P2P_NET_CHUNKSIZE=524288 \
  -x NCCL_P2P_PCI_CHUNKSIZE=524288 -x NCCL_P2P_NVL_CHUNKSIZE=1048576 -x NCCL_BUFFSIZE=4194304 \
  "/third_party/nccl-tests-mpi/build/$1" -b "$5" -e "$6" -f 2 -g 1 -w 5 --iters 100 -c 0 2>&1
