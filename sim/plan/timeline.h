/* What one pool of a result did in a window of a run: steps, loads, evictions, stalls by device, and its requests. For
 * pictures and traces; the run is the one of the plan's first seed, the same that the result was measured with. */
#ifndef BRIAREUS_SIM_PLAN_TIMELINE_H
#define BRIAREUS_SIM_PLAN_TIMELINE_H

#include "sim/plan/plan.h"

enum { PLAN_MAX_SPANS = 2000000 };

enum plan_span_kind {
    PLAN_SPAN_STEP,
    PLAN_SPAN_LOAD,     /* weights in */
    PLAN_SPAN_SWAP,     /* KV in */
    PLAN_SPAN_EVICT,    /* weights dropped: no time passes */
    PLAN_SPAN_SWAP_OUT, /* KV out: beside the computation */
    PLAN_SPAN_STALL,    /* no step runs and a load is under way; model: the one that is awaited */
};

struct plan_span {
    enum plan_span_kind kind;
    uint32_t device, model; /* of the pool; index in the ask */
    double from_s, to_s;
    uint32_t decodes, prefill; /* rows of a step */
    bool switched, streamed;   /* a step of another model than the last one's; begun before its weights were all in */
    double bytes;
};

struct plan_life { /* of a request that is there in the window */
    uint32_t model, prompt, output;
    double arrived_s, first_s, ended_s; /* NAN: not within the run */
    bool lost;
};

struct plan_timeline {
    const char *policy;
    struct plan_kind kind;
    uint32_t n_devices, n_models;
    double from_s, to_s;
    struct plan_span *spans; /* [n_spans], owned; by beginning, but for stalls, which come after all others */
    uint32_t n_spans;
    struct plan_life *lives; /* [n_lives], owned; by arrival */
    uint32_t n_lives;
    bool cut; /* more spans than PLAN_MAX_SPANS: the window ends at to_s, earlier than asked */
};

/* Of the answer's result, its pool `part`; spans that begin in [from_s, to_s). < 0: *err, and *out is empty. */
int plan_timeline_record(const struct plan_ask *ask, const struct plan_answer *answer, const struct plan_result *result,
                         uint32_t part, double from_s, double to_s, struct plan_timeline *out, struct br_err *err);
void plan_timeline_free(struct plan_timeline *timeline);

/* The pool with most devices; -1: the result has none. */
int32_t plan_timeline_part(const struct plan_result *result);

#endif
