#!/usr/bin/env bash
# Installs every package that building, testing and the demo need. Idempotent; asks for sudo only when not root.
# Tested on Debian 12. On other systems it names what is needed and stops.
set -euo pipefail

packages=(
  build-essential cmake ninja-build pkg-config git
  clang clang-format libclang-rt-14-dev
  libuv1-dev libprotobuf-c-dev protobuf-c-compiler protobuf-compiler libhiredis-dev redis-server node-llhttp
  libjansson-dev libyaml-dev libpcre2-dev libutf8proc-dev libxxhash-dev libssl-dev libcmocka-dev
  nodejs npm curl jq python3
)

if ! command -v apt-get >/dev/null; then
  echo "install-deps: this is not Debian or Ubuntu (untested here). Needed, by their Debian names:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi
if [ "$(. /etc/os-release && echo "${ID:-}${VERSION_ID:-}")" != debian12 ]; then
  echo "install-deps: tested on Debian 12 only; going on with the same package names" >&2
fi

have() { # a tool that is already there need not come from a package (a newer node, say)
  case $1 in
    nodejs) command -v node >/dev/null ;;
    npm) command -v npm >/dev/null ;;
    *) [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = "install ok installed" ] ;;
  esac
}
missing=()
for package in "${packages[@]}"; do have "$package" || missing+=("$package"); done
[ ${#missing[@]} -eq 0 ] && exit 0

sudo=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "install-deps: run as root, or install sudo. Missing: ${missing[*]}" >&2; exit 1; }
  sudo=(sudo)
fi
echo "install-deps: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
# A redis-server that the package starts is not wanted: Briareus starts its own.
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
