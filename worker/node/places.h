/* The models of a device process by place in its turn: those of the plan, then spare places for those that come while
 * it runs. Orders about models go through here: adding and removing needs more than the turn. */
#ifndef BRIAREUS_WORKER_NODE_PLACES_H
#define BRIAREUS_WORKER_NODE_PLACES_H

#include <uv.h>

#include "worker/node/added.h"

struct places;

enum { NODE_SPARE_MODELS = 32 };

/* models: [n], those of the plan and the spare ones (named ""), borrowed. send gives a frame to the scheduler. */
struct places *places_create(uv_loop_t *loop, const struct node_plan *plan, const struct br_turn_model *models,
                             uint32_t n, void (*send)(void *ctx, const Briareus__Frame *frame), void *ctx);
void places_turn(struct places *places, struct br_turn *turn);        /* NULL: it is gone, and with it all orders */
void places_free(struct places *places);                              /* after the loop has run */
const char *places_name(const struct places *places, uint32_t place); /* NULL: it is free */
int32_t places_find(const struct places *places, const char *name);   /* -1: not here */
void places_order(struct places *places, const Briareus__ModelOrder *order);
void places_done(struct places *places, const struct br_turn_done *done); /* from the loop: the turn's answer */

#endif
