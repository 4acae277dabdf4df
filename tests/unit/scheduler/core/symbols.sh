#!/bin/bash
# The pure libraries call nothing but memory copies, arithmetic (libgcc's too), hashes, error messages and text into a
# caller's buffer; malloc and free only in the files of *_create and *_destroy. symbols.sh LIBRARY ...: fails with the symbols that are not allowed.
set -euo pipefail
allowed='^(mem(cpy|move|set|cmp)|strcmp|br_err_set|__assert_fail|__memcpy_chk|__(popcount|ctz|clz)[sd]i2|sqrt|fabs|fmin|fmax|floor|ceil|log|exp|XXH3_128bits|br_buf_(printf|puts))$'
sanitizers='^(__(asan|ubsan|tsan|gcov)_|_GLOBAL_OFFSET_TABLE_$|__stack_chk_fail$)'
bad=0
own=$(nm --defined-only "$@" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u)
for library in "$@"; do
    while read -r file symbol; do
        [[ $symbol =~ $allowed || $symbol =~ $sanitizers ]] && continue
        [[ $file == *create.c.o && $symbol =~ ^(calloc|malloc|free)$ ]] && continue
        grep -qxF -- "$symbol" <<<"$own" && continue
        echo "$(basename "$library"): $file calls $symbol"
        bad=1
    done < <(nm -u "$library" | awk '/:$/ { file = substr($1, 1, length($1) - 1) } $1 == "U" { print file, $2 }')
done
exit $bad
