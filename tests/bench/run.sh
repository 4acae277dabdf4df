#!/usr/bin/env bash
# Speed of the CPU engine next to llama.cpp on the same weights: prefill and decode, one thread, BF16, alternated.
#   tests/bench/run.sh [BUILD/bin/briareus] [--json] [--rounds N] [--threads N] [--no-llama]
# Needs $BRIAREUS_SHARED (tools and a tokenizer for the model that is made), npm for llama.cpp. Fails when a ratio is
# under 1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
shared=${BRIAREUS_SHARED:-$root/../shared}
cache=${BRIAREUS_BENCH_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/briareus-bench}
bin=$root/build/bin
args=() llama=1
while (($#)); do
    case $1 in
        --no-llama) llama=0 ;;
        --json) args+=("$1") ;;
        --rounds | --threads) args+=("$1" "$2"); shift ;;
        -*) echo "run.sh: unknown option $1" >&2; exit 2 ;;
        *) bin=$(cd "$(dirname "$1")" && pwd) ;;
    esac
    shift
done
[[ -x $bin/bench_engine ]] || { echo "run.sh: no $bin/bench_engine; run make build" >&2; exit 2; }

model=$cache/qwen2-115m
if [[ ! -e $model/config.json ]]; then
    mkdir -p "$cache"
    python3 "$shared/tools/make_model.py" qwen2 "$model" --tok "$shared/data/models/tiny-qwen2" \
        --layers 12 --hidden 768 --ffn 2560 --heads 12 --kv 4 --vocab 16384 >&2
fi
if ((llama)); then
    [[ -d $here/npm/node_modules/@node-llama-cpp ]] || (cd "$here/npm" && npm ci --omit=optional --ignore-scripts >&2)
    args+=(--gguf "$model.gguf" --llama "$here/npm/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")
fi
exec "$bin/bench_engine" --model "$model" --cache "$cache" "${args[@]}"
