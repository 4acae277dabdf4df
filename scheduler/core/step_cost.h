/* What a step of a slot takes, as the deciding half believes it: a roofline whose constants come from cost/ or from
 * measuring, corrected online by what steps really took. Pure. */
#ifndef BRIAREUS_SCHEDULER_CORE_STEP_COST_H
#define BRIAREUS_SCHEDULER_CORE_STEP_COST_H

#include <stdint.h>

/* seconds = fixed_s + max(read_s + kv_bytes * kv_byte_s, rows * row_s); rows = decodes + rows of prompt. */
struct br_step_shape {
    double fixed_s;   /* whatever the step is made of */
    double read_s;    /* reading the weights once */
    double kv_byte_s; /* reading one byte of the decodes' KV */
    double row_s;     /* arithmetic of one row */
};

enum { BR_STEP_DECODE, BR_STEP_PREFILL, BR_STEP_MIXED, BR_STEP_KINDS };

struct br_step_cost {
    struct br_step_shape shape;
    double factor[BR_STEP_KINDS]; /* measured over predicted, 1 at first */
    uint32_t seen[BR_STEP_KINDS];
};

void br_step_cost_init(struct br_step_cost *cost, const struct br_step_shape *shape);
double br_step_cost_s(const struct br_step_cost *cost, uint32_t decodes, int64_t kv_bytes, uint32_t prefill);
/* A step that waited for nothing took `seconds`. One outlier moves a factor by a few percent at most, whatever it is;
 * a lasting change is followed within some tens of steps. Not a number, zero or less: ignored. */
void br_step_cost_seen(struct br_step_cost *cost, uint32_t decodes, int64_t kv_bytes, uint32_t prefill, double seconds);

/* The corrected constants: the decodes' factor for what memory costs, the prompts' for what rows do. */
struct br_step_shape br_step_cost_shape(const struct br_step_cost *cost);

#endif
