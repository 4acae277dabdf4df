/* What a turn knows of itself, as messages of worker.proto. The messages borrow what they point to. */
#ifndef BRIAREUS_WORKER_NODE_SAID_H
#define BRIAREUS_WORKER_NODE_SAID_H

#include "proto/transfers.h"
#include "proto/worker.pb-c.h"
#include "worker/turn/turn.h"
#include "worker/weights/store.h"

/* step: storage for the message within the message. */
void said_model_info(const struct br_turn_model_info *info, Briareus__StepShape *step, Briareus__ModelInfo *out);
void said_shape(const struct br_step_shape *shape, Briareus__StepShape *out);
/* All but the slots and transfers. */
void said_report(const struct br_turn_stats *stats, Briareus__StepReport *out);
/* Adds what a turn and a store have counted to *sum. */
void said_turn_transfers(const struct br_turn_stats *stats, struct br_transfers *sum);
void said_store_transfers(const struct br_weight_store *store, struct br_transfers *sum);

#endif
