#!/usr/bin/env bash
# Load with random kill -9 of everything `serve` runs, for some minutes; not part of CI.
#   tests/soak.sh [MINUTES (5) [SEED (1) [STREAMS (12)]]]
# At the end every accepted request must have finished with the token ids of an undisturbed run. Prints figures; the
# exit status is 1 when anything was lost, changed or left unfinished.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x build/bin/briareus ] || { echo "tests/soak.sh: no build/bin/briareus: run make build first" >&2; exit 2; }
exec node tests/soak.mjs "${1:-5}" "${2:-1}" "${3:-12}"
