#!/usr/bin/env bash
# How few devices hold 99 % of tokens on time, measured: `briareus load --find-devices` on real daemons, policy by policy.
#   sim: forty 72B models in 4 bits on simulated H20 (wall time; policies side by side, since the devices do not compute)
#   cpu, demo: twelve models of 70 million parameters, of the demo's size, on CPU devices (want a quiet machine)
# Usage: docs/measured/make-saving.sh [sim|cpu|demo|page]...   (all); environment: BUILD, KEEP (results, build/saving),
# SPAN, WARMUP, CPU_SPAN, CPU_WARMUP, DEMO_SPAN (seconds), RATE, CPU_RATE, DEMO_RATE (requests/s of all models), SEED.
# `page` writes docs/measured/saving.md from what is in KEEP.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
keep=${KEEP:-build/saving}
seed=${SEED:-1}
policies=(dedicated request aegaeon slack)
mkdir -p "$keep"

find_devices() { # find_devices NAME OPTION...: into $keep/NAME.json and .txt
  local name=$1
  shift
  "$build/bin/briareus" load --find-devices --target 99 --seed "$seed" --quiet --ignore-eos \
    --result-filename "$keep/$name.json" --html "$keep/$name.html" "$@" >"$keep/$name.txt" 2>&1 ||
    echo "$name: status $?; see $keep/$name.txt" >&2
  cut -d ' ' -f 3 /proc/loadavg >"$keep/$name.load"
}

sim() { # as in policy.md: .037 requests/s a model, prompts 540/.78, answers 242/.6, SLO 10 s / 100 ms
  local load=(--popularity equal --request-rate "${RATE:-1.48}" --duration "$((${SPAN:-300} + ${WARMUP:-30}))s"
    --warmup "${WARMUP:-30}s" --drain 60s --input-len lognormal:540:.78:16:4096 --output-len lognormal:242:.6:16:2048
    --prompt-format ids --vocab-size 200 --max-dispatch-delay 1s) policy i
  for i in $(seq 0 39); do load+=(--model "qwen72b-$i"); done
  for policy in "${policies[@]}"; do
    find_devices "sim-$policy" --policy "$policy" "${load[@]}" \
      -- --device sim:h20 --models-from docs/examples/models-40x72b.yaml &
  done
  wait
  jq -s '.[0] + {policies: (map(.policies) | add)}' $(printf "$keep/sim-%s.json " "${policies[@]}") >"$keep/sim.json"
}

cpu_world() { # cpu_world NAME "FOLDER..." LOAD_OPTIONS... -- SERVE_OPTIONS...: twelve models, of the folders in turn
  local name=$1 folders=$2 load=() serve=() memory=() i f
  shift 2
  while [ "$1" != -- ]; do load+=("$1") && shift; done
  shift
  serve=(--device cpu --threads 1 "$@")
  memory=("$(value --device-memory "$@")" "$(value --device-link "$@")")
  for i in $(seq 0 $((12 / $(wc -w <<<"$folders") - 1))); do
    for f in $folders; do
      serve+=(--model "$(basename "$f")-$i=$f")
      load+=(--model "$(basename "$f")-$i")
    done
  done
  # shellcheck disable=SC2086
  "$build/bin/briareus" model bench $folders --threads 1 --device-memory "${memory[0]}" --device-link "${memory[1]}" \
    --prefill 16,32,64,128 --batch 1,2,4,8 --context 32,64,128 --repeat 5 --steps 8 --json "$keep/$name-costs.json" \
    >"$keep/$name-costs.txt"
  find_devices "$name" --costs "$keep/$name-costs.json" --popularity zipf:1 --prompt-format ids --drain 30s "${load[@]}" \
    -- "${serve[@]}"
}

value() { # value NAME WORD...: the word behind that one
  local name=$1
  while shift && [ $# -gt 1 ]; do
    if [ "$1" = "$name" ]; then echo "$2"; fi
  done
}

# Models of 70 million parameters: a step of about 10 ms alone, so that what the other processes do to a step counts for
# little, and few enough tokens a second for two processors. A load costs about thirty such steps; SLOs in the same
# proportion to a step as 10 s and 100 ms are to a 72B model's 30 ms.
cpu() {
  mkdir -p "$keep/models"
  [ -s "$keep/models/m70/config.json" ] || "$build/bin/briareus" model synth "$keep/models/m70" --hidden 768 --layers 10 \
    --ffn 2304 --heads 12 --kv-heads 4 >"$keep/models/log"
  cpu_world cpu "$keep/models/m70" --request-rate "${CPU_RATE:-.5}" \
    --duration "$((${CPU_SPAN:-150} + ${CPU_WARMUP:-10}))s" --warmup "${CPU_WARMUP:-10}s" --ttft 4s --tbt 80ms \
    --input-len lognormal:32:.5:8:96 --output-len lognormal:80:.5:16:160 --vocab-size 500 --max-dispatch-delay 200ms \
    -- --device-memory 320M --host-kv-memory 256M --device-link 450M
}

# The demo's own models, memory, link and SLOs; a step takes .3 ms alone, so rates that would fill more than a device or
# two make more tokens than two processors can carry.
demo() {
  cpu_world demo "demo/models/prophet demo/models/hacker demo/models/newton" --request-rate "${DEMO_RATE:-12}" \
    --duration "$((${DEMO_SPAN:-40} + 5))s" --warmup 5s --ttft 1s --tbt 50ms --input-len lognormal:32:.5:8:96 \
    --output-len lognormal:80:.5:16:160 --vocab-size 500 --max-dispatch-delay 200ms \
    -- --device-memory 7M --host-kv-memory 64M --device-link 256M
}

table() { # table WORLD
  jq -r '
    def n(d): if type == "number" then . * pow(10; d) | round / pow(10; d) | tostring else "-" end;
    "\(.workload.models) models, \(.workload.requests) requests in \(.workload.duration_s) s " +
    "(\(.workload.request_rate | n(2))/s; \(.workload.warmup_s) s of warm-up do not count), prompts of " +
    "\(.workload.mean_prompt_tokens | n(0)) and answers of \(.workload.mean_output_tokens | n(0)) tokens, SLO " +
    "\(.workload.ttft_s * 1000 | n(0)) ms / \(.workload.tbt_s * 1000 | n(1)) ms, seed \(.workload.seed).", "",
    "| policy | devices | plan says | on time, % | plan at that count, % | TTFT p50, ms | p99, ms | all runs: devices and % on time |",
    "|---|--:|--:|--:|--:|--:|--:|---|",
    (.policies[] | "| \(.policy) | \(.devices | n(0)) | \(.plan_devices | n(0)) | \(.attainment | if . then 100 * . else . end | n(2)) | " +
      "\(.plan_attainment | if . then 100 * . else . end | n(2)) | \(.median_ttft_scheduled_ms | n(1)) | \(.p99_ttft_scheduled_ms | n(1)) | " +
      ([.trials | sort_by(.devices)[] | "\(.devices): \(if .stopped_early then "<= " else "" end)\(100 * .attainment | n(2))"] | join(", ")) + " |"),
    "",
    (def of($p): first(.policies[] | select(.policy == $p));
     of("slack") as $s | of("dedicated") as $d |
     (if $s.devices and $d.devices then "- `slack` needs a quarter of `dedicated` at most: " +
       (if 4 * $s.devices <= $d.devices then "holds (\($s.devices) of \($d.devices))" else "does not hold (\($s.devices) of \($d.devices))" end)
      else "- `slack` or `dedicated` holds at no count that was tried" end),
     "- `slack` needs no more than any other: " + (if $s.devices and ([.policies[].devices | select(.)] | min) == $s.devices then "holds" else "does not hold" end),
     (.policies[] | select(.devices and .plan_devices) | "- plan within one device, \(.policy): " +
       (if (.devices - .plan_devices | fabs) <= 1 then "holds" else "does not hold" end)))
  ' "$keep/$1.json"
  printf '\nLoad average of the machine (15 minutes) at the ends of the searches: %s.\n' \
    "$(cat "$keep/$1".load "$keep/$1"-*.load 2>/dev/null | sort -n | paste -sd ' ')"
}

page() {
  {
    cat <<'TEXT'
# Devices saved, measured

Written by `docs/measured/make-saving.sh`: `briareus load --find-devices` starts the real daemons (gateway, Redis, scheduler,
workers) with more and fewer devices under each policy, puts the same load on each over HTTP, and finds the fewest with
99 % of tokens on time. A run that cannot reach that any more ends early: its figure is then an upper bound. `plan says`: the
planner's library on the very same requests, on a virtual clock. Live, `aegaeon` has its turns on every device, prompts
included, and requests are placed as `slack` places them (workers hand no KV from device to device); the planner simulates it
as published, with devices that only prefill: its prediction is of another system there.

TEXT
    if [ -s "$keep/sim.json" ]; then
      printf '## Forty 72B models in 4 bits on simulated H20\n'
      table sim
      echo
    fi
    if [ -s "$keep/cpu.json" ]; then
      cat <<'TEXT'
## Twelve models of 70 million parameters on CPU devices
Twelve copies of one random model (139 MB); a device is one thread with 320 MB for weights and KV behind a link of
450 MB/s, so that a load takes about thirty decode steps. Rates fall as 1/rank from model to model.

TEXT
      table cpu
      echo
    fi
    if [ -s "$keep/demo.json" ]; then
      cat <<'TEXT'
## Twelve models of the demo's size on CPU devices
Four copies each of the demo's three models (2.4 to 3.4 MB), a device as in the demo: 7 MB, 256 MB/s, so that a load takes 9 to
13 ms, about forty decode steps.

TEXT
      table demo
    fi
    if [ -s "$keep/cpu.json" ] || [ -s "$keep/demo.json" ]; then
      printf '\nThe machine has %s processors for all devices, Redis, the scheduler and the load generator together.\n' "$(nproc)"
    fi
  } >docs/measured/saving.md
}

for what in "${@:-sim cpu demo page}"; do
  for one in $what; do "$one"; done
done
