/* What came of the requests: TTFT and TBT as distributions, attainment as the design defines it.
 *
 * Token k = 0, 1, ... of a sequence is on time when it is here by scheduled send + TTFT + k * TBT: latency counts from
 * the scheduled send, so waiting inside the client counts too. Tokens that a failed sequence still owed count as late.
 */
#ifndef BRIAREUS_LOADGEN_STATS_H
#define BRIAREUS_LOADGEN_STATS_H

#include <stdint.h>

#include "base/hist.h"

struct load_slo {
    double ttft_s, tbt_s;
};

struct load_model_stats {
    uint64_t requests, finished, failed;
    uint64_t tokens, tokens_on_time, tokens_owed;
    uint64_t prompt_tokens;
    struct br_hist ttft_us, tbt_us;
};

/* One request's progress. */
struct load_progress {
    double scheduled_s, last_s;
    uint32_t tokens, on_time;
};

void load_stats_init(struct load_model_stats *stats);
/* `total` tokens are here at now_s (>= progress->tokens). */
void load_stats_tokens(struct load_model_stats *stats, struct load_progress *p, const struct load_slo *slo,
                       uint32_t total, double now_s);
void load_stats_finish(struct load_model_stats *stats, const struct load_progress *p);
/* target: the tokens it should have had (max_tokens when the true length is unknown). */
void load_stats_fail(struct load_model_stats *stats, const struct load_progress *p, uint32_t target);
void load_stats_merge(struct load_model_stats *into, const struct load_model_stats *from);
/* On-time share of all tokens, those owed included; 1 when there were none. */
double load_attainment(const struct load_model_stats *stats);

#endif
