/* generation_config.json of a model's folder: the sampling parameters that its makers recommend, for requests that do
 * not say otherwise. As vLLM: temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens; do_sample does not
 * count. */
#ifndef BRIAREUS_SCHEDULER_GENERATION_H
#define BRIAREUS_SCHEDULER_GENERATION_H

#include "scheduler/gateway/gateway.h"

/* Reads DIR/generation_config.json; without it nothing is given. Errors (BR_EINVAL, BR_EIO) name the key; *out is then
 * untouched. */
int br_generation_load(const char *dir, struct br_gateway_defaults *out, struct br_err *err);
/* The same from text. */
int br_generation_parse(const char *json, size_t len, struct br_gateway_defaults *out, struct br_err *err);

#endif
