#!/bin/bash
# Simulated stand-in of the plug-in image: /scripts/hostfiles<hosts>/hostfile<ranks per host>.
folder="/scripts/hostfiles$#"
echo "generating hostfiles for $# hosts: "
printf '%s\n' "$@"
mkdir -p "$folder"
for slots in 1 2 4 8; do
  printf "%s port=222 slots=$slots\n" "$@" > "$folder/hostfile$slots"
done
