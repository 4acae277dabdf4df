/* Models without weights, for simulated devices: whether they fit, how the devices' memory is divided, and what a
 * device process makes of them. */
#ifndef BRIAREUS_WORKER_NODE_OUTLINE_H
#define BRIAREUS_WORKER_NODE_OUTLINE_H

#include <jansson.h>

#include "text/tokenizer.h"
#include "worker/node/plan.h"
#include "worker/weights/image.h"

/* Whether its devices take models by their shape alone: neither cpu nor cuda. */
bool node_outlines(const struct br_worker_config *config);

/* Of a whole configuration: kind of device, GPU, tensor parallelism, speed, and that models and devices belong
 * together. BR_EINVAL; also when none of the models fits, with the numbers. */
int node_outlines_check(const struct br_worker_config *config, struct br_err *err);

/* For a configuration that passed the check and is not cpu's: sets memory_bytes and kv_bytes where they are 0, and the
 * error of each model that does not fit. KV gets what is left beside as many of the largest models as there is room
 * for. */
void node_outlines_settle(struct br_worker_config *config, struct node_image *images);

/* An entry as JSON in the supervisor's plan; -1: damaged. An entry that was unpacked borrows from the JSON. */
json_t *node_outline_pack(const struct br_model_entry *entry);
int node_outline_unpack(json_t *json, const char *name, struct br_model_entry *out);

/* Image and tokenizer of an entry; both are the caller's. Errors: those of its tokenizer. */
int node_outline_image(const struct br_model_entry *entry, uint32_t tensor_parallel, struct br_weight_image **image,
                       struct br_tokenizer **tokenizer, struct br_err *err);

#endif
