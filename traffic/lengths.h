/* Prompt and output lengths, in tokens. The lengths of a model's k-th request are a function of (seed, model, k). */
#ifndef BRIAREUS_TRAFFIC_LENGTHS_H
#define BRIAREUS_TRAFFIC_LENGTHS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "traffic/workload.h"

enum br_length_kind {
    BR_LENGTH_FIXED,     /* median */
    BR_LENGTH_UNIFORM,   /* whole numbers min..max */
    BR_LENGTH_LOGNORMAL, /* exp(N(ln median, sigma)), rounded, clamped to min..max */
    BR_LENGTH_QUANTILES, /* through the quantiles 0: min, .5: median, .9: p90, .99: p99, 1: max; between two of them,
                            a share s of the way in probability is s^bend of the way in length */
};

struct br_length {
    enum br_length_kind kind;
    uint32_t min, max;
    double median, sigma, p90, p99, bend; /* bend 0: 1, linear */
};

/* Pairs (prompt, output) seen somewhere; drawn together, since the two depend on each other. */
struct br_length_sample {
    uint32_t (*pairs)[2]; /* owned */
    size_t n;
};

struct br_lengths {
    struct br_length prompt, output;
    const struct br_length_sample *sample; /* borrowed; NULL: prompt and output each from its own law */
};

/* BR_EINVAL with the field, its value and what it may be. */
int br_lengths_check(const struct br_lengths *lengths, struct br_err *err);
void br_lengths_draw(const struct br_lengths *lengths, uint64_t seed, uint32_t model, uint64_t number, uint32_t *prompt,
                     uint32_t *output);
/* Expected length without rounding and clamping to whole tokens (LOGNORMAL: with the clamp to min..max). */
double br_length_mean(const struct br_length *length);
/* QUANTILES from 1 to p99 with these statistics, of which any but p50 may be 0 (unknown; then as log-normal), bent such
 * that the mean is met (where the quantiles allow that mean at all). */
void br_length_from_stats(struct br_length *out, double mean, double p50, double p90, double p99);

/* The pairs of a workload; BR_EINVAL when it has no requests. */
int br_length_sample_workload(struct br_length_sample *out, const struct br_workload *workload, struct br_err *err);
/* A ShareGPT-style file: [{"conversations": [{"from": "human", "value": TEXT}, {"from": "gpt", "value": TEXT}, ...]},
 * ...]; the first human turn that a gpt turn follows gives a pair, as in vLLM's benchmark. `count` gives the tokens of
 * a text; NULL: a quarter of its bytes, rounded up. Conversations without such turns are left out and counted.
 * Read in pieces; at most max_pairs pairs (0: all). */
struct br_sharegpt_options {
    uint32_t (*count)(void *context, const char *text, size_t len);
    void *context;
    size_t max_pairs;
    size_t *left_out; /* NULL: not wanted */
};
int br_length_sample_sharegpt(struct br_length_sample *out, const char *path, const struct br_sharegpt_options *options,
                              struct br_err *err);
/* The same from an open stream, which stays the caller's; `file` names it in errors. */
int br_length_sample_sharegpt_read(struct br_length_sample *out, FILE *stream, const char *file,
                                   const struct br_sharegpt_options *options, struct br_err *err);
void br_length_sample_free(struct br_length_sample *sample);

#endif
