#!/usr/bin/env bash
# Serves three models on ONE device whose memory holds one and a half of them, puts open-loop load on them, then the
# same load on three devices with a model each, and shows both. DEMO_SECONDS=30 is the length of each run.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build/bin/briareus}
seconds=${DEMO_SECONDS:-30}
rate=${DEMO_RATE:-2}
models=(prophet hacker newton)
work=$(mktemp -d)
pid=
cleanup() {
  if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

args=()
load=()
for m in "${models[@]}"; do
  args+=(--model "$m=demo/models/$m")
  load+=(--model "$m=$rate")
done
# Weights of one model take about 3.3 MB in device layout: 5 MB are one and a half, and 2 MB are for KV. At 256 MB/s a
# load takes about as long as 40 decode steps, as that of a 7B model on a GPU does.
memory=(--host-kv-memory 64M --device-link 256M --tbt 50ms --ttft 1s)

serve() { # serve NAME OPTION...: starts a server; its log goes to $work/NAME.log
  local name=$1 waited=0
  shift
  "$bin" serve "${args[@]}" "${memory[@]}" --admission=false --port 0 --port-file "$work/$name.port" \
    --data-dir "$work/$name" "$@" 2>"$work/$name.log" &
  pid=$!
  until [ -s "$work/$name.port" ] && curl -sf "http://127.0.0.1:$(cat "$work/$name.port")/health" >/dev/null; do
    kill -0 "$pid" 2>/dev/null || { tail -20 "$work/$name.log" >&2; exit 1; }
    [ $((waited += 1)) -lt 600 ] || { echo "demo: the server does not come up" >&2; exit 1; }
    sleep 0.1
  done
  url=http://127.0.0.1:$(cat "$work/$name.port")
}
stop() {
  kill "$pid"
  wait "$pid" || true
  pid=
}
measure() { # measure NAME: the load, its table, the server's own counts
  local name=$1
  for m in "${models[@]}"; do # the first answer of each model warms it up
    curl -sf "$url/v1/completions" -d "{\"model\": \"$m\", \"prompt\": \"a\", \"max_tokens\": 2}" >/dev/null
  done
  curl -sf "$url/stats" >"$work/$name.before.json"
  "$bin" load --base-url "$url" "${load[@]}" --duration "${seconds}s" --drain 30s --prompts demo/prompts.txt \
    --output-len 100 --temperature 0.7 --ttft 1s --tbt 50ms --seed 1 --brief \
    --result-filename "$work/$name.json"
  curl -sf "$url/stats" >"$work/$name.stats.json"
}

echo "== three models, one device with memory for one and a half ($rate requests/s each, ${seconds} s)"
serve shared --device-memory 7M
measure shared
echo
echo "== one answer of each"
for m in "${models[@]}"; do
  printf '%-8s ' "$m"
  curl -sf "$url/v1/chat/completions" -d "{\"model\": \"$m\", \"max_tokens\": 60, \"temperature\": 0.5, \"seed\": 3,
    \"messages\": [{\"role\": \"user\", \"content\": \"What is light?\"}]}" | jq -r '.choices[0].message.content' | head -3
done
stop
echo
echo "== the same load on three devices, a model each"
serve dedicated --devices 3 --dedicated --device-memory 7M
measure dedicated
stop

echo
jq -rn --slurpfile s "$work/shared.json" --slurpfile d "$work/dedicated.json" \
  --slurpfile s0 "$work/shared.before.json" --slurpfile s1 "$work/shared.stats.json" \
  --slurpfile d0 "$work/dedicated.before.json" --slurpfile d1 "$work/dedicated.stats.json" '
  def pad(n): tostring | (" " * ([n - length, 0] | max)) + .;
  def num(d): (. * pow(10; d) | round) / pow(10; d);
  def delta(a; b; k): ([b[0].devices[][k]] | add) - ([a[0].devices[][k]] | add);
  def row(name; a; b): (name | . + " " * (34 - length)) + (a | pad(14)) + (b | pad(18));
  row("== side by side"; "one device"; "three dedicated"),
  row("attainment (TTFT 1 s, TBT 50 ms)"; "\(100 * $s[0].attainment | num(2)) %"; "\(100 * $d[0].attainment | num(2)) %"),
  row("TTFT p50 / p99, ms"; "\($s[0].median_ttft_scheduled_ms | num(1)) / \($s[0].p99_ttft_scheduled_ms | num(1))";
    "\($d[0].median_ttft_scheduled_ms | num(1)) / \($d[0].p99_ttft_scheduled_ms | num(1))"),
  row("TBT p50 / p99, ms"; "\($s[0].median_itl_ms | num(1)) / \($s[0].p99_itl_ms | num(1))";
    "\($d[0].median_itl_ms | num(1)) / \($d[0].p99_itl_ms | num(1))"),
  row("switches"; delta($s0; $s1; "switches"); delta($d0; $d1; "switches")),
  row("weights loaded, MB"; delta($s0; $s1; "loaded_bytes") / 1e6 | num(1); delta($d0; $d1; "loaded_bytes") / 1e6 | num(1)),
  row("KV moved out and in, MB"; (delta($s0; $s1; "kv_out_bytes") + delta($s0; $s1; "kv_in_bytes")) / 1e6 | num(1);
    (delta($d0; $d1; "kv_out_bytes") + delta($d0; $d1; "kv_in_bytes")) / 1e6 | num(1)),
  row("time lost to switching"; "\(100 * delta($s0; $s1; "stalled_s") / delta($s0; $s1; "wall_s") | num(2)) %";
    "\(100 * delta($d0; $d1; "stalled_s") / delta($d0; $d1; "wall_s") | num(2)) %"),
  row("a load costs, decode steps"; [$s1[0].devices[].models[] | .load_s / .step_s] | min | num(0); "-")'
picture=$(dirname "$(dirname "$bin")")/demo.svg
jq -rn --slurpfile s "$work/shared.json" --slurpfile d "$work/dedicated.json" \
  '{shared: $s[0], dedicated: $d[0]}' | jq -r -f demo/chart.jq >"$picture"
echo
echo "The same as a picture: $picture"
cat <<END

Keep it running and try it:
    $bin serve ${args[*]} \\
        ${memory[*]} --device-memory 7M
    curl -N http://127.0.0.1:8000/v1/chat/completions -d '{"model": "prophet", "stream": true,
        "messages": [{"role": "user", "content": "What is wisdom?"}]}'
END
