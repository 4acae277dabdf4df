/* Names as people write them: "Qwen2.5-7B-Instruct", "qwen2_5_7b", "RTX4090". Private to cost/. */
#ifndef BRIAREUS_COST_NAMES_H
#define BRIAREUS_COST_NAMES_H

#include <stddef.h>

#include "base/err.h"

enum { BR_NAME_MAX = 64, BR_NAMES_MAX = 64 };

/* Lower case, letters and digits only, at most BR_NAME_MAX - 1 of them, without the words of `ignored` (NULL-ended) at
 * either end; what follows a '/' ("Qwen/Qwen2.5-7B") when there is one. */
void br_name_plain(const char *name, const char *const *ignored, char out[BR_NAME_MAX]);

/* BR_ENOENT: unknown `what` with the nearest name, or with the first of them when none is near.
 * At most BR_NAMES_MAX names. */
int br_name_unknown(const char *what, const char *name, const char *const *names, size_t n, struct br_err *err);

#endif
