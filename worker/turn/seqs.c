/* The sequence table. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/turn/internal.h"

int32_t turn_seq_find(const struct br_turn *t, uint64_t id)
{
    for (uint32_t i = 0; i < t->config.max_seqs; i++)
        if (t->seq_ids[i] == id)
            return (int32_t)i;
    return -1;
}

void turn_emit(struct br_turn *t, const struct turn_seq *s, const struct br_token *token, enum br_end end,
               const char *error)
{
    struct br_turn_output out = {
        .seq = s->id, .fence = s->fence, .n = token ? 1 : 0, .tokens = token, .end = end, .error = error};
    out.cached = s->n_cached < s->spec.n_prompt ? s->n_cached : s->spec.n_prompt;
    out.first = s->n_ids - s->spec.n_prompt - out.n;
    if (out.n && out.first == s->n_given && s->first_step_ns > s->arrival_ns)
        out.queued_s = (double)(s->first_step_ns - s->arrival_ns) / 1e9;
    t->stats.tokens += out.n;
    t->cb.output(t->cb.ctx, &out);
}

static void seq_release(struct br_turn *t, struct turn_seq *s)
{
    turn_hand_forget(t, s);
    turn_kv_forget(t, (uint32_t)(s - t->seqs));
    if (s->watch)
        br_end_watch_destroy(s->watch);
    br_seq_spec_free(&s->spec);
    free(s->ids);
    free(s->keys);
    free(s->blocks);
    if (s->id && t->seq_ids[s - t->seqs] == s->id) {
        t->seq_ids[s - t->seqs] = 0;
        t->n_seqs--;
    }
    *s = (struct turn_seq){.kv = BR_KV_NONE};
}

void turn_seq_end(struct br_turn *t, uint32_t index, const struct br_token *token, enum br_end end, const char *error)
{
    struct turn_seq *s = &t->seqs[index];
    assert(s->id && !s->in_step);
    turn_moments_end(t, s);
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SEQ_END, .slot = s->slot, .seq = index});
    if (!s->forgotten)
        turn_emit(t, s, token, end, error);
    if (s->hand_place)
        turn_hand_out(t, s);
    seq_release(t, s);
}

static int32_t model_find(const struct br_turn *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_models; i++)
        if (strcmp(t->models[i].info.name, name) == 0)
            return (int32_t)i;
    return -1;
}

static int model_check(const struct br_turn *t, const struct br_seq_spec *spec, int32_t slot, struct br_err *err)
{
    struct br_err why;
    if (t->draining)
        return br_err_set(err, BR_EBUSY, "this device is being drained");
    if (slot < 0)
        return br_err_set(err, BR_ENOENT, "model %s is not on this device", spec->model);
    if (!t->models[slot].engine)
        return br_err_set(err, BR_ENOTSUP, "model %s is not served here: %s", spec->model, t->models[slot].info.error);
    if (br_weight_image_failed(t->models[slot].image, &why))
        return br_err_set(err, BR_EIO, "model %s cannot be served any more: %s", spec->model, why.msg);
    if (spec->n_stop && !t->models[slot].tokenizer)
        return br_err_set(err, BR_ENOTSUP, "model %s has no tokenizer here: stop strings cannot be found", spec->model);
    return 0;
}

static int ids_check(const int32_t *ids, uint32_t n, uint32_t vocab, const char *what, struct br_err *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab)
            return br_err_set(err, BR_EINVAL, "%s token %u is id %d, the model has ids 0..%u", what, i, ids[i],
                              vocab - 1);
    return 0;
}

/* The most positions that the sequence can come to: its KV has to fit the device by itself. */
static int length_check(const struct turn_model *m, const struct br_seq_spec *spec, uint32_t n_given, uint32_t *most,
                        struct br_err *err)
{
    uint64_t all = (uint64_t)spec->n_prompt + (spec->max_tokens ? spec->max_tokens : m->max_positions);
    uint64_t blocks;
    if (spec->n_prompt == 0)
        return br_err_set(err, BR_EINVAL, "the prompt is empty");
    if (spec->n_prompt + n_given > m->max_positions)
        return br_err_set(err, BR_EINVAL, "%u prompt and %u output tokens, the context has %u", spec->n_prompt, n_given,
                          m->max_positions);
    *most = (uint32_t)(all < m->max_positions ? all : m->max_positions);
    blocks = (*most + BR_KV_TOKENS - 1) / BR_KV_TOKENS;
    if (blocks > m->kv_blocks_most)
        return br_err_set(err, BR_ENOMEM,
                          "KV of %u tokens needs %" PRIu64 " bytes, the device has %" PRIu64 " bytes for KV: ask for "
                          "fewer tokens",
                          *most, blocks * m->info.kv_block_bytes, m->kv_blocks_most * m->info.kv_block_bytes);
    return 0;
}

static int seq_check(const struct br_turn *t, const struct inbox_command *c, int32_t slot, uint32_t *most,
                     struct br_err *err)
{
    const struct br_seq_spec *spec = c->spec;
    int rc = model_check(t, spec, slot, err);
    if (rc == 0)
        rc = length_check(&t->models[slot], spec, c->n_ids, most, err);
    if (rc == 0)
        rc = ids_check(spec->prompt, spec->n_prompt, t->models[slot].info.vocab, "prompt", err);
    if (rc == 0)
        rc = ids_check(c->ids, c->n_ids, t->models[slot].info.vocab, "output", err);
    if (rc == 0 && t->n_seqs == t->config.max_seqs)
        rc = br_err_set(err, BR_EBUSY, "%u sequences are on this device, the most it takes", t->n_seqs);
    return rc;
}

static void refuse(struct br_turn *t, const struct inbox_command *c, const char *why)
{
    struct br_turn_output out = {.seq = c->seq, .fence = c->fence, .first = c->n_ids, .end = BR_END_FAILED};
    out.error = why;
    br_log(BR_WARN, "seq_refused", "seq=%" PRIu64 " model=%s why=%s", c->seq, c->spec->model, BR_Q(why));
    t->cb.output(t->cb.ctx, &out);
}

static void seq_fill(struct turn_seq *s, struct inbox_command *c, uint32_t slot, uint32_t most)
{
    uint32_t n_prompt = c->spec->n_prompt;
    if (most < n_prompt + c->n_ids)
        most = n_prompt + c->n_ids;
    *s = (struct turn_seq){.id = c->seq, .fence = c->fence, .spec = *c->spec, .slot = slot, .kv = BR_KV_NONE};
    br_seq_spec_init(c->spec);
    s->cap = most + 1; /* the last token is kept, its KV is never needed */
    s->ids = br_malloc(s->cap * sizeof *s->ids);
    memcpy(s->ids, s->spec.prompt, n_prompt * sizeof *s->ids);
    if (c->n_ids)
        memcpy(s->ids + n_prompt, c->ids, c->n_ids * sizeof *s->ids);
    s->n_ids = n_prompt + c->n_ids;
    s->n_given = c->n_ids;
    s->blocks = br_malloc((s->cap / BR_KV_TOKENS + 1) * sizeof *s->blocks);
    s->arrival_ns = c->arrival_ns;
}

/* Feeds the tokens that came with it to the watch; where they end the sequence already, says how. */
static int watch_start(const struct turn_model *m, struct turn_seq *s, enum br_end *end, struct br_err *err)
{
    const struct br_model_shape *shape = &m->image->layout.shape;
    int rc = br_end_watch_create(&s->spec, m->tokenizer, shape->eos, shape->n_eos, m->max_positions, &s->watch, err);
    *end = BR_END_NONE;
    for (uint32_t i = 0; rc == 0 && i < s->n_given && *end == BR_END_NONE; i++)
        *end = br_end_watch_push(s->watch, s->ids[s->spec.n_prompt + i]);
    if (rc == 0 && *end == BR_END_NONE && s->n_ids >= m->max_positions)
        *end = BR_END_LENGTH;
    return rc;
}

static void seq_tell(struct br_turn *t, uint32_t index)
{
    const struct turn_seq *s = &t->seqs[index];
    turn_tell(t, &(struct br_dev_event){.kind = BR_DEV_SEQ_ADD,
                                        .slot = s->slot,
                                        .seq = index,
                                        .tokens = s->n_ids,
                                        .known = turn_prefix_known(t, index),
                                        .delivered = s->n_given,
                                        .weight = s->spec.weight,
                                        .ttft_s = s->spec.ttft_s,
                                        .tbt_s = s->spec.tbt_s,
                                        .age_s = (double)(br_now_ns() - s->arrival_ns) / 1e9});
}

static void seq_start(struct br_turn *t, struct inbox_command *c, uint32_t slot, uint32_t most)
{
    int32_t index = turn_seq_find(t, 0);
    struct turn_seq *s = &t->seqs[index];
    struct turn_model *m = &t->models[slot];
    struct br_err err;
    enum br_end end;
    int rc;
    seq_fill(s, c, slot, most);
    t->seq_ids[index] = s->id;
    t->n_seqs++;
    rc = watch_start(m, s, &end, &err);
    if (rc == 0 && end == BR_END_NONE)
        rc = br_kv_open(t->kv, m->kv_shape, &s->kv, &err);
    if (rc || end != BR_END_NONE) {
        turn_emit(t, s, NULL, rc ? BR_END_FAILED : end, rc ? err.msg : NULL);
        seq_release(t, s);
        return;
    }
    t->stats.prompt_tokens += s->n_ids;
    turn_hand_expect(t, s, c->from);
    seq_tell(t, (uint32_t)index);
    if (!s->hand_from) /* else it may come whole */
        turn_prefix_fetch(t, (uint32_t)index);
}

/* It was forgotten while a step of it runs, and comes back before that ends: the old one has its place until then, but
 * not its name. */
static int32_t present(struct br_turn *t, uint64_t id)
{
    int32_t have = turn_seq_find(t, id);
    if (have < 0 || !t->seqs[have].forgotten)
        return have;
    assert(t->seqs[have].in_step);
    t->seqs[have].id = t->seq_ids[have] = UINT64_MAX - (uint64_t)have;
    return -1;
}

void turn_seq_add(struct br_turn *t, struct inbox_command *c)
{
    int32_t have = present(t, c->seq), slot = model_find(t, c->spec->model);
    uint32_t most = 0;
    struct br_err err;
    if (have >= 0) {
        struct turn_seq *s = &t->seqs[have];
        s->fence = c->fence > s->fence ? c->fence : s->fence;
    } else if (seq_check(t, c, slot, &most, &err))
        refuse(t, c, err.msg);
    else
        seq_start(t, c, (uint32_t)slot, most);
    inbox_command_free(c);
}
