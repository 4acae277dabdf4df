#include "scheduler/core/step_cost.h"

#include <math.h>

void br_step_cost_init(struct br_step_cost *cost, const struct br_step_shape *shape)
{
    *cost = (struct br_step_cost){.shape = *shape};
    for (int i = 0; i < BR_STEP_KINDS; i++)
        cost->factor[i] = 1;
}

static int kind_of(uint32_t decodes, uint32_t prefill)
{
    return prefill == 0 ? BR_STEP_DECODE : decodes == 0 ? BR_STEP_PREFILL : BR_STEP_MIXED;
}

static double predicted(const struct br_step_shape *s, uint32_t decodes, int64_t kv_bytes, uint32_t prefill)
{
    double memory = s->read_s + (double)kv_bytes * s->kv_byte_s, compute = ((double)decodes + prefill) * s->row_s;
    return s->fixed_s + fmax(memory, compute);
}

double br_step_cost_s(const struct br_step_cost *cost, uint32_t decodes, int64_t kv_bytes, uint32_t prefill)
{
    return cost->factor[kind_of(decodes, prefill)] * predicted(&cost->shape, decodes, kv_bytes, prefill);
}

/* Steps by a share of the ratio's sign, not of its size: a median follower, which no outlier can pull far. The first
 * steps go further, since the constants may be wrong by some tens of percent. */
void br_step_cost_seen(struct br_step_cost *cost, uint32_t decodes, int64_t kv_bytes, uint32_t prefill, double seconds)
{
    int kind = kind_of(decodes, prefill);
    double expected = br_step_cost_s(cost, decodes, kv_bytes, prefill);
    if (!(seconds > 0) || !(expected > 0) || !isfinite(seconds))
        return;
    double most = cost->seen[kind] < 16 ? .1 : .03, off = .2 * log(seconds / expected);
    off = off > most ? most : off < -most ? -most : off;
    cost->factor[kind] *= exp(off);
    cost->seen[kind] += cost->seen[kind] < UINT32_MAX;
}

struct br_step_shape br_step_cost_shape(const struct br_step_cost *cost)
{
    const struct br_step_shape *s = &cost->shape;
    double decode = cost->factor[BR_STEP_DECODE];
    return (struct br_step_shape){s->fixed_s * decode, s->read_s * decode, s->kv_byte_s * decode,
                                  s->row_s * cost->factor[BR_STEP_PREFILL]};
}
