/* What is offered to the server: the workload that the options describe. */
#ifndef BRIAREUS_LOADGEN_OFFER_H
#define BRIAREUS_LOADGEN_OFFER_H

#include "base/err.h"
#include "loadgen/config.h"
#include "traffic/lengths.h"
#include "traffic/trace.h"
#include "traffic/workload.h"

struct load_offer {
    struct br_workload workload;
    struct br_trace_report trace; /* lines == 0: no trace */
};

/* rate_factor multiplies every rate (replays: divides their times); seed replaces the configuration's. Errors name the
 * option or the file and line. Free on success. */
int load_offer_make(const struct load_config *config, double rate_factor, uint64_t seed, struct load_offer *out,
                    struct br_err *err);
void load_offer_free(struct load_offer *offer);

/* "64", "uniform:A:B", "lognormal:MEDIAN:SIGMA", "lognormal:MEDIAN:SIGMA:MIN:MAX"; option names it in errors. */
int load_length_parse(const char *option, const char *text, struct br_length *out, struct br_err *err);

#endif
