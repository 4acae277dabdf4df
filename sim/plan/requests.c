/* The requests of a seed. */
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/rng.h"
#include "sim/plan/ask.h"

enum { DRAW_SHUFFLE = 0x53485546 };

/* Fisher and Yates, keyed by the seed. */
static void shuffle(uint32_t *order, uint32_t n, uint64_t seed)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        uint32_t k = (uint32_t)(br_rng_unit(seed, DRAW_SHUFFLE, i, 0) * (i + 1)), held = order[i];
        order[i] = order[k];
        order[k] = held;
    }
}

static struct br_source *sources_of(const struct plan_ask *ask, uint64_t seed)
{
    struct br_source *sources = br_calloc(ask->n_models, sizeof *sources);
    uint32_t *order = br_calloc(ask->n_models, sizeof *order);
    if (ask->shuffle)
        shuffle(order, ask->n_models, seed);
    for (uint32_t i = 0; i < ask->n_models; i++) {
        sources[i] = ask->models[i].source;
        sources[i].name = ask->models[i].name;
        if (ask->shuffle)
            sources[i].process = ask->models[order[i]].source.process;
    }
    free(order);
    return sources;
}

static int too_many(double n, struct br_err *err)
{
    return br_err_set(err, BR_ENOMEM,
                      "the traffic makes %.3g requests in the span, more than the %d that a plan takes: shorten "
                      "--horizon or lower the rates",
                      n, PLAN_MAX_REQUESTS);
}

static int copy(const struct br_workload *w, const struct plan_ask *ask, struct sim_request **out, uint32_t *n,
                struct br_err *err)
{
    if (w->n > PLAN_MAX_REQUESTS)
        return too_many((double)w->n, err);
    *out = br_calloc(w->n + 1, sizeof **out);
    *n = 0;
    for (size_t i = 0; i < w->n; i++) {
        const struct br_request *r = &w->requests[i];
        if (r->at_s < ask->horizon_s)
            (*out)[(*n)++] = (struct sim_request){r->at_s, r->model, r->prompt, r->output};
    }
    return 0;
}

int plan_requests(const struct plan_ask *ask, uint64_t seed, struct sim_request **out, uint32_t *n, struct br_err *err)
{
    if (ask->recorded)
        return copy(ask->recorded, ask, out, n, err);
    struct br_source *sources = sources_of(ask, seed);
    struct br_workload workload = {0};
    double expected = 0;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < ask->n_models; i++)
        if ((rc = br_process_check(&sources[i].process, err)) == 0)
            expected += br_process_count(&sources[i].process, ask->horizon_s);
    if (rc == 0 && expected > PLAN_MAX_REQUESTS)
        rc = too_many(expected, err);
    if (rc == 0 && (rc = br_workload_generate(sources, ask->n_models, ask->horizon_s, seed, &workload, err)) == 0) {
        rc = copy(&workload, ask, out, n, err);
        br_workload_free(&workload);
    }
    free(sources);
    return rc;
}
