#!/usr/bin/env bash
# Drives a plain nginx that serves one canned stream as a file (Debian: nginx-light): every answer complete, every token
# counted, connections reused.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
port=${2:-18099}
command -v nginx >/dev/null || { echo "nginx.sh: install nginx-light first" >&2; exit 1; }
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -p "$work/html/v1"
chmod 755 "$work" # nginx's worker is another user
{
  for _ in $(seq 50); do
    printf 'data: {"id":"c","object":"text_completion","choices":[{"index":0,"text":" tok","finish_reason":null}]}\n\n'
  done
  printf 'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":50}}\n\ndata: [DONE]\n\n'
} >"$work/html/v1/completions"
cat >"$work/nginx.conf" <<CONF
worker_processes 1; daemon off; pid $work/pid; error_log $work/error.log;
events { worker_connections 4096; }
http {
  access_log off; client_body_temp_path $work/b; proxy_temp_path $work/p; fastcgi_temp_path $work/f;
  uwsgi_temp_path $work/u; scgi_temp_path $work/s;
  server {
    listen 127.0.0.1:$port; root $work/html;
    location /v1/ { types {} default_type text/event-stream; error_page 405 =200 \$uri; }
  }
}
CONF
nginx -e "$work/error.log" -c "$work/nginx.conf" &
server=$!
curl -sf --retry 50 --retry-connrefused --retry-delay 0 --retry-max-time 10 -d '{}' -o /dev/null \
  "http://127.0.0.1:$port/v1/completions" || { cat "$work/error.log" >&2; exit 1; }
"$build/bin/briareus" load --base-url "http://127.0.0.1:$port" --model m --request-rate 500 --duration 4s \
  --output-len 50 --brief --quiet --result-filename "$work/result.json" || true
jq -e '.failed == 0 and .completed == .requests and .completed > 1500 and .total_output_tokens == 50 * .completed
  and .generator.connections < .requests / 10' "$work/result.json" >/dev/null ||
  { jq 'del(.cdf, .series, .models)' "$work/result.json" >&2; exit 1; }
echo "nginx.sh: $(jq -r '"\(.completed) streams of 50 tokens over \(.generator.connections) connections"' "$work/result.json")"
