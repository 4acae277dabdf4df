#!/usr/bin/env bash
# Writes docs/measured/gpu-savings.md from runs of `briareus plan`; traffic is read from $BRIAREUS_SHARED (default
# ../shared). What a run prints is kept in RUNS and not run again, so that the script can be stopped and started.
# Usage: docs/measured/make-gpu-savings.sh [PROGRAM [RUNS]]     (default build/bin/briareus build/gpu-savings)
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/bin/briareus}
runs=${2:-build/gpu-savings}
traces=${BRIAREUS_SHARED:-../shared}/data/traces
out=docs/measured/gpu-savings.md
mkdir -p "$runs"

section() { # NAME OPTION...: the command and what it printed
  local name=$1 file=$runs/$1.txt
  shift
  if [ ! -s "$file" ]; then
    "$program" plan --quiet "$@" >"$file.new" || exit 1
    mv "$file.new" "$file"
  fi
  echo
  printf '    briareus plan'
  for word in "$@"; do
    word=${word//$traces\//}
    case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac
  done
  printf '\n\n'
  cat "$file"
}

tail=(--market "$traces/servegen_tail_rates.csv" --market-models "$traces/servegen_tail_models.csv"
  --large-dedicated-tp 4 --gpu H20 --horizon 1200)
tail4=(--market "$traces/servegen_tail_rates.csv" --market-models "$traces/servegen_tail_models.csv"
  --large-weights int4 --large-dedicated-tp 1 --gpu H20 --horizon 1200)
{
  cat <<'TEXT'
# How many GPUs are saved

Written by `docs/measured/make-gpu-savings.sh` from simulated runs of the scheduler's own policies. `docs/planning.md`
says what the columns are.

What the figures say: with these models, this traffic and these costs, so many GPUs have 99 % of all tokens on time, and
no pool less than 90 % of those that could be. *fewer, %* compares with a replica a model (more where one does not keep
up) under the same rule and with the same redundancy. *fluid compute bound* is what ideal batching without any switch
would need, *host-memory floor* the GPUs that come with the memory for one copy of every model.

What they do not say: steps take what `cost/` predicts (docs/measured/costs.md), so errors there are errors here; loads
run at what large copies from pinned memory reach; tensor-parallel groups, 4-bit weights and FP8 KV are predicted by
formulas that no measurement here checks; nothing fails, and no time is lost between processes. Requests' prompts share
no prefixes. A need is the largest of a few seeds, so another day may need more.

## A market's tail as published
`dedicated` has the 32B and 72B models on four GPUs each, as published.
TEXT
  section market --scenario market
  section market-n1 --scenario market --redundancy 1 --policy slack --policy dedicated
  cat <<'TEXT'

With 4-bit weights for the 32B and 72B models, against the published deployment and against one GPU a model:
TEXT
  section market-int4 --scenario market --large-weights int4
  section market-int4-same --scenario market --large-weights int4 --policy slack --policy dedicated --model \
    "Qwen2.5-1.5B count=7" --model "Qwen2.5-3B count=5" --model "Qwen2.5-7B count=16" --model "Qwen2.5-32B count=11" \
    --model "Qwen2.5-72B count=8"
  cat <<'TEXT'

## A real market's tail
147 low-rate clients of Alibaba Model Studio, each taken as one model of a drawn size (ServeGen); the busiest 20 minutes of
the day. First at rates scaled to a mean of .037 requests/s over the day, then as they are and four times as much. Long
prompts (60,000 tokens for a 72B model) take longer than the 10 s to the first token even alone; tokens that are late for
that reason alone count as late.
TEXT
  section tail-scaled "${tail[@]}" --mean-rate .037 --seeds 2
  section tail-scaled-int4 "${tail4[@]}" --mean-rate .037 --seeds 2
  section tail-x1 "${tail[@]}" --seeds 1 --policy slack --policy aegaeon --policy dedicated
  section tail-x1-int4 "${tail4[@]}" --seeds 1 --policy slack --policy dedicated
  section tail-x4 "${tail[@]}" --rate-scale 4 --seeds 1 --policy slack --policy dedicated --horizon 600
  cat <<'MORE'

Why more than ideal batching would need: the bound spreads the span's work evenly, and 1 % of tokens is less than what a
burst holds. At 90 % of tokens the same traffic needs little more than the bound:
MORE
  section tail-scaled-int4-90 "${tail4[@]}" --mean-rate .037 --seeds 2 --policy slack --target .9 --pool-floor .5
  cat <<'TEXT'

## The paper's workloads
Models that two nodes hold, with fitted costs.
TEXT
  section fig11a --scenario paper-fig11a
  section fig11b --scenario paper-fig11b
  cat <<'TEXT'

## Models of 72 billion parameters
TEXT
  section h20-72b --scenario h20-72b
  section l20-72b --scenario l20-72b
  section l20-72b-tp1 --scenario l20-72b --model "Qwen2.5-72B weights=int4 kv=fp8 rate=.037 tp=1"
} >"$out.new"
mv "$out.new" "$out"
