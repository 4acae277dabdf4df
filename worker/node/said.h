/* What a turn knows of itself, as messages of worker.proto. The messages borrow what they point to. */
#ifndef BRIAREUS_WORKER_NODE_SAID_H
#define BRIAREUS_WORKER_NODE_SAID_H

#include "proto/worker.pb-c.h"
#include "worker/turn/turn.h"

/* step: storage for the message within the message. */
void said_model_info(const struct br_turn_model_info *info, Briareus__StepShape *step, Briareus__ModelInfo *out);
/* All but the slots. */
void said_report(const struct br_turn_stats *stats, Briareus__StepReport *out);

#endif
