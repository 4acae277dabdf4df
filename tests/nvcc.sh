#!/usr/bin/env bash
# Compiles every kernel with nvcc for all architectures that are supported (worker/device/cuda/nvcc.sh: warnings and spilled
# registers are errors) and prints what the assembler says each kernel takes. Does nothing where there is no nvcc.
# Usage: tests/nvcc.sh [FOLDER]    (for objects and logs; default build-nvcc)
set -euo pipefail
cd "$(dirname "$0")/.."
nvcc=$(command -v nvcc || true)
[ -n "$nvcc" ] || nvcc=/usr/local/cuda/bin/nvcc
if [ ! -x "$nvcc" ]; then
  echo "nvcc.sh: no nvcc here, kernels are compiled on the stand-in for CUDA alone"
  exit 0
fi
out=${1:-build-nvcc}
mkdir -p "$out"
(cd worker/device/cuda && printf '%s\n' *.cu) |
  xargs -P 2 -I '{}' worker/device/cuda/nvcc.sh "$nvcc" "$PWD" 'worker/device/cuda/{}' "$out/{}.o"
awk '
  /Compiling entry function/ { split($0, part, "\x27"); name = part[2]; arch = part[4] }
  /spill stores/ { spills = $5 + $9 }
  / Used [0-9]+ registers/ {
    match($0, /[0-9]+ registers/); registers = substr($0, RSTART) + 0
    shared = match($0, /[0-9]+ bytes smem/) ? substr($0, RSTART) + 0 : 0
    printf "%-6s %3d registers %6d bytes shared %d spilled  %s\n", arch, registers, shared, spills, name
    n++
  }
  END { printf "nvcc: %d kernels (one an architecture), no warnings, nothing spilled\n", n; exit n == 0 }' "$out"/*.log
