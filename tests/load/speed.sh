#!/usr/bin/env bash
# How fast the load generator is on one processor, with the scripted server on another: 20,000 requests/s without
# streaming, 200,000 tokens/s streamed (100 streams, an event a token, eight in a write). Fails if either run is not valid. Wants a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

run() { # run NAME KIND GAP_US BATCH LOAD_OPTION...
  local name=$1 kind=$2 gap=$3 batch=$4 url server rc=0
  shift 4
  mkfifo "$work/$name.in"
  taskset -c 1 "$build/bin/load_stub" "$kind" 0 "$gap" "$batch" <"$work/$name.in" >"$work/$name.url" &
  server=$!
  exec 9>"$work/$name.in"
  until [ -s "$work/$name.url" ]; do kill -0 "$server"; done
  url=$(cat "$work/$name.url")
  taskset -c 0 "$build/bin/briareus" load --base-url "$url" --model m --quiet --brief --arrivals constant \
    --duration "${SECONDS_EACH:-5}s" --result-filename "$work/$name.json" "$@" >/dev/null || rc=$?
  exec 9>&-
  wait "$server"
  jq -r --arg name "$name" '"\($name): \(.request_throughput | floor) requests/s, \(.output_throughput | floor) tokens/s, "
    + "failed \(.failed), dispatch delay p99 \(.p99_dispatch_delay_ms * 100 | round / 100) ms, "
    + "no pause \(.generator.busy_share * 100 | round) %, valid \(.valid)"' "$work/$name.json"
  return $rc
}

status=0
run requests whole 0 1 --no-stream --request-rate 20000 --output-len 1 --input-len 16 || status=1
run tokens stream 4000 8 --request-rate 200 --output-len 1000 --input-len 16 || status=1
exit $status
