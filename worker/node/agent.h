/* A device process' conversation with the scheduler: the link on one side, the turn on the other. */
#ifndef BRIAREUS_WORKER_NODE_AGENT_H
#define BRIAREUS_WORKER_NODE_AGENT_H

#include <uv.h>

#include "worker/node/plan.h"
#include "worker/turn/turn.h"
#include "worker/weights/store.h"

struct agent;

/* What it shares with others; each may be NULL. */
struct agent_with {
    const struct br_weight_store *store;
    struct br_parcels *parcels;
};

/* Starts the turn and the link on loop. on_end is called in the loop once after a drain, when all is computed and
 * sent; plan, models and what `with` names are borrowed until agent_stop. */
int agent_start(uv_loop_t *loop, const struct node_plan *plan, const struct br_turn_model *models,
                const struct agent_with *with, void (*on_end)(void *ctx), void *ctx, struct agent **out,
                struct br_err *err);
/* Stops the turn and closes the handles; the loop has to run until they are closed, then agent_free. */
void agent_stop(struct agent *agent);
void agent_free(struct agent *agent);

#endif
