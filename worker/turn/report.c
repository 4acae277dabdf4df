/* What the device did, for StepReport. */
#include <string.h>

#include "worker/turn/internal.h"

static uint32_t row_bucket(uint32_t rows)
{
    uint32_t bucket = 31u - (uint32_t)__builtin_clz(rows | 1);
    return bucket < TURN_ROW_BUCKETS ? bucket : TURN_ROW_BUCKETS - 1;
}

/* A step that was started while its weights were on their way computed for about as long as such steps take with all
 * weights there; the rest of its time it waited for them. */
void turn_count_step(struct br_turn *t, double wall_s)
{
    const struct turn_step *step = &t->step;
    struct turn_model *m = &t->models[step->slot];
    double *usual = &m->step_s[row_bucket(step->rows)], compute_s = wall_s;
    if (!step->cold)
        *usual = *usual > 0 ? .9 * *usual + .1 * wall_s : wall_s;
    else if (*usual > 0 && *usual < wall_s)
        compute_s = *usual;
    m->compute_s += compute_s;
    t->stats.compute_s += compute_s;
    t->stats.stalled_s += wall_s - compute_s;
    t->stats.stalled_weights_s += wall_s - compute_s;
    t->stats.steps++;
    t->stats.rows += step->rows;
    if (t->last_slot >= 0 && t->last_slot != (int32_t)step->slot) {
        t->stats.switches++;
        t->stats.switch_hits += !step->cold;
    }
    t->last_slot = (int32_t)step->slot;
}

static double *stall_cause(struct br_turn *t)
{
    if (turn_loads_flying(t))
        return &t->stats.stalled_weights_s;
    if (t->moving)
        return &t->stats.stalled_compaction_s;
    if (t->n_swaps_in)
        return &t->stats.stalled_kv_s;
    if (t->n_swaps || t->n_loads || t->n_wants)
        return &t->stats.stalled_room_s;
    return &t->stats.stalled_other_s;
}

void turn_count_wait(struct br_turn *t, double seconds)
{
    t->stats.stalled_s += seconds;
    *stall_cause(t) += seconds;
}

void turn_busy_begin(struct turn_busy *busy)
{
    if (busy->n++ == 0)
        busy->from_ns = br_now_ns();
}

void turn_busy_end(struct turn_busy *busy)
{
    if (--busy->n == 0)
        busy->s += (double)(br_now_ns() - busy->from_ns) / 1e9;
}

static void count_slots(const struct br_turn *t, struct br_turn_slot_stats *slots)
{
    for (uint32_t i = 0; i < t->n_models; i++) {
        slots[i].waiting = slots[i].running = 0;
        slots[i].resident_bytes = t->models[i].engine ? br_residency_bytes(t->residency, i) : 0;
        slots[i].stepping = t->step.on && t->step.slot == i;
        slots[i].loading = t->models[i].engine && br_residency_loading(t->residency, i);
        slots[i].compute_s = t->models[i].compute_s;
        slots[i].shape = (struct br_step_shape){0};
        if (slots[i].compute_s > 0)
            br_dev_shape(t->core, i, &slots[i].shape);
    }
    for (uint32_t i = 0; t->n_seqs && i < t->config.max_seqs; i++) {
        const struct turn_seq *s = &t->seqs[i];
        if (t->seq_ids[i])
            *(s->n_ids > s->spec.n_prompt + s->n_given ? &slots[s->slot].running : &slots[s->slot].waiting) += 1;
    }
}

/* What others keep. */
static void gather(struct br_turn *t)
{
    struct br_residency_stats weights;
    struct br_kv_stats kv;
    br_residency_stats(t->residency, &weights);
    br_kv_stats(t->kv, &kv);
    t->stats.loaded_bytes = weights.loaded_bytes;
    t->stats.evicted_bytes = weights.evicted_bytes;
    t->stats.moved_bytes = weights.moved_bytes;
    t->stats.compactions = weights.compactions;
    t->stats.slides = weights.slides;
    t->stats.link_bytes_per_s = t->link_bytes_per_s;
    t->stats.load_s = t->busy_load.s;
    t->stats.kv_in_s = t->busy_kv_in.s;
    t->stats.kv_out_s = t->busy_kv_out.s;
    t->stats.kv_moved_s = t->busy_moves.s;
    t->stats.weight_bytes = br_residency_used(t->residency);
    t->stats.device_kv_bytes = kv.device_bytes_owned + kv.device_bytes_in_flight;
    t->stats.host_kv_bytes = kv.host_bytes_owned + kv.host_bytes_in_flight;
}

void turn_publish(struct br_turn *t)
{
    gather(t);
    t->published_ns = br_now_ns();
    t->stats.wall_s = (double)(t->published_ns - t->start_ns) / 1e9;
    pthread_mutex_lock(&t->published_mutex);
    t->published = t->stats;
    count_slots(t, t->published_slots);
    pthread_mutex_unlock(&t->published_mutex);
}

void br_turn_stats(struct br_turn *t, struct br_turn_stats *out, struct br_turn_slot_stats *slots)
{
    pthread_mutex_lock(&t->published_mutex);
    *out = t->published;
    if (slots)
        memcpy(slots, t->published_slots, t->n_models * sizeof *slots);
    pthread_mutex_unlock(&t->published_mutex);
}
