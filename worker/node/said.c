#include "worker/node/said.h"

static void step_shape(const struct br_step_shape *shape, Briareus__StepShape *out)
{
    briareus__step_shape__init(out);
    out->fixed_s = shape->fixed_s;
    out->read_s = shape->read_s;
    out->kv_byte_s = shape->kv_byte_s;
    out->row_s = shape->row_s;
}

void said_model_info(const struct br_turn_model_info *info, Briareus__StepShape *step, Briareus__ModelInfo *out)
{
    briareus__model_info__init(out);
    out->name = (char *)info->name;
    out->weight_bytes = info->weight_bytes;
    out->kv_block_bytes = info->kv_block_bytes;
    out->max_context = info->max_context;
    out->vocab = info->vocab;
    out->step_s = info->step_s;
    out->load_s = info->load_s;
    out->kv_token_bytes = info->kv_token_bytes;
    step_shape(&info->shape, step);
    out->step = info->step_s > 0 ? step : NULL;
    out->error = (char *)info->error;
}

void said_report(const struct br_turn_stats *s, Briareus__StepReport *out)
{
    briareus__step_report__init(out);
    out->steps = s->steps;
    out->switches = s->switches;
    out->loaded_bytes = s->loaded_bytes;
    out->kv_out_bytes = s->kv_out_bytes;
    out->kv_in_bytes = s->kv_in_bytes;
    out->compute_s = s->compute_s;
    out->stalled_s = s->stalled_s;
    out->wall_s = s->wall_s;
    out->link_bytes_per_s = s->link_bytes_per_s;
}
