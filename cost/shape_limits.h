/* Sane limits of a model shape: wide enough for every published dense decoder, narrow enough that no product of two of
 * them times a layer count overflows 64 bits. */
#ifndef BRIAREUS_COST_SHAPE_LIMITS_H
#define BRIAREUS_COST_SHAPE_LIMITS_H

#include "cost/shape.h"

enum {
    BR_SHAPE_MAX_HIDDEN = 1 << 16,
    BR_SHAPE_MAX_FFN = 1 << 19,
    BR_SHAPE_MAX_LAYERS = 1024,
    BR_SHAPE_MAX_HEADS = 1024,
    BR_SHAPE_MAX_HEAD_DIM = 1024,
    BR_SHAPE_MAX_VOCAB = 1 << 21,
    BR_SHAPE_MAX_POSITIONS = 1 << 25,
};

/* Every field within its limits and consistent with the others; for shapes that come from elsewhere than config.json
 * (an image's header, command-line flags). The error names the field. */
int br_model_shape_check(const struct br_model_shape *shape, struct br_err *err);

#endif
