#!/usr/bin/env bash
# What loading weights and swapping KV costs beside plain copies, and how much of a load is hidden; exits 1 when a bar
# is missed.  tests/bench/transfers.sh [BUILD/bin/briareus] [--threads N] [--rounds N] [--only weights|kv|planned|unplanned]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../../build/bin
if (($#)) && [[ $1 != -* ]]; then bin=$(cd "$(dirname "$1")" && pwd); shift; fi
[[ -x $bin/bench_transfers ]] || { echo "transfers.sh: no $bin/bench_transfers; run make build" >&2; exit 2; }
cache=${BRIAREUS_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/briareus-bench}
model=$cache/synth-115m
if [[ ! -e $model/config.json ]]; then
    mkdir -p "$cache"
    "$bin/briareus" model synth --layers 12 --hidden 768 --ffn 2560 --heads 12 --kv-heads 4 --vocab 16384 "$model" >&2
fi
exec "$bin/bench_transfers" --model "$model" --cache "$cache" "$@"
