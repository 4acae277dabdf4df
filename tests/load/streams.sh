#!/usr/bin/env bash
# Many streams at once through the scheduler, from simulated devices: none fails, tokens in order, and what a stream and
# a token cost the scheduler (memory; processor time, Redis apart), beside what passing the same bytes on costs nginx.
#   tests/load/streams.sh [BUILD [STREAMS [TOKENS]]]        (10000 streams of 30 tokens)
# All streams are open before the first token: devices come when every request is accepted. Prints one line of JSON a run
# and fails beyond the bounds: 16 KiB a stream, 10 us a token. Wants two quiet processors, and nginx-light for the second
# run (half as many streams: nginx needs two file descriptors for each).
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=${1:-build}/bin/briareus
streams=${2:-10000} tokens=${3:-30}
work=$(mktemp -d)
pids=()
stop() {
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do kill "${pids[i]}" 2>/dev/null && wait "${pids[i]}" 2>/dev/null || true; done
  pids=()
}
trap 'stop; rm -rf "$work"' EXIT
ulimit -n "$(ulimit -Hn)"
port=18200
echo "models: [{name: m, catalogue: Qwen2.5-7B, weights: int4, context: 2048}]" >"$work/models.yaml"
ticks=$(getconf CLK_TCK)

await() { # await WHAT COMMAND...
  local what=$1 tries=0
  shift
  until "$@" >/dev/null 2>&1; do
    ((++tries < 600)) || { echo "streams.sh: no $what" >&2; tail -n 3 "$work"/*.log >&2; exit 1; }
    sleep 0.05
  done
}
cpu_s() { # of processes, with their threads
  local pid sum=0 u s
  for pid in "$@"; do
    read -r u s < <(sed 's/.*) //' "/proc/$pid/stat" | cut -d' ' -f12,13)
    sum=$((sum + u + s))
  done
  echo "scale=3; $sum / $ticks" | bc
}
rss_kib() { awk "/^$1:/ {print \$2}" "/proc/$2/status"; }
unfinished() { curl -sf "http://127.0.0.1:$port/stats" | jq .unfinished; }
open_streams() { [ "$(unfinished)" -ge "$1" ]; }
ask() { # ask SEED: the text of an answer, streamed
  curl -sN "http://127.0.0.1:$to/v1/completions" -d "{\"model\": \"m\", \"prompt\": [$1, 2, 3], \"seed\": $1,
    \"max_tokens\": $tokens, \"ignore_eos\": true, \"stream\": true}" | sed -n 's/^data: //p' |
    jq -Rj 'fromjson? | .choices[0].text // empty'
}

start() {
  redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no --dir "$work" >"$work/redis.log" &
  pids+=($!)
  await Redis redis-cli -s "$work/redis.sock" ping
  "$bin" scheduler --models-from "$work/models.yaml" --redis "unix:$work/redis.sock" --port $port --max-unfinished 20000 \
    --scheduler-address "unix:$work/worker.sock" --max-connections 20000 --log-level warn --ttft 3600s --tbt 10s \
    2>"$work/scheduler.log" &
  scheduler=$!
  pids+=($scheduler)
  await scheduler curl -sf "http://127.0.0.1:$port/health"
}
start_worker() {
  "$bin" worker --models-from "$work/models.yaml" --scheduler-address "unix:$work/worker.sock" --device sim:h20 --devices 3 \
    --max-num-seqs 256 --max-device-seqs 16384 --log-level warn 2>"$work/worker.log" &
  pids+=($!)
}
start_nginx() {
  cat >"$work/nginx.conf" <<CONF
worker_processes 1; daemon off; pid $work/pid; error_log $work/nginx.log; worker_rlimit_nofile 20000;
events { worker_connections 20000; }
http {
  access_log off; client_body_temp_path $work/b; proxy_temp_path $work/p; fastcgi_temp_path $work/f;
  uwsgi_temp_path $work/u; scgi_temp_path $work/s;
  server {
    listen 127.0.0.1:$((port + 1));
    location / { proxy_pass http://127.0.0.1:$port; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 600s; }
  }
}
CONF
  nginx -e "$work/nginx.log" -c "$work/nginx.conf" &
  pids+=($!)
  await nginx curl -sf "http://127.0.0.1:$((port + 1))/health"
  proxy=$(pgrep -P "${pids[-1]}")
}

run() { # run NAME: streams through port $to; sets cost of $scheduler and, if it is there, of $proxy
  local name=$1 asks=() before_kib open_kib cpu0 cpu1 proxy0=0 proxy1=0 status=0 seed
  before_kib=$(rss_kib VmRSS "$scheduler")
  "$bin" load --base-url "http://127.0.0.1:$to" --model m --arrivals constant --request-rate 1000 --num-prompts "$streams" \
    --duration 60s --drain 500s --input-len 8 --prompt-format ids --vocab-size 256 --output-len "$tokens" --ignore-eos \
    --quiet --brief --max-dispatch-delay 60s --result-filename "$work/$name.json" >"$work/load.log" 2>&1 &
  local load=$!
  await "$streams open streams" open_streams "$streams"
  for seed in 1 2 3 4 5 6 7 8; do
    ask $seed >"$work/$name.loaded.$seed" &
    asks+=($!)
  done
  await "8 more" open_streams $((streams + 8))
  open_kib=$(rss_kib VmRSS "$scheduler")
  cpu0=$(cpu_s "$scheduler")
  [ -z "${proxy:-}" ] || proxy0=$(cpu_s "$proxy")
  start_worker
  wait $load || status=$?
  cpu1=$(cpu_s "$scheduler")
  wait "${asks[@]}"
  [ -z "${proxy:-}" ] || proxy1=$(cpu_s "$proxy")
  jq -c --arg name "$name" --argjson kib $((open_kib - before_kib)) --argjson peak "$(rss_kib VmHWM "$scheduler")" \
    --argjson before "$before_kib" --argjson n "$streams" --argjson cpu "$(echo "$cpu1 - $cpu0" | bc)" \
    --argjson proxy "$(echo "$proxy1 - $proxy0" | bc)" '(.total_output_tokens) as $t | {run: $name, streams: .requests,
      failed, tokens: $t, seconds: .duration, "tokens/s": .output_throughput,
      open_kib_a_stream: ($kib / $n), peak_kib_a_stream: (($peak - $before) / $n),
      scheduler_us_a_token: ($cpu * 1e6 / $t), nginx_us_a_token: (if $proxy > 0 then $proxy * 1e6 / $t else null end)}' \
    "$work/$name.json"
  jq -e --argjson want $((streams * tokens)) '.failed == 0 and .total_output_tokens == $want' "$work/$name.json" >/dev/null ||
    { echo "streams.sh: not every token of every stream arrived" >&2; status=1; }
  for seed in 1 2 3 4 5 6 7 8; do # alone, the same tokens in the same order
    ask $seed >"$work/$name.alone.$seed"
    cmp "$work/$name.alone.$seed" "$work/$name.loaded.$seed" && [ -s "$work/$name.loaded.$seed" ] || {
      echo "streams.sh: answer $seed differs under load: alone '$(cat "$work/$name.alone.$seed")', loaded '$(cat "$work/$name.loaded.$seed")'" >&2
      status=1
    }
  done
  return $status
}

start
to=$port
run direct
stop
if command -v nginx >/dev/null; then
  streams=$((streams / 2))
  start
  start_nginx
  to=$((port + 1))
  run nginx
fi
