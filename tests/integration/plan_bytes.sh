#!/usr/bin/env bash
# The same seed and input give the same bytes whatever the compiler was told: a small plan from the release build and from
# the sanitizers' one, its JSON, page and trace compared. Exit status 77 where there is no sanitizers' build of these
# sources (CI builds it first).
set -euo pipefail
source=${BRIAREUS_SOURCE:?}
asan=$source/build-asan/bin/briareus
if [ ! -x "$asan" ]; then
  echo "no $asan: make test-asan builds it"
  exit 77
fi
newer=$(cd "$source" && find base cost traffic sim scheduler/core report cli/plan -name '*.[ch]' -newer "$asan" -print -quit)
if [ -n "$newer" ]; then
  echo "$asan is older than $newer: make test-asan builds it anew"
  exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
plan() { # PROGRAM NAME THREADS
  "$1" plan --quiet --horizon 300 --seeds 2 --handicapped --policy slack --policy aegaeon --policy request \
    --model "Qwen2.5-7B count=4 rate=.1" --model "Qwen2.5-32B count=2 rate=.05" --threads "$3" \
    --json "$dir/$2.json" --html "$dir/$2.html" --trace "$dir/$2.trace" >"$dir/$2.table"
}
plan "${BRIAREUS_BIN:?}/briareus" release 2
plan "$asan" asan 1
for part in json html trace table; do
  cmp "$dir/release.$part" "$dir/asan.$part"
done
