/* A model that comes to a running device process: its image in the host cache, its tokenizer. */
#ifndef BRIAREUS_WORKER_NODE_ADDED_H
#define BRIAREUS_WORKER_NODE_ADDED_H

#include "proto/convert.h"
#include "worker/node/plan.h"
#include "worker/turn/turn.h"

struct added;

/* What the scheduler says of it, copied; nothing is read yet. BR_EINVAL: it says too little, or what cannot be. */
int added_ask(const struct node_plan *plan, const char *name, const Briareus__ModelSource *source, struct added **out,
              struct br_err *err);
/* Reads, packs, caches: may take as long as reading the weights. From any thread. */
int added_make(struct added *added, struct br_err *err);
const struct br_turn_model *added_model(const struct added *added); /* once made */
void added_free(struct added *added);

#endif
