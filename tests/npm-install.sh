#!/usr/bin/env bash
# Puts the npm packages that tests compare with into tests/npm/node_modules, exactly as package-lock.json says. Does
# nothing when they are there already; may run twice at once.
set -euo pipefail
cd "$(dirname "$0")/npm"
exec 9>.install.lock
flock 9
want=$(sha256sum package-lock.json package.json | sha256sum | cut -d' ' -f1)
if [ -d node_modules ] && [ "$(cat node_modules/.briareus-lock 2>/dev/null)" = "$want" ]; then
  exit 0
fi
install() { npm ci --loglevel=error --no-audit --no-fund --ignore-scripts </dev/null 9>&-; }
install || { sleep 5; install; } || {
  echo "npm-install: 'npm ci' failed twice in $PWD; see above, or run it there by hand" >&2
  exit 1
}
echo "$want" >node_modules/.briareus-lock
