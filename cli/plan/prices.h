/* Prices of GPUs: a YAML file with a mapping from GPUs to three prices in $/h a GPU,
 *     prices:
 *       H20: on-demand=1.6 reserved=1.0 spot=.6
 * What is left out of a GPU's line follows from its on-demand price: reserved .6 of it, spot .4. Without a file the
 * on-demand prices are the catalogue's placeholders. Private to the folder. */
#ifndef BRIAREUS_CLI_PLAN_PRICES_H
#define BRIAREUS_CLI_PLAN_PRICES_H

#include <stdbool.h>
#include <stdint.h>

#include "cost/gpu.h"

enum { PRICES_MAX = 64 };

struct price {
    const struct br_gpu *gpu;
    double on_demand, reserved, spot; /* $/h */
};

struct prices {
    struct price list[PRICES_MAX];
    uint32_t n;
    bool own; /* the user's; false: placeholders */
};

/* file NULL: placeholders of every GPU. BR_EINVAL, BR_ENOENT with file and line or key. */
int prices_load(const char *file, struct prices *out, struct br_err *err);
/* The same from a text. */
int prices_parse(const char *yaml, size_t len, const char *where, struct prices *out, struct br_err *err);
/* The same for a device that is not in the catalogue; its name is borrowed. BR_EINVAL: a GPU of that name has a price
 * already, or there are too many. */
int prices_add(struct prices *prices, const struct br_gpu *device, struct br_err *err);
const struct price *prices_find(const struct prices *prices, const char *gpu);

#endif
