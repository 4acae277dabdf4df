#!/usr/bin/env bash
# Three times as much as the devices can do on time, for two minutes, through the real daemons on simulated GPUs: what is
# accepted keeps 99 % of its tokens on time; of those refused and coming back when they were told, 95 % are taken.
# Prints both; exit 1 if a bar does not hold. Takes two minutes and the longest wait, some eight, in all.
# Usage: tests/load/overload.sh [BUILD]    environment: MODELS DEVICES RATE SPAN SEED KEEP (a folder)
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
models=${MODELS:-docs/examples/models-40x72b.yaml} devices=${DEVICES:-8}
rate=${RATE:-4.2} span=${SPAN:-120} seed=${SEED:-1} # 3 times the goodput (90 %) that `briareus plan` says
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work"
serve=

end() {
  if [ -n "$serve" ]; then
    kill "$serve" 2>/dev/null || true
    wait "$serve" || true
  fi
  [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap end EXIT

"$build/bin/briareus" serve --device sim:h20 --devices "$devices" --models-from "$models" --port 0 \
  --port-file "$work/port" --data-dir "$work/data" --run-dir "$work/run" >"$work/serve.log" 2>&1 &
serve=$!
until [ -s "$work/port" ] && [ "$(grep -c event=device_up "$work/serve.log")" -ge "$devices" ]; do
  kill -0 "$serve"
  sleep .1
done
PORT=$(cat "$work/port") RATE=$rate SPAN=$span SEED=$seed node --input-type=module - <<'JS'
import { overload } from './tests/load/overload.mjs';
const { PORT, RATE, SPAN, SEED } = process.env, url = `http://127.0.0.1:${PORT}`;
const models = (await (await fetch(`${url}/v1/models`)).json()).data.map((m) => m.id);
const r = await overload({ url, models, rate: Number(RATE), seconds: Number(SPAN), seed: Number(SEED),
  slo: { ttft: 10, tbt: .1 } });
const bar = (what, value, least) => {
  console.log(`${what}: ${value.toFixed(4)} (at least ${least}) ${value >= least ? 'holds' : 'does not hold'}`);
  return value >= least;
};
console.log(`${r.offered} offered at ${RATE}/s for ${SPAN} s, ${r.accepted} accepted at first, ${r.refused} refused, ` +
  `${r.welcome} of ${r.came_back} taken when they came back; Retry-After median ${r.retry_p50} s, longest ${r.retry_max} s`);
const whole = bar('answers that came whole', 1 - r.broken / (r.accepted + r.welcome), 1);
const kept = bar('attainment of what was accepted', r.attainment, .99);
process.exit(bar('taken, of those that came back', r.welcome_share, .95) && kept && whole ? 0 : 1);
JS
