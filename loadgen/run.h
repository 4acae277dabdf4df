/* One open-loop run: requests leave when their schedule says, whether or not earlier ones have been answered. */
#ifndef BRIAREUS_LOADGEN_RUN_H
#define BRIAREUS_LOADGEN_RUN_H

#include "loadgen/ask.h"
#include "loadgen/journal.h"

/* Sends the workload of `ask` to the target and writes down what came of it; returns when all is answered, the drain
 * is over, or SIGINT or SIGTERM came (journal->interrupted). `label` opens the progress line. BR_EIO: the loop could
 * not be set up. Free the journal in any case. */
int load_run(const struct load_config *config, const struct load_target *target, const struct load_ask *ask,
             const char *label, struct load_journal *journal, struct br_err *err);

#endif
