/* The queue inside the process, for tests and simulation: the same answers as Redis would give, one loop turn later. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler/queue/done.h"

enum { MEM_BUCKETS = 1 << 14, MEM_FINISHED_KEPT = 4096 };

struct mem_seq {
    struct mem_seq *in_bucket;
    struct mem_seq *prev, *next; /* the unfinished by arrival, or the finished by end */
    uint64_t id, fence;
    int64_t arrival_us;
    struct br_buf spec; /* packed */
    struct br_token *tokens;
    uint32_t n, cap;
    enum br_end end;
};

struct mem_list {
    struct mem_seq *head, *tail;
    uint32_t n;
};

struct mem_queue {
    struct br_queue base;
    struct br_done_list later;
    struct mem_seq *buckets[MEM_BUCKETS];
    struct mem_list unfinished, finished; /* of the finished the last ones are kept, so that a repetition finds them */
};

static struct mem_queue *mem_of(struct br_queue *q)
{
    return (struct mem_queue *)q;
}

/* ---- sequences ---- */

static struct mem_seq **mem_slot(struct mem_queue *q, uint64_t id)
{
    struct mem_seq **slot = &q->buckets[(id * 0x9e3779b97f4a7c15u) >> 50];
    while (*slot && (*slot)->id != id)
        slot = &(*slot)->in_bucket;
    return slot;
}

static void list_push(struct mem_list *list, struct mem_seq *seq)
{
    seq->next = NULL;
    seq->prev = list->tail;
    *(list->tail ? &list->tail->next : &list->head) = seq;
    list->tail = seq;
    list->n++;
}

static void list_remove(struct mem_list *list, struct mem_seq *seq)
{
    *(seq->prev ? &seq->prev->next : &list->head) = seq->next;
    *(seq->next ? &seq->next->prev : &list->tail) = seq->prev;
    list->n--;
}

static void mem_drop(struct mem_queue *q, struct mem_list *list, struct mem_seq *seq)
{
    list_remove(list, seq);
    *mem_slot(q, seq->id) = seq->in_bucket;
    br_buf_free(&seq->spec);
    free(seq->tokens);
    free(seq);
}

static void mem_finish(struct mem_queue *q, struct mem_seq *seq, enum br_end end)
{
    seq->end = end;
    list_remove(&q->unfinished, seq);
    list_push(&q->finished, seq);
    if (q->finished.n > MEM_FINISHED_KEPT)
        mem_drop(q, &q->finished, q->finished.head);
}

static struct mem_seq *mem_add(struct mem_queue *q, uint64_t id, struct br_buf *spec, int64_t arrival_us)
{
    struct mem_seq *seq = br_calloc(1, sizeof *seq), **slot = mem_slot(q, id);
    *seq = (struct mem_seq){.id = id, .fence = 1, .arrival_us = arrival_us, .spec = *spec};
    *spec = (struct br_buf){0};
    *slot = seq;
    list_push(&q->unfinished, seq);
    return seq;
}

/* ---- the operations ---- */

static void answer(struct mem_queue *q, struct br_done done, int rc)
{
    done.rc = rc;
    br_done_later(&q->later, &done);
}

/* How many of them are stored already, with the same spec; BR_EINVAL if an id is another sequence's. */
static int64_t mem_known(struct mem_queue *q, const struct br_seq_spec *specs, uint32_t n)
{
    struct br_buf blob = {0};
    int64_t known = 0;
    for (uint32_t i = 0; i < n && known >= 0; i++) {
        struct mem_seq *seq = *mem_slot(q, specs[i].id);
        br_buf_clear(&blob);
        br_seq_spec_pack(&specs[i], &blob);
        if (seq && (seq->spec.len != blob.len || memcmp(seq->spec.data, blob.data, blob.len)))
            known = BR_EINVAL;
        else if (seq)
            known++;
    }
    br_buf_free(&blob);
    return known;
}

static void mem_accept(struct br_queue *base, const struct br_seq_spec *specs, uint32_t n, br_queue_accept_cb cb,
                       void *ctx)
{
    struct mem_queue *q = mem_of(base);
    struct br_done done = {.accept = cb, .ctx = ctx, .arrival_us = br_wall_ns() / 1000, .fence = 1};
    int64_t known = mem_known(q, specs, n);
    if (n == 0 || (known && known != n)) {
        answer(q, done, BR_EINVAL);
        return;
    }
    for (uint32_t i = 0; i < n && !known; i++) {
        struct br_buf blob = {0};
        br_seq_spec_pack(&specs[i], &blob);
        mem_add(q, specs[i].id, &blob, done.arrival_us);
    }
    done.arrival_us = (*mem_slot(q, specs[0].id))->arrival_us;
    done.fence = (*mem_slot(q, specs[0].id))->fence;
    answer(q, done, 0);
}

static void mem_lease(struct br_queue *base, uint64_t id, br_queue_lease_cb cb, void *ctx)
{
    struct mem_queue *q = mem_of(base);
    struct br_done done = {.lease = cb, .ctx = ctx};
    struct mem_seq *seq = *mem_slot(q, id);
    if (!seq || seq->end) {
        answer(q, done, seq ? BR_ENOENT : BR_EINVAL);
        return;
    }
    done.fence = ++seq->fence;
    answer(q, done, 0);
}

static void seq_store(struct mem_seq *seq, uint32_t first, const struct br_token *tokens, uint32_t n)
{
    uint32_t known = seq->n - first;
    if (n <= known)
        return;
    if (first + n > seq->cap) {
        seq->cap = (first + n) * 2;
        seq->tokens = br_realloc(seq->tokens, seq->cap * sizeof *seq->tokens);
    }
    memcpy(seq->tokens + seq->n, tokens + known, (n - known) * sizeof *tokens);
    seq->n = first + n;
}

static int seq_append(struct mem_queue *q, struct mem_seq *seq, uint64_t fence, uint32_t first,
                      const struct br_token *tokens, uint32_t n, enum br_end end)
{
    if (!seq || seq->fence < fence)
        return BR_EINVAL;
    if (fence != seq->fence)
        return BR_ESTALE;
    if (seq->end)
        return (uint64_t)first + n <= seq->n && (!end || end == seq->end) ? 0 : BR_ENOENT;
    if (first > seq->n)
        return BR_EINVAL;
    seq_store(seq, first, tokens, n);
    if (end)
        mem_finish(q, seq, end);
    return 0;
}

static void mem_append(struct br_queue *base, uint64_t id, uint64_t fence, uint32_t first,
                       const struct br_token *tokens, uint32_t n, enum br_end end, const char *error, br_queue_cb cb,
                       void *ctx)
{
    struct mem_queue *q = mem_of(base);
    (void)error;
    answer(q, (struct br_done){.plain = cb, .ctx = ctx}, seq_append(q, *mem_slot(q, id), fence, first, tokens, n, end));
}

static int seq_restore(struct mem_queue *q, const struct br_seq_spec *spec, uint64_t fence)
{
    struct mem_seq *seq = *mem_slot(q, spec->id);
    struct br_buf blob = {0};
    if (seq && seq->end)
        return BR_ENOENT;
    if (seq && seq->fence > fence)
        return BR_ESTALE;
    if (!seq) {
        br_seq_spec_pack(spec, &blob);
        seq = mem_add(q, spec->id, &blob, spec->arrival_us);
    }
    seq->fence = fence;
    return 0;
}

static void mem_restore(struct br_queue *base, const struct br_seq_spec *spec, uint64_t fence, br_queue_cb cb,
                        void *ctx)
{
    struct mem_queue *q = mem_of(base);
    answer(q, (struct br_done){.plain = cb, .ctx = ctx}, seq_restore(q, spec, fence));
}

/* ---- recover ---- */

struct mem_recover {
    struct mem_queue *q;
    br_queue_each_cb each;
    br_queue_cb done;
    void *ctx;
    uint32_t n;
    uint64_t ids[]; /* as of the call: each may change the queue */
};

static void recover_give(struct mem_recover *rec, const struct mem_seq *seq)
{
    struct br_seq_spec spec;
    struct br_token *tokens = NULL;
    struct br_err err;
    int64_t age_us = br_wall_ns() / 1000 - seq->arrival_us;
    if (br_seq_spec_unpack(seq->spec.data, seq->spec.len, &spec, &err))
        return; /* a spec that Redis would give back as broken */
    spec.arrival_us = seq->arrival_us;
    if (seq->n) {
        tokens = br_malloc(seq->n * sizeof *tokens);
        memcpy(tokens, seq->tokens, seq->n * sizeof *tokens);
    }
    rec->each(rec->ctx, &spec, tokens, seq->n, seq->fence, age_us > 0 ? (double)age_us / 1e6 : 0);
}

static void recover_run(void *ctx, int rc)
{
    struct mem_recover *rec = ctx;
    for (uint32_t i = 0; i < rec->n && rc == 0; i++) {
        struct mem_seq *seq = *mem_slot(rec->q, rec->ids[i]);
        if (seq && !seq->end)
            recover_give(rec, seq);
    }
    rec->done(rec->ctx, rc);
    free(rec);
}

static void mem_recover(struct br_queue *base, br_queue_each_cb each, br_queue_cb done, void *ctx)
{
    struct mem_queue *q = mem_of(base);
    struct mem_recover *rec = br_malloc(sizeof *rec + q->unfinished.n * sizeof rec->ids[0]);
    *rec = (struct mem_recover){.q = q, .each = each, .done = done, .ctx = ctx};
    for (struct mem_seq *seq = q->unfinished.head; seq; seq = seq->next)
        rec->ids[rec->n++] = seq->id;
    answer(q, (struct br_done){.plain = recover_run, .ctx = rec}, 0);
}

/* ---- the queue ---- */

static bool mem_healthy(const struct br_queue *base)
{
    (void)base;
    return true;
}

static void mem_closed(uv_handle_t *handle)
{
    struct br_done_list *list = handle->data;
    struct mem_queue *q = (struct mem_queue *)((char *)list - offsetof(struct mem_queue, later));
    while (q->unfinished.head)
        mem_drop(q, &q->unfinished, q->unfinished.head);
    while (q->finished.head)
        mem_drop(q, &q->finished, q->finished.head);
    free(q);
}

static void mem_destroy(struct br_queue *base)
{
    struct mem_queue *q = mem_of(base);
    for (struct br_done *done = q->later.head; done; done = done->next)
        done->rc = BR_EIO;
    br_done_list_close(&q->later, mem_closed);
}

static const struct br_queue_ops mem_ops = {
    .destroy = mem_destroy,
    .accept = mem_accept,
    .lease = mem_lease,
    .append = mem_append,
    .restore = mem_restore,
    .recover = mem_recover,
    .healthy = mem_healthy,
};

int br_queue_mem_create(uv_loop_t *loop, struct br_queue **out, struct br_err *err)
{
    struct mem_queue *q = br_calloc(1, sizeof *q);
    (void)err;
    q->base.ops = &mem_ops;
    br_done_list_init(&q->later, loop);
    *out = &q->base;
    return 0;
}
