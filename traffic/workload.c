#include "traffic/workload.h"

#include <math.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "traffic/draws.h"

struct named {
    const char *name; /* names[index]; the key only while it is looked up */
    uint32_t index;
};

static int named_compare(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static void names_free(struct br_workload *w)
{
    tdestroy(w->by_name, free);
    for (uint32_t i = 0; i < w->n_models; i++)
        free(w->names[i]);
    free(w->names);
    w->by_name = NULL;
    w->names = NULL;
    w->n_models = 0;
}

void br_workload_free(struct br_workload *workload)
{
    names_free(workload);
    free(workload->requests);
    free(workload->blocks);
    *workload = (struct br_workload){0};
}

static int name_check(const char *name, struct br_err *err)
{
    size_t len = strlen(name);
    if (len == 0 || len > BR_WORKLOAD_MAX_NAME)
        return br_err_set(err, BR_EINVAL, "'%.40s' is not a model name of 1 to %d bytes", name, BR_WORKLOAD_MAX_NAME);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return br_err_set(err, BR_EINVAL, "byte %zu of a model name is a control character", i + 1);
    return 0;
}

int br_workload_model(struct br_workload *w, const char *name, uint32_t *model, struct br_err *err)
{
    struct named key = {name, 0}, **found = tfind(&key, &w->by_name, named_compare), *added;
    if (found) {
        *model = (*found)->index;
        return 0;
    }
    if (name_check(name, err))
        return err->code;
    if (w->n_models == BR_WORKLOAD_MAX_MODELS)
        return br_err_set(err, BR_ENOMEM, "more than %d different models", BR_WORKLOAD_MAX_MODELS);
    if ((w->n_models & (w->n_models - 1)) == 0) /* full at every power of two */
        w->names = br_realloc(w->names, (w->n_models ? 2 * (size_t)w->n_models : 1) * sizeof *w->names);
    w->names[w->n_models] = br_strdup(name);
    added = br_malloc(sizeof *added);
    *added = (struct named){w->names[w->n_models], w->n_models};
    if (!tsearch(added, &w->by_name, named_compare))
        abort(); /* out of memory, as in br_malloc */
    *model = w->n_models++;
    return 0;
}

static int request_check(const struct br_workload *w, const struct br_request *r, struct br_err *err)
{
    if (!(r->at_s >= 0 && r->at_s < INFINITY))
        return br_err_set(err, BR_EINVAL, "arrival at %g s: must be a time from 0 on", r->at_s);
    if (!r->prompt || r->prompt > BR_WORKLOAD_MAX_TOKENS || !r->output || r->output > BR_WORKLOAD_MAX_TOKENS)
        return br_err_set(err, BR_EINVAL, "prompt of %u and output of %u tokens: each must be 1 to %d", r->prompt,
                          r->output, BR_WORKLOAD_MAX_TOKENS);
    if (r->model >= w->n_models)
        return br_err_set(err, BR_EINVAL, "model %u of %u", r->model, w->n_models);
    if (w->n == BR_WORKLOAD_MAX_REQUESTS || w->n_blocks + r->n_blocks > UINT32_MAX)
        return br_err_set(err, BR_ENOMEM, "more than %d requests or %u prefix blocks; take a shorter part",
                          BR_WORKLOAD_MAX_REQUESTS, UINT32_MAX);
    return 0;
}

static void blocks_append(struct br_workload *w, const uint64_t *blocks, uint32_t n)
{
    if (w->n_blocks + n > w->blocks_room) {
        w->blocks_room = 2 * (w->n_blocks + n);
        w->blocks = br_realloc(w->blocks, w->blocks_room * sizeof *w->blocks);
    }
    if (n)
        memcpy(w->blocks + w->n_blocks, blocks, n * sizeof *blocks);
    w->n_blocks += n;
}

int br_workload_add(struct br_workload *w, const struct br_request *request, const uint64_t *blocks, struct br_err *err)
{
    struct br_request *r;
    if (request_check(w, request, err))
        return err->code;
    if (w->n == w->requests_room) {
        w->requests_room = w->requests_room ? 2 * w->requests_room : 64;
        w->requests = br_realloc(w->requests, w->requests_room * sizeof *w->requests);
    }
    r = &w->requests[w->n++];
    *r = *request;
    r->first_block = (uint32_t)w->n_blocks;
    blocks_append(w, blocks, r->n_blocks);
    w->duration_s = fmax(w->duration_s, r->at_s);
    return 0;
}

static int by_time(const void *a, const void *b)
{
    const struct br_request *x = a, *y = b;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return x->number < y->number ? -1 : 1; /* places, as long as sorting lasts */
}

static void number_requests(struct br_workload *w)
{
    uint32_t *next = br_calloc(w->n_models ? w->n_models : 1, sizeof *next);
    for (size_t i = 0; i < w->n; i++)
        w->requests[i].number = next[w->requests[i].model]++;
    free(next);
}

void br_workload_sort(struct br_workload *w)
{
    bool sorted = true;
    for (size_t i = 0; i < w->n; i++) {
        w->requests[i].number = (uint32_t)i;
        sorted = sorted && (i == 0 || w->requests[i - 1].at_s <= w->requests[i].at_s);
    }
    if (!sorted)
        qsort(w->requests, w->n, sizeof *w->requests, by_time);
    number_requests(w);
}

static uint32_t pick(const double *until, uint32_t n, double u)
{
    uint32_t low = 0, high = n - 1; /* the first with u < until */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (u < until[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Running sums of the shares; the last one with a share is 1, whatever rounding makes of the sum. */
static int shares_sum(const double *shares, uint32_t n, double *until, struct br_err *err)
{
    double sum = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!(shares[i] >= 0 && shares[i] <= 1))
            return br_err_set(err, BR_EINVAL, "share of model %u = %g: must be 0 to 1", i, shares[i]);
        until[i] = sum += shares[i];
        last = shares[i] > 0 ? i : last;
    }
    if (!(fabs(sum - 1) < 1e-6))
        return br_err_set(err, BR_EINVAL, "shares of %u models add up to %g, not to 1", n, sum);
    for (uint32_t i = last; i < n; i++)
        until[i] = 1;
    return 0;
}

static int names_replace(struct br_workload *w, const char *const *names, uint32_t n, struct br_err *err)
{
    struct br_workload fresh = {0};
    uint32_t index;
    for (uint32_t i = 0; i < n; i++) {
        int rc = br_workload_model(&fresh, names[i], &index, err);
        if (!rc && index != i)
            rc = br_err_set(err, BR_EINVAL, "model '%s' is named twice", names[i]);
        if (rc) {
            names_free(&fresh);
            return rc;
        }
    }
    names_free(w);
    w->names = fresh.names;
    w->n_models = fresh.n_models;
    w->by_name = fresh.by_name;
    return 0;
}

int br_workload_assign(struct br_workload *w, const char *const *names, const double *shares, uint32_t n, uint64_t seed,
                       struct br_err *err)
{
    double *until = br_calloc(n ? n : 1, sizeof *until);
    int rc = n ? shares_sum(shares, n, until, err) : br_err_set(err, BR_EINVAL, "no models to give requests to");
    if (!rc)
        rc = names_replace(w, names, n, err);
    if (!rc) {
        for (size_t i = 0; i < w->n; i++)
            w->requests[i].model = pick(until, n, br_rng_unit(seed, 0, i, BR_DRAW_MODEL));
        number_requests(w);
    }
    free(until);
    return rc;
}
