/* Rotary embedding parameters of a config.json, in any of their three spellings. */
#ifndef BRIAREUS_COST_SHAPE_ROPE_H
#define BRIAREUS_COST_SHAPE_ROPE_H

#include "cost/config_field.h"
#include "cost/shape.h"

/* Reads rope_theta, rope_scaling and rope_parameters into shape->rope; shape->max_positions is what
 * max_position_embeddings says and is scaled here where the method extends the context. */
int br_shape_read_rope(const struct br_config *config, struct br_model_shape *shape, struct br_err *err);

#endif
