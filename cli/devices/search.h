/* The fewest devices that hold, by runs that are dear: a crossing (n holds, n - 1 does not), found from a guess by
 * steps that grow and then halve. Attainment need not be monotone in n; a crossing is what is looked for. */
#ifndef BRIAREUS_CLI_DEVICES_SEARCH_H
#define BRIAREUS_CLI_DEVICES_SEARCH_H

#include <stdint.h>

#include "base/err.h"

/* 1: n devices hold, 0: they do not, < 0: *err. Asked once at most for each n. */
typedef int (*devices_hold_fn)(void *ctx, uint32_t n, struct br_err *err);

/* In [least, most]; guess: where to begin, 0: at the least. 0: most does not hold; < 0: *err. */
int32_t devices_search(uint32_t guess, uint32_t least, uint32_t most, devices_hold_fn hold, void *ctx,
                       struct br_err *err);

#endif
