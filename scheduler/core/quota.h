/* The quota formula of Aegaeon, section 4.3, equations 2 and 3. Add the batches of a round, then ask.
 * n_k = TBT target / step time: tokens a batch makes in the time in which it may make one. */
#ifndef BRIAREUS_SCHEDULER_CORE_QUOTA_H
#define BRIAREUS_SCHEDULER_CORE_QUOTA_H

struct quota_round {
    double c;     /* sum of reload times */
    double sum;   /* S = sum of 1 / n_k */
    double min_n; /* 0 before the first batch */
};

void quota_add(struct quota_round *round, double n, double load_s);
/* Equation 3: alpha = max(c / (min n * quota_max) + S, 0.5). */
double quota_alpha(const struct quota_round *round, double quota_max_s);
/* Equation 2: q = c / (n (alpha - S)), never less than one step. With c = 0 the formula has no answer (all resident:
 * turns cost nothing): one step each, which is best for TTFT. */
double quota_turn_s(const struct quota_round *round, double quota_max_s, double n, double step_s);

#endif
