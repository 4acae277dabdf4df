#!/usr/bin/env bash
# The same requests through the planner's simulator (virtual time) and through `briareus serve`: on simulated GPUs (wall
# time) and on a CPU device with steps measured by `briareus model bench` (models of 70 million parameters; the demo's).
# Usage: docs/measured/make-fidelity.sh [sim|cpu|demo|page]...   (all); environment: BUILD, KEEP (results,
# build/fidelity), SPAN, WARMUP, CPU_SPAN, CPU_WARMUP, DEMO_SPAN (seconds), SEED, SIM_RATES, CPU_SHARES, DEMO_RATES.
# cpu and demo want a quiet machine. `page` writes docs/measured/fidelity.md from what is in KEEP.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
keep=${KEEP:-build/fidelity}
seed=${SEED:-1}
sim_rates=${SIM_RATES:-.41 .83 1.24} # 30, 60 and 90 % of 1.38 requests/s, see the page
cpu_shares=${CPU_SHARES:-30 60 90}
demo_rates=${DEMO_RATES:-10 25 50}
mkdir -p "$keep"

run() { # run NAME DEVICES OPTION...: one run on so many devices, into $keep/NAME.json
  local name=$1 devices=$2
  shift 2
  "$build/bin/briareus" load --find-devices --policy slack --min-devices "$devices" --max-devices "$devices" \
    --seed "$seed" --quiet --ignore-eos --result-filename "$keep/$name.json" "$@" >"$keep/$name.txt" 2>&1 ||
    echo "$name: status $?; see $keep/$name.txt" >&2
  cut -d ' ' -f 2 /proc/loadavg >"$keep/$name.load"
}

sim() { # forty 72B models in 4 bits on eight H20; lengths and SLOs of policy.md
  local models=() rate i
  for i in $(seq 0 39); do models+=(--model "qwen72b-$i"); done
  for rate in $sim_rates; do
    run "sim-$rate" 8 "${models[@]}" --popularity equal --request-rate "$rate" --warmup "${WARMUP:-60}s" \
      --duration "$((${SPAN:-600} + ${WARMUP:-60}))s" --drain 120s --input-len lognormal:540:.78:16:4096 \
      --output-len lognormal:242:.6:16:2048 --prompt-format ids --vocab-size 200 --max-dispatch-delay 1s \
      -- --device sim:h20 --models-from docs/examples/models-40x72b.yaml &
  done
  wait
}

law="prompt=32:.5:8:96 output=80:.5:16:160"
load=(--input-len lognormal:32:.5:8:96 --output-len lognormal:80:.5:16:160 --max-dispatch-delay 200ms
  --prompt-format ids --vocab-size 500 --drain 30s)

# A request alone on an idle server says what each one takes beside its device: HTTP, Redis, processes that wake up.
lone() { # lone NAME RATE OPTION...
  local name=$1 rate=$2
  shift 2
  run "$name-lone" 1 --costs "$keep/$name-costs.json" --arrivals constant --request-rate "$rate" --duration 30s --warmup 3s "$@"
}

bench() { # bench NAME MEMORY LINK FOLDER...
  local name=$1 memory=$2 link=$3
  shift 3
  "$build/bin/briareus" model bench "$@" --threads 1 --device-memory "$memory" --device-link "$link" --repeat 7 --steps 8 \
    --prefill 16,32,64,128 --batch 1,2,4,8,16 --context 32,64,128 --json "$keep/$name-costs.json" >"$keep/$name-costs.txt"
}

# Models of 70 million parameters, a step of about 10 ms: few enough tokens a second for two processors also at 90 % of the
# goodput, which is the rate that plan holds at 90 %.
cpu() {
  local i share goodput plan models=() serve=(--device cpu --threads 1 --device-memory 320M --host-kv-memory 256M --device-link 450M)
  mkdir -p "$keep/models"
  [ -s "$keep/models/m70/config.json" ] || "$build/bin/briareus" model synth "$keep/models/m70" --hidden 768 --layers 10 \
    --ffn 2304 --heads 12 --kv-heads 4 >"$keep/models/log"
  for i in a b c; do
    models+=(--model "$i")
    serve+=(--model "$i=$keep/models/m70")
  done
  plan=(--model "$keep/models/m70 count=3 rate=1 $law")
  bench cpu 320M 450M "$keep/models/m70"
  goodput=$("$build/bin/briareus" plan --costs "$keep/cpu-costs.json" --context 256 --ttft 4s --tbt 80ms "${plan[@]}" \
    --policy slack --max rate --fleet 1 --seeds 1 --horizon 600 --quiet --json - | jq '.results[0].rate_90')
  echo "$goodput" >"$keep/goodput"
  lone cpu .5 --ttft 4s --tbt 80ms "${models[@]}" "${load[@]}" -- "${serve[@]}"
  for share in $cpu_shares; do
    run "cpu-$share" 1 --costs "$keep/cpu-costs.json" --request-rate "$(awk "BEGIN { print $goodput * $share / 100 }")" \
      --duration "$((${CPU_SPAN:-90} + ${CPU_WARMUP:-10}))s" --warmup "${CPU_WARMUP:-10}s" --ttft 4s --tbt 80ms "${models[@]}" \
      "${load[@]}" -- "${serve[@]}"
  done
}

# The demo's own models; a step takes .3 ms, and two processors do not carry the tokens of a device that is full.
demo() {
  local i rate models=() serve=(--device cpu --threads 1 --device-memory 7M --host-kv-memory 64M --device-link 256M)
  for i in prophet hacker newton; do
    models+=(--model "$i")
    serve+=(--model "$i=demo/models/$i")
  done
  bench demo 7M 256M demo/models/prophet demo/models/hacker demo/models/newton
  lone demo 2 --ttft 250ms --tbt 5ms "${models[@]}" "${load[@]}" -- "${serve[@]}"
  for rate in $demo_rates; do
    run "demo-$rate" 1 --costs "$keep/demo-costs.json" --request-rate "$rate" --duration "$((${DEMO_SPAN:-40} + 5))s" \
      --warmup 5s --ttft 250ms --tbt 5ms "${models[@]}" "${load[@]}" -- "${serve[@]}"
  done
}

table() { # table NAME ATTAINMENT_POINTS P50_PERCENT P99_PERCENT LONE_MS
  jq -r --argjson points "$2" --argjson p50 "$3" --argjson p99 "$4" --argjson lone "$5" '
    def n(d): if type == "number" then . * pow(10; d) | round / pow(10; d) | tostring else "-" end;
    def off($p; $l): if $p > 0 and ($l | type) == "number" then 100 * ($l - $p) / $p else null end;
    def row($name; $p; $l; d): "| \($name) | \($p | n(d)) | \($l | n(d)) | \(off($p; $l) | n(1)) % |";
    def verdict($what; $by; $limit; $unit): "- \($what) within \($limit) \($unit): " +
      (if $by == null then "unknown" elif ($by | fabs) <= $limit then "holds" else "does not hold (\($by | n(1)))" end);
    .workload as $w | .policies[0].trials[0] as $l | $l.plan as $p |
    ($p.ttft_ms | map_values(. + $lone)) as $ttft |
    "\($w.requests) requests in \($w.duration_s) s (\($w.request_rate | n(2))/s), \($l.failed) failed; dispatch delay " +
      "\($l.p99_dispatch_delay_ms | n(1)) ms (p99).", "",
    "| | planner | served | off |", "|---|--:|--:|--:|",
    row("tokens on time, %"; 100 * $p.attainment; 100 * $l.attainment; 2),
    (["mean", "p50", "p90", "p99"][] | row("TTFT \(.), ms"; $ttft[.]; $l.ttft_ms[.]; 1)),
    (["mean", "p50", "p90", "p99"][] | row("TBT \(.), ms"; $p.tbt_ms[.]; $l.tbt_ms[.]; 2)),
    row("switches a minute and device"; $p.switches_per_minute; $l.switches_per_minute; 1), "",
    verdict("attainment"; 100 * ($l.attainment - $p.attainment); $points; "points"),
    verdict("TTFT p50"; off($ttft.p50; $l.ttft_ms.p50); $p50; "%"),
    verdict("TTFT p99"; off($ttft.p99; $l.ttft_ms.p99); $p99; "%"),
    verdict("TBT p50"; off($p.tbt_ms.p50; $l.tbt_ms.p50); $p50; "%"),
    verdict("TBT p99"; off($p.tbt_ms.p99; $l.tbt_ms.p99); $p99; "%"), ""
  ' "$keep/$1.json"
  printf 'Load average of the machine (5 minutes) at the end: %s.\n\n' "$(cat "$keep/$1.load")"
}

beside() { # beside NAME: the lone request's difference, ms
  jq '.policies[0].trials[0] | .ttft_ms.p50 - .plan.ttft_ms.p50 | . * 100 | round / 100' "$keep/$1-lone.json"
}

page_cpu() {
  local share rate
  if [ -s "$keep/cpu-lone.json" ]; then
    cat <<'TEXT'
## Three copies of a model of 70 million parameters on one CPU device
One thread, 320 MB for weights (139 MB a model) and KV, a link of 450 MB/s; steps as measured by `briareus model bench`. Prompts
log-normal, median 32, sigma .5, answers 80 and .5; SLO 4 s and 80 ms.
TEXT
    printf 'The planner puts the goodput at %.2f requests/s. A request alone takes %s ms longer to its first token than its\ndevice does, which the figures below have added to the TTFTs of the planner.\n\n' \
      "$(cat "$keep/goodput")" "$(beside cpu)"
    for share in $cpu_shares; do
      [ -s "$keep/cpu-$share.json" ] || continue
      printf '### %s %% of the goodput\n' "$share"
      table "cpu-$share" 3 10 20 "$(beside cpu)"
    done
  fi
  if [ -s "$keep/demo-lone.json" ]; then
    cat <<'TEXT'
## The demo's three models on one CPU device
One thread, 7 MB (2.4 to 3.4 MB a model), 256 MB/s, the same lengths, SLO 250 ms and 5 ms. A step takes .3 ms: the tokens of a
device that is full are more than two processors carry beside it, so the rates are what they do carry. Tokens are stored
together for a millisecond, so that several come at once (gaps of 0).
TEXT
    printf 'A request alone takes %s ms longer than its device.\n\n' "$(beside demo)"
    for rate in $demo_rates; do
      [ -s "$keep/demo-$rate.json" ] || continue
      printf '### %s requests/s\n' "$rate"
      table "demo-$rate" 3 10 20 "$(beside demo)"
    done
  fi
}

page() {
  local rate
  {
    cat <<'TEXT'
# Does `briareus serve` do what `briareus plan` says?

Written by `docs/measured/make-fidelity.sh`. The very same requests through the real daemons (gateway, Redis, scheduler,
workers; asked over HTTP by `briareus load`) and through the planner's library on a virtual clock. Served latencies and
attainment count from when a request was due. Poisson arrivals, all models alike.

TEXT
    printf 'Seed %s, %s processors for all.\n\n' "$seed" "$(nproc)"
    if ls "$keep"/sim-*.json >/dev/null 2>&1; then
      cat <<'TEXT'
## Forty 72B models in 4 bits on eight simulated H20
`briareus plan --gpu H20 --model "Qwen2.5-72B count=40 weights=int4" --policy slack --max rate --fleet 8 --seeds 1` puts the
goodput (90 % on time) at 1.38 requests/s. Prompts log-normal, median 540, sigma .78, answers 242 and .6; SLO 10 s to the
first token, 100 ms between tokens. The runs went side by side.

TEXT
      for rate in $sim_rates; do
        [ -s "$keep/sim-$rate.json" ] || continue
        printf '### %s requests/s\n' "$rate"
        table "sim-$rate" 1 5 5 0
      done
    fi
    page_cpu
  } >docs/measured/fidelity.md
}

for what in "${@:-sim cpu demo page}"; do
  for one in $what; do "$one"; done
done
