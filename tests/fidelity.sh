#!/usr/bin/env bash
# The same requests through the real daemons (`briareus serve` on simulated GPUs) and through the simulator behind
# `briareus plan`: attainment within 1 point, median and p99 TTFT within 10 %, scheduler and gateway under half a core.
# Prints both side by side; exit 1 if a bar does not hold. docs/measured/make-fidelity.sh writes the page, by other means.
# Usage: tests/fidelity.sh [BUILD]    environment: MODELS GPU DEVICES RATE SPAN WARMUP SEED PORT KEEP (a folder)
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
models=${MODELS:-docs/examples/models-40x72b.yaml}
gpu=${GPU:-h20} devices=${DEVICES:-8}
rate=${RATE:-.83} span=${SPAN:-600} warmup=${WARMUP:-60} seed=${SEED:-1} # .83 = 60 % of the goodput, see the page
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
ticks=$(getconf CLK_TCK)
serve=

end() {
  if [ -n "$serve" ]; then
    kill "$serve" 2>/dev/null || true
    wait "$serve" || true
  fi
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap end EXIT

cpu_ticks() { # of a process: user and system
  sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

node_ticks() { # of the processes below another one
  local sum=0 pid
  for pid in $(cat "/proc/$1/task/$1/children"); do
    sum=$((sum + $(cpu_ticks "$pid") + $(node_ticks "$pid")))
  done
  echo "$sum"
}

pid_of() { # the child of serve with that name
  sed -n "s/.*event=child_started name=$1 pid=//p" "$work/serve.log" | tail -n 1
}

all_s=$((span + warmup))
"$build/bin/sim_fidelity" trace "$models" "$rate" "$all_s" "$seed" >"$work/trace.csv"
"$build/bin/sim_fidelity" run "$models" "$work/trace.csv" "$gpu" "$devices" "$warmup" "$all_s" >"$work/sim.json"

"$build/bin/briareus" serve --device "sim:$gpu" --devices "$devices" --models-from "$models" --admission=false --port "${PORT:-0}" \
  --port-file "$work/port" --data-dir "$work/data" --run-dir "$work/run" >"$work/serve.log" 2>&1 &
serve=$!
up() { [ -s "$work/port" ] && [ "$(grep -c event=device_up "$work/serve.log")" -ge "$devices" ]; }
until up; do
  kill -0 "$serve"
  sleep .1
done
url=http://127.0.0.1:$(cat "$work/port")
scheduler=$(pid_of scheduler)
# Metrics are sums: what the warm-up did is taken off.
switches() { curl -sf "$url/stats" | jq "[.devices[].switches] | add"; }
(
  sleep "$warmup"
  switches >"$work/switches"
  cpu_ticks "$scheduler" >"$work/ticks"
  node_ticks "$serve" >"$work/all_ticks"
  sleep "$span"
  switches >>"$work/switches"
  cpu_ticks "$scheduler" >>"$work/ticks"
  node_ticks "$serve" >>"$work/all_ticks"
) &
samples=$!
"$build/bin/briareus" load --base-url "$url" --dataset-path "$work/trace.csv" --duration "${all_s}s" \
  --warmup "${warmup}s" --prompt-format ids --vocab-size 200 --ignore-eos --drain 120s --max-dispatch-delay 1s \
  --metric-percentiles 50,90,99 --save-records "$work/records.jsonl" --result-filename "$work/load.json" \
  --brief --quiet >"$work/load.txt" || cat "$work/load.txt"
wait "$samples"

per_s() { awk -v t="${2:-1}" -v s="$span" 'NR == 1 { a = $1 } NR == 2 { printf "%.3f", ($1 - a) / t / s }' "$1"; }
jq -n --slurpfile sim "$work/sim.json" --slurpfile live "$work/load.json" \
  --argjson switches "$(per_s "$work/switches")" --argjson core "$(per_s "$work/ticks" "$ticks")" \
  --argjson all "$(per_s "$work/all_ticks" "$ticks")" --argjson devices "$devices" -rf tests/fidelity.jq >"$work/table.md"
cat "$work/table.md"
! grep -q 'does not hold' "$work/table.md"
