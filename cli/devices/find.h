/* The search itself; what it found is JSON (docs/load.md has the keys). Private to the folder. */
#ifndef BRIAREUS_CLI_DEVICES_FIND_H
#define BRIAREUS_CLI_DEVICES_FIND_H

#include <jansson.h>

#include "loadgen/config.h"

/* Prints as it goes. words: [n] for `briareus serve`. *out is there also when it fails or is interrupted (BR_EBUSY) in
 * the middle, with what was found until then; the caller's. */
int devices_find(const struct load_config *load, char *const *words, uint32_t n, json_t **out, struct br_err *err);

void devices_table(const json_t *found, FILE *out);
int devices_page(const json_t *found, const char *path, struct br_err *err);

#endif
