#include "worker/node/said.h"

void said_shape(const struct br_step_shape *shape, Briareus__StepShape *out)
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
    said_shape(&info->shape, step);
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
    out->prompt_tokens = s->prompt_tokens;
    out->cached_tokens = s->cached_tokens;
}

void said_turn_transfers(const struct br_turn_stats *s, struct br_transfers *sum)
{
    struct br_transfers t = {.loaded_bytes = s->loaded_bytes,
                             .kv_out_bytes = s->kv_out_bytes,
                             .kv_in_bytes = s->kv_in_bytes,
                             .kv_moved_bytes = s->kv_moved_bytes,
                             .kv_out_s = s->kv_out_s,
                             .kv_in_s = s->kv_in_s,
                             .kv_moved_s = s->kv_moved_s,
                             .swaps_out = s->swaps_out,
                             .swaps_in = s->swaps_in,
                             .swaps_ahead = s->swaps_ahead,
                             .drops = s->drops,
                             .handed_out_bytes = s->handed_out_bytes,
                             .handed_in_bytes = s->handed_in_bytes,
                             .handed_tokens = s->handed_tokens,
                             .handed_damaged = s->handed_damaged,
                             .handed_in_s = s->handed_in_s,
                             .load_s = s->load_s,
                             .evicted_bytes = s->evicted_bytes,
                             .moved_bytes = s->moved_bytes,
                             .switch_hits = s->switch_hits,
                             .shortages = s->shortages,
                             .stalled_weights_s = s->stalled_weights_s,
                             .stalled_kv_s = s->stalled_kv_s,
                             .stalled_room_s = s->stalled_room_s,
                             .stalled_compaction_s = s->stalled_compaction_s,
                             .stalled_other_s = s->stalled_other_s,
                             .device_weight_bytes = s->weight_bytes,
                             .device_kv_bytes = s->device_kv_bytes,
                             .host_kv_bytes = s->host_kv_bytes};
    br_transfers_add(sum, &t);
}

void said_store_transfers(const struct br_weight_store *store, struct br_transfers *sum)
{
    struct br_weight_stats s;
    struct br_transfers t = {0};
    br_weight_store_stats(store, &s);
    t.cache_hits = s.hits;
    t.cache_misses = s.misses;
    t.cache_hit_bytes = s.hit_bytes;
    t.cache_missed_bytes = s.missed_bytes;
    t.cache_filled_bytes = s.filled_bytes;
    t.cache_dropped_bytes = s.dropped_bytes;
    t.cache_repaired = s.repaired;
    t.cache_failures = s.failures;
    t.cache_wait_s = s.wait_s;
    t.disk_bytes = s.disk_bytes;
    t.disk_s = s.disk_s;
    t.checked_bytes = s.checked_bytes;
    t.checked_s = s.check_s;
    br_transfers_add(sum, &t);
}
