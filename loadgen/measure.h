/* What a journal says: latencies, attainment, failures. A pure function of it.
 *
 * Token k = 0, 1, ... of a request is on time when it is here by scheduled send + TTFT + k * TBT; tokens early earn
 * slack. Tokens that a failed request still owed (its max_tokens) count as late. Gap-wise, a token is on time when its
 * own gap is at most TBT (the first: TTFT). Requests that the generator itself cut (cancelled, interrupted) owe what
 * they had; slow readers are not judged, since their delays are their own. */
#ifndef BRIAREUS_LOADGEN_MEASURE_H
#define BRIAREUS_LOADGEN_MEASURE_H

#include "loadgen/dist.h"
#include "loadgen/journal.h"

struct load_slo {
    double ttft_s, tbt_s;
};
/* vLLM's --goodput: a request is good when it keeps all that are set. */
struct load_bounds {
    double ttft_s, tpot_s, e2el_s; /* 0: not set; from the actual send */
};

/* Latencies in seconds. */
struct load_group {
    uint64_t requests, outcomes[LOAD_OUTCOMES], slow; /* slow: of `requests` */
    uint64_t good;                                    /* within the bounds */
    uint64_t prompt_tokens, tokens;
    uint64_t owed, on_time, gaps_on_time; /* of judged requests */
    double qos;                           /* Aegaeon's metric, summed over completed requests; n_qos */
    uint64_t n_qos;
    /* from the scheduled send, and from the actual one */
    struct load_dist ttft, e2e, ttft_sent, e2e_sent;
    struct load_dist tpot, itl;
    struct load_dist dispatch; /* actual send - scheduled send */
};

struct load_measure {
    struct load_group all, *models; /* owned; n_models */
    uint32_t n_models;
    double from_s, to_s; /* of scheduled sends that count */
    double peak_tokens_per_s;
    uint32_t peak_concurrency;
};

struct load_request_sum {   /* one request's, from its tokens */
    double first_s, last_s; /* < 0: none came */
    uint32_t tokens, on_time, gaps_on_time;
    double qos_sum, qos_since, qos_allowed, qos_got; /* Aegaeon's metric as it goes */
};

/* Requests scheduled before warmup_s are left out. */
void load_measure_make(const struct load_journal *journal, uint32_t n_models, double warmup_s,
                       const struct load_slo *slo, const struct load_bounds *bounds, struct load_measure *out);
void load_measure_free(struct load_measure *measure);

/* Shares; 1 where nothing was owed. */
double load_attainment(const struct load_group *group);
double load_gap_attainment(const struct load_group *group);
double load_qos(const struct load_group *group);
uint64_t load_failed(const struct load_group *group);

/* Replays the tokens into sums[journal->n]. */
void load_request_sums(const struct load_journal *journal, const struct load_slo *slo, struct load_request_sum *sums);
/* What the request owed, given the tokens it got; 0: it is not judged. */
uint32_t load_request_owed(const struct load_record *record);
double load_request_qos(const struct load_record *record, const struct load_request_sum *sum);

#endif
