#!/usr/bin/env bash
# Writes docs/measured/costs.md from the measurements in $BRIAREUS_SHARED (default ../shared).
# Usage: docs/measured/make-costs.sh [PROGRAM]     (default build/bin/briareus)
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/bin/briareus}
profiles=${BRIAREUS_SHARED:-../shared}/data/profiles
out=docs/measured/costs.md

section() { # FILE: the command and what it printed
  echo
  echo "    briareus plan costs --check $1"
  echo
  "$program" plan costs --check "$profiles/$1"
}

{
  cat <<'TEXT'
# How well the cost model predicts

Written by `docs/measured/make-costs.sh`; the files are described in the shared data's README.

The model (`cost/cost.h`) is a roofline over data-sheet figures with eight coefficients a GPU: efficiency of memory and
of compute, seconds a layer, a step, a decoding sequence and a chunk of prompt, and two for reading KV. They are fitted
to relative errors, first on all GPUs together, then on the GPU's own rows drawn to that result.

- *median*, *worst*: of |predicted / measured - 1| over rows that the fit did not see. *bias*: the median with its sign.
- *alone*: the median when the fit saw no row of that GPU at all. For H20, where one model was measured, the two are the
  same thing.
- The form of the model (which terms there are, tiles of 64 and 128 rows) was chosen with these files in view; only the
  coefficients are held out.

What the figures do not say: the steps were measured with vLLM 0.5.1 without CUDA graphs on 7-14B models in 16 bits on
single GPUs, and their overheads (1.7-3 ms a step, 60-90 us a sequence) are that engine's. Quantised weights, FP8 KV,
mixtures of experts, contexts beyond 4096 tokens, fused steps and the all-reduces of tensor-parallel groups are
predicted by the same formulas but are not checked here.

## Steps: 7-14B models on five GPUs
TEXT
  section aegaeon_artifact_steps.csv
  cat <<'TEXT'

Where the largest errors are. Prefill: Yi-1.5-6B on H800 took 1.29 x the time of Qwen-7B (median beyond 1024 tokens in a
batch; same layers, fewer weights) and on A100 0.96 x, which no model of the shape alone can say. Decode: H100 and H800 are the
same chip with the same memory, yet of H800's time H100 took 1.05 for Qwen2.5-7B at batches up to 8, 0.95 for
Llama-2-13B, and 0.85 and 0.86 at batches of 70 and more, so that each model is a poor guide to the other there.

## Operators of one layer: Qwen-72B by tensor-parallel degree
No row of this file is used for the pair it is predicted for: how fast the GPU reads memory and multiplies comes from the
steps above (other models, another engine), the time of a launch and of the small operators from the other GPU. *layer*
is the sum of all operators of a row, *products* the four matrix products one by one; *alone* leaves the GPU's steps out
as well.
TEXT
  section vidur_qwen72b_layer_ops.csv
} >"$out.new"
mv "$out.new" "$out"
