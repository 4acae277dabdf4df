#!/usr/bin/env bash
# One .cu file for every architecture that is supported, and PTX for later ones; what ptxas says of it goes to OBJECT.log.
# nvcc.sh NVCC PROJECT SOURCE OBJECT
set -euo pipefail
nvcc=$1 project=$2 source=$3 object=$4
if ! "$nvcc" -std=c++20 -O3 -I"$project" -D_GNU_SOURCE -Xcompiler -fPIC -Werror all-warnings -Xptxas -v,-warn-spills \
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_89,code=sm_89 \
    -gencode arch=compute_90,code=[sm_90,compute_90] -c "$source" -o "$object" >"$object.log" 2>&1; then
    cat "$object.log" >&2
    exit 1
fi
