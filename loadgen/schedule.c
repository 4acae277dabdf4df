#include "loadgen/schedule.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/rng.h"

static int by_time(const void *a, const void *b)
{
    const struct load_arrival *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return x->model < y->model ? -1 : x->model > y->model;
}

uint32_t load_schedule(const double *rates, uint32_t n_models, double duration_s, uint64_t seed,
                       struct load_arrival **out)
{
    struct load_arrival *list = NULL;
    uint32_t n = 0, cap = 0;
    for (uint32_t m = 0; m < n_models; m++) {
        struct br_rng rng = {.seed = br_rng_u64(seed, m, 0, 1)};
        if (rates[m] <= 0)
            continue;
        for (double t = br_rng_exp(&rng, 1 / rates[m]); t < duration_s; t += br_rng_exp(&rng, 1 / rates[m])) {
            if (n == cap) {
                cap = cap * 2 + 64;
                list = br_realloc(list, cap * sizeof *list);
            }
            list[n++] = (struct load_arrival){t, m, br_rng_u64(seed, m, rng.next, 2)};
        }
    }
    if (n)
        qsort(list, n, sizeof *list, by_time);
    *out = list;
    return n;
}
