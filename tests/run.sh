#!/usr/bin/env bash
# Builds and runs every test of one preset: tests/run.sh release|asan|tsan
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: tests/run.sh release|asan|tsan}
build=$([ "$preset" = release ] && echo build || echo "build-$preset")
export BRIAREUS_SHARED=${BRIAREUS_SHARED:-$(cd .. && pwd)/shared}
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
[ -x tests/npm-install.sh ] && tests/npm-install.sh
cmake --preset "$preset" >/dev/null
cmake --build "$build"
exec ctest --test-dir "$build" --output-on-failure --timeout 300 "${@:2}"
