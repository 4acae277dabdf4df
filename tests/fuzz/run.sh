#!/usr/bin/env bash
# Runs every fuzz target for FUZZ_SECONDS (60) each from its corpus; fails on the first finding, which is left in
# build-fuzz/findings.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${FUZZ_SECONDS:-60}
cmake --preset fuzz >/dev/null
cmake --build build-fuzz --target $(cd tests/fuzz && ls fuzz_*.cmake | sed 's/\.cmake$//')
mkdir -p build-fuzz/findings
for program in build-fuzz/fuzz/fuzz_*; do
  name=$(basename "$program")
  work=$(mktemp -d)
  cp -r "tests/fuzz/corpus/$name/." "$work/"
  echo "== $name for ${seconds}s"
  if ! "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/findings/$name-" "$work" >"build-fuzz/$name.log" 2>&1; then
    tail -40 "build-fuzz/$name.log"
    echo "== $name FOUND SOMETHING: see build-fuzz/findings" >&2
    exit 1
  fi
  echo "== $name clean: $(grep -a 'stat::number_of_executed_units' "build-fuzz/$name.log" | grep -o '[0-9]*$') runs"
  rm -rf "$work"
done
