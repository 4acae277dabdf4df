#include "traffic/generate.h"

#include <math.h>

static int sources_check(const struct br_source *sources, uint32_t n, double duration_s, struct br_err *err)
{
    double expected = 0;
    if (!(duration_s > 0 && duration_s <= 1e9))
        return br_err_set(err, BR_EINVAL, "duration of %g s: must be above 0 and at most 1e9", duration_s);
    for (uint32_t i = 0; i < n; i++) {
        if (br_process_check(&sources[i].process, err) || br_lengths_check(&sources[i].lengths, err))
            return br_err_wrap(err, "model '%s'", sources[i].name);
        expected += br_process_count(&sources[i].process, duration_s);
    }
    if (expected > BR_WORKLOAD_MAX_REQUESTS)
        return br_err_set(err, BR_ENOMEM, "%.3g requests in %g s: more than %d; lower the rates or take a shorter time",
                          expected, duration_s, BR_WORKLOAD_MAX_REQUESTS);
    return 0;
}

static int source_run(const struct br_source *source, double duration_s, uint64_t seed, struct br_workload *out,
                      struct br_err *err)
{
    struct br_arrivals arrivals;
    struct br_request r = {0};
    uint32_t n_models = out->n_models;
    int rc = br_workload_model(out, source->name, &r.model, err);
    if (!rc && r.model != n_models)
        rc = br_err_set(err, BR_EINVAL, "model '%s' is named twice", source->name);
    if (rc)
        return rc;
    br_arrivals_init(&arrivals, &source->process, seed, r.model);
    for (uint64_t k = 0; !rc && (r.at_s = br_arrivals_next(&arrivals)) < duration_s; k++) {
        br_lengths_draw(&source->lengths, seed, r.model, k, &r.prompt, &r.output);
        rc = br_workload_add(out, &r, NULL, err);
    }
    return rc;
}

int br_workload_generate(const struct br_source *sources, uint32_t n, double duration_s, uint64_t seed,
                         struct br_workload *out, struct br_err *err)
{
    int rc = sources_check(sources, n, duration_s, err);
    *out = (struct br_workload){0};
    for (uint32_t i = 0; !rc && i < n; i++)
        rc = source_run(&sources[i], duration_s, seed, out, err);
    if (rc) {
        br_workload_free(out);
        return rc;
    }
    br_workload_sort(out);
    out->duration_s = duration_s;
    return 0;
}
