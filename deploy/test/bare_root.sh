#!/usr/bin/env bash
# deploy/ in a bare Debian root: the Dockerfile's steps by chroot, then `serve` as its user inside, asked for health and
# tokens; the systemd units verified; the commands of compose.yaml (scheduler and worker apart, with a token) run there.
# Needs root, debootstrap, npm and minutes, so it is no part of `make test`. bare_root.sh [FOLDER for roots]
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "bare_root: run as root" >&2; exit 1; }
for tool in debootstrap python3 curl openssl; do
  command -v $tool >/dev/null || { echo "bare_root: $tool is missing" >&2; exit 1; }
done
work=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/briareus-bare-XXXXXX")
pids=()
finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait || true
  for mount in $(awk -v w="$work/" 'index($2, w) == 1 { print $2 }' /proc/mounts | sort -r); do umount "$mount"; done
  rm -rf --one-file-system "$work"
}
trap finish EXIT
say() { echo "bare_root: $*"; }

# The machine's own mirrors and keys: whatever apt and npm use here, the bare root uses. BARE=FOLDER keeps it for the next
# time.
bare=${BARE:-$work/bare}
if [ ! -e "$bare/etc/debian_version" ]; then
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)
  debootstrap --variant=minbase --include=ca-certificates bookworm "$bare.part" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    { tail -5 "$work/debootstrap.log" >&2; exit 1; }
  mv "$bare.part" "$bare"
fi
cp -L /etc/resolv.conf "$bare/etc/resolv.conf"
rm -f "$bare/etc/apt/sources.list"
cp /etc/apt/sources.list.d/debian.sources "$bare/etc/apt/sources.list.d/" 2>/dev/null ||
  cp /etc/apt/sources.list "$bare/etc/apt/"
cp -r /etc/apt/apt.conf.d/. "$bare/etc/apt/apt.conf.d/"
cat "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" ${NODE_EXTRA_CA_CERTS:+"$NODE_EXTRA_CA_CERTS"} \
  >"$bare/etc/ssl/trusted.crt"
printf 'registry=%s\ncafile=/etc/ssl/trusted.crt\n' "$(npm config get registry)" >"$bare/root/.npmrc"
say "bare root: $(du -sm "$bare" | cut -f1) MB"

root=$(deploy/test/run_dockerfile.py deploy/Dockerfile . "$bare" "$work" 2>"$work/build.log") ||
  { tail -30 "$work/build.log" >&2; exit 1; }
say "image: $(du -sm "$root" | cut -f1) MB; $(stat -c '%s bytes' "$root/usr/local/bin/briareus")"
[ ! -e "$root/src" ] && [ ! -e "$root/usr/bin/cc" ] || { echo "bare_root: sources or compilers in the image" >&2; exit 1; }

mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
inside() { exec chroot --userspec=briareus "$root" env HOME=/var/lib/briareus PATH=/usr/local/bin:/usr/bin:/bin "$@"; }
mkdir -p "$root/models"
cp -r demo/models/newton "$root/models/example"
await() { # await FILE TEXT
  for _ in $(seq 300); do grep -q "$2" "$1" 2>/dev/null && return; sleep 0.2; done
  echo "bare_root: no '$2' in:" >&2; tail -20 "$1" >&2; exit 1
}
ask() { # ask PORT
  curl -fsS "http://127.0.0.1:$1/v1/completions" -d '{"model": "example", "prompt": "What is light?", "max_tokens": 8}' |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["usage"]["completion_tokens"])'
}

[ "$(inside id -u)" = 10001 ] || { echo "bare_root: not the image's user" >&2; exit 1; }
inside briareus serve --port 18300 --model example=/models/example >"$work/serve.log" 2>&1 &
pids+=($!)
await "$work/serve.log" event=device_up
curl -fsS http://127.0.0.1:18300/health >/dev/null
say "serve in the image: $(ask 18300) tokens"
kill "${pids[0]}"; wait "${pids[0]}" || { echo "bare_root: serve ended badly" >&2; exit 1; }
pids=()

# compose.yaml's commands, with names that mean this machine.
commands() { python3 deploy/test/compose_command.py deploy/compose.yaml "$1"; }
mkdir -p "$root/etc/briareus"
cp deploy/models.yaml "$root/etc/briareus/models.yaml"
export BRIAREUS_WORKER_TOKEN
BRIAREUS_WORKER_TOKEN=$(openssl rand -hex 32)
local_names() { sed -e 's/tcp:redis:6379/tcp:127.0.0.1:18301/; s/tcp:scheduler:8001/tcp:127.0.0.1:18302/' \
  -e 's/tcp:0.0.0.0:8001/tcp:127.0.0.1:18302/; s/--admin-listen=0.0.0.0:9100/--admin-listen=127.0.0.1:18303/'; }
mapfile -t redis < <(commands redis)
inside "${redis[@]}" --port 18301 --bind 127.0.0.1 --dir /var/lib/briareus >"$work/redis.log" 2>&1 &
pids+=($!)
mapfile -t scheduler < <(commands scheduler | local_names)
inside briareus "${scheduler[@]}" --port=18304 >"$work/scheduler.log" 2>&1 &
pids+=($!)
mapfile -t worker < <(commands worker | local_names)
inside briareus "${worker[@]}" >"$work/worker.log" 2>&1 &
pids+=($!)
await "$work/scheduler.log" '"event":"device_up"'
say "compose's commands: $(ask 18304) tokens"
curl -fsS http://127.0.0.1:18303/metrics | grep -q '^briareus_device_up{node="worker-1",device="0"} 1' ||
  { echo "bare_root: no metrics on the operators' listener" >&2; exit 1; }
if curl -fsS http://127.0.0.1:18304/metrics >/dev/null 2>&1; then echo "bare_root: /metrics is public" >&2; exit 1; fi
BRIAREUS_WORKER_TOKEN=wrong inside briareus "${worker[@]}" --node=stranger >"$work/stranger.log" 2>&1 &
pids+=($!)
await "$work/scheduler.log" 'wrong token'
say "a worker with another token is sent away"

if command -v systemd-analyze >/dev/null; then
  for unit in deploy/systemd/*.service; do
    sed "s#/usr/local/bin/briareus#$root/usr/local/bin/briareus#" "$unit" >"$work/$(basename "$unit")"
    said=$(systemd-analyze verify "$work/$(basename "$unit")" 2>&1 | grep -v 'Documentation' || true)
    [ -z "$said" ] || { echo "bare_root: $unit: $said" >&2; exit 1; }
    say "$(systemd-analyze security --offline=true "$work/$(basename "$unit")" | tail -1 | tr -d '→🙂😀')"
  done
fi
# Debian's promtool reads what is served, and the configuration.
curl -fsS http://127.0.0.1:18303/metrics >"$root/tmp/metrics"
cp deploy/prometheus/*.yml "$root/tmp/"
chroot "$root" sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  prometheus' >"$work/prometheus.log" 2>&1 || { tail -5 "$work/prometheus.log" >&2; exit 1; }
chroot "$root" sh -c 'cd /tmp && promtool check metrics <metrics; promtool check config prometheus.yml' \
  >"$work/promtool.log" 2>&1 || { cat "$work/promtool.log" >&2; exit 1; }
say "promtool: $(grep -c . "$work/promtool.log") lines:"
sed 's/^/  /' "$work/promtool.log"
say done
