/* Can a run still hold its target? Watches the journal grow; counts tokens that are late already, those that are due
 * and not here included (when answers are known to have all their tokens), against all that the workload may owe: an
 * upper bound of the attainment that the run can come to. */
#ifndef BRIAREUS_LOADGEN_WATCH_H
#define BRIAREUS_LOADGEN_WATCH_H

#include "loadgen/measure.h"

struct load_watch {
    struct load_slo slo;
    double warmup_s;
    bool whole_answers;      /* every answer has as many tokens as it asked for (ignore_eos) */
    uint32_t *tokens, *late; /* owned, by request */
    uint64_t owed;           /* the most that counts in the end */
    size_t n_pieces;         /* looked at */
};

void load_watch_init(struct load_watch *watch, const struct load_journal *journal, const struct load_slo *slo,
                     double warmup_s, bool whole_answers);
void load_watch_free(struct load_watch *watch);
/* The attainment that is still possible at now_s; never rises. */
double load_watch_bound(struct load_watch *watch, const struct load_journal *journal, double now_s);

#endif
