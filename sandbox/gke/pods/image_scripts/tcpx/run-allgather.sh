#!/bin/bash
# Simulated stand-in of the plug-in image. Arguments: GPUs per node, interfaces, smallest and
# largest size, hosts. The image's own build folders follow the caller's library path.
/scripts/run-nccl.sh all_gather_perf "${LD_LIBRARY_PATH:-}:/third_party/nccl-netsupport/build/lib:/plugins" "$@"
