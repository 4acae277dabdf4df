#include "sim/arrivals.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

struct made {
    struct sim_request *list;
    uint32_t n, room;
};

static double normal(struct br_rng *rng)
{
    double radius = sqrt(-2 * log1p(-br_rng_next(rng)));
    return radius * cos(2 * 3.14159265358979323846 * br_rng_next(rng));
}

static uint32_t length(struct br_rng *rng, const struct sim_lengths *l)
{
    double n = floor(l->median * exp(l->sigma * normal(rng)) + .5);
    return n < l->min ? l->min : n > l->max ? l->max : (uint32_t)n;
}

static int made_add(struct made *made, const struct sim_request *r)
{
    if (made->n == made->room) {
        uint32_t room = made->room ? 2 * made->room : 1024;
        struct sim_request *list = realloc(made->list, room * sizeof *list);
        if (!list)
            return -1;
        made->list = list;
        made->room = room;
    }
    made->list[made->n++] = *r;
    return 0;
}

static int model_arrivals(const struct sim_traffic *t, uint32_t model, struct made *made)
{
    struct br_rng rng = {.seed = t->seed * 1000003 + model};
    double at_s = 0;
    while (t->rate[model] > 0 && (at_s += br_rng_exp(&rng, 1 / t->rate[model])) < t->horizon_s) {
        struct sim_request r = {at_s, model, length(&rng, &t->prompt), length(&rng, &t->output)};
        if (made_add(made, &r) < 0)
            return -1;
    }
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct sim_request *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return x->model < y->model ? -1 : x->model > y->model;
}

struct sim_request *sim_arrivals(const struct sim_traffic *traffic, uint32_t *n)
{
    struct made made = {0};
    for (uint32_t m = 0; m < traffic->n_models; m++)
        if (model_arrivals(traffic, m, &made) < 0) {
            free(made.list);
            return NULL;
        }
    if (made.n)
        qsort(made.list, made.n, sizeof *made.list, by_time);
    *n = made.n;
    return made.list ? made.list : calloc(1, sizeof *made.list);
}
