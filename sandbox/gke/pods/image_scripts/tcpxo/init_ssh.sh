#!/bin/bash
# Simulated stand-in of the plug-in image: one ssh round trip to each host.
for host in "$@"; do
  ssh -o StrictHostKeyChecking=no -p "${PORT:-222}" "$host" echo "Hello from $host"
done
