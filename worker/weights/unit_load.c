#include "worker/weights/unit_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "worker/weights/fast_hash.h"
#include "worker/weights/memory.h"
#include "worker/weights/panel.h"

enum { BLOCKS_PER_ITEM = 64 }; /* of a check */

static uint64_t blocks(uint64_t bytes)
{
    return bytes <= BR_CHECK_BLOCK ? 1 : (bytes + BR_CHECK_BLOCK - 1) / BR_CHECK_BLOCK;
}

static uint64_t block_bytes(uint64_t bytes, uint64_t block)
{
    uint64_t at = block * BR_CHECK_BLOCK;
    return bytes - at < BR_CHECK_BLOCK ? bytes - at : BR_CHECK_BLOCK;
}

static uint64_t sums_join(const uint64_t *sums, uint64_t n)
{
    return n == 1 ? sums[0] : XXH3_64bits(sums, n * sizeof *sums);
}

uint64_t br_unit_checksum(const void *unit, uint64_t bytes)
{
    uint64_t n = blocks(bytes), sum;
    uint64_t *sums = br_calloc(n, sizeof *sums);
    for (uint64_t i = 0; i < n; i++)
        sums[i] = XXH3_64bits((const unsigned char *)unit + i * BR_CHECK_BLOCK, block_bytes(bytes, i));
    sum = sums_join(sums, n);
    free(sums);
    return sum;
}

/* ---- the items of a load: each so many steps of a part that about BR_READ_BYTES are read ---- */

static uint64_t steps_per_item(const struct br_pack_part *part)
{
    struct br_pack_range ranges[BR_PART_TENSORS];
    uint64_t bytes = 0, n = br_pack_ranges(part, 0, 1, ranges);
    for (uint64_t i = 0; i < n; i++)
        bytes += ranges[i].bytes;
    return bytes && bytes < BR_READ_BYTES ? BR_READ_BYTES / bytes : 1;
}

static uint32_t part_items(const struct br_pack_part *part)
{
    uint64_t per = steps_per_item(part);
    return (uint32_t)((part->steps + per - 1) / per);
}

/* The steps of item `item`. */
static const struct br_pack_part *item_find(const struct br_unit_load *l, uint32_t item, uint64_t *first, uint64_t *n)
{
    const struct br_pack_part *part = l->parts;
    uint64_t per;
    for (; item >= part_items(part); part++)
        item -= part_items(part);
    per = steps_per_item(part);
    *first = item * per;
    *n = part->steps - *first < per ? part->steps - *first : per;
    return part;
}

static void load_fail(struct br_unit_load *l, const struct br_err *err)
{
    pthread_mutex_lock(&l->lock);
    if (!l->rc) {
        l->rc = err->code;
        l->err = *err;
    }
    pthread_mutex_unlock(&l->lock);
}

static bool load_failed(struct br_unit_load *l)
{
    pthread_mutex_lock(&l->lock);
    bool failed = l->rc != 0;
    pthread_mutex_unlock(&l->lock);
    return failed;
}

static uint64_t ranges_hash(const struct br_pack_range *ranges, uint32_t n, const unsigned char *const *at)
{
    uint64_t sums[BR_PART_TENSORS] = {0};
    for (uint32_t i = 0; i < n; i++)
        sums[i] = ranges[i].bytes ? XXH3_64bits(at[i], ranges[i].bytes) : 0;
    return XXH3_64bits(sums, sizeof sums);
}

/* Sums up the blocks that lie in [at, at + bytes) of the unit as a whole, while they are in the cache. */
static void blocks_sum(struct br_unit_load *l, uint64_t at, const unsigned char *data, uint64_t bytes)
{
    for (uint64_t b = (at + BR_CHECK_BLOCK - 1) / BR_CHECK_BLOCK; (b + 1) * BR_CHECK_BLOCK <= at + bytes; b++)
        l->sums[b] = XXH3_64bits(data + (b * BR_CHECK_BLOCK - at), BR_CHECK_BLOCK);
}

static int item_read(struct br_unit_load *l, uint32_t item, struct br_load_buffers *buffers, struct br_err *err)
{
    struct br_pack_range ranges[BR_PART_TENSORS];
    const unsigned char *at[BR_PART_TENSORS] = {0};
    uint64_t first, n;
    const struct br_pack_part *part = item_find(l, item, &first, &n);
    uint32_t n_ranges = br_pack_ranges(part, first, n, ranges);
    int rc = br_weight_source_read(l->source, ranges, n_ranges, &buffers->in, at, err);
    if (rc)
        return rc;
    l->hashes[item] =
        part->kind == BR_PART_LINEARS ? br_pack_linears_hash(part, first, n) : ranges_hash(ranges, n_ranges, at);
    if (l->task == BR_UNIT_CONTENT)
        return 0;
    uint64_t to = part->at + first * part->step_bytes, bytes = n * part->step_bytes;
    if (l->fd < 0) {
        br_pack_steps(&l->source->packer, part, first, n, at, l->out + to);
        blocks_sum(l, to, l->out + to, bytes);
        return 0;
    }
    br_read_buffer_grow(&buffers->out, bytes);
    br_pack_steps(&l->source->packer, part, first, n, at, buffers->out.data);
    blocks_sum(l, to, buffers->out.data, bytes);
    return br_file_write(l->fd, l->offset + to, buffers->out.data, bytes, err);
}

static void read_run(struct br_load_job *job, uint32_t item, struct br_load_buffers *buffers)
{
    struct br_unit_load *l = (struct br_unit_load *)job;
    struct br_err err;
    if (!load_failed(l) && item_read(l, item, buffers, &err))
        load_fail(l, &err);
}

static void check_run(struct br_load_job *job, uint32_t item, struct br_load_buffers *buffers)
{
    struct br_unit_load *l = (struct br_unit_load *)job;
    (void)buffers;
    uint64_t first = (uint64_t)item * BLOCKS_PER_ITEM, n = blocks(l->bytes);
    for (uint64_t b = first; b < n && b < first + BLOCKS_PER_ITEM; b++)
        l->sums[b] = XXH3_64bits(l->out + b * BR_CHECK_BLOCK, block_bytes(l->bytes, b));
}

static void load_end(struct br_unit_load *l)
{
    free(l->hashes);
    free(l->sums);
    l->hashes = l->sums = NULL;
    pthread_mutex_destroy(&l->lock);
    l->done(l);
}

static void check_finish(struct br_load_job *job)
{
    struct br_unit_load *l = (struct br_unit_load *)job;
    l->checksum = sums_join(l->sums, blocks(l->bytes));
    load_end(l);
}

static void check_start(struct br_unit_load *l, bool first)
{
    l->job.items = (uint32_t)((blocks(l->bytes) + BLOCKS_PER_ITEM - 1) / BLOCKS_PER_ITEM);
    l->job.run = check_run;
    l->job.finish = check_finish;
    br_load_pool_submit(l->pool, &l->job, first);
}

/* The blocks that no item had as a whole. */
static void sums_complete(struct br_unit_load *l)
{
    uint64_t n = blocks(l->bytes);
    for (uint64_t b = 0; b < n; b++)
        if (!l->sums[b])
            l->sums[b] = XXH3_64bits(l->out + b * BR_CHECK_BLOCK, block_bytes(l->bytes, b));
    l->checksum = sums_join(l->sums, n);
}

static uint64_t content_of(const struct br_unit_load *l)
{
    uint64_t content = XXH3_64bits(l->hashes, l->job.items * sizeof *l->hashes);
    for (uint32_t p = 0; p < l->n_parts; p++)
        for (uint32_t i = 0; i < l->parts[p].n_tensors; i++) {
            const struct br_tensor *t = l->parts[p].tensor[i];
            uint64_t parts[] = {content, XXH3_64bits(t->name, strlen(t->name)), (uint64_t)t->dtype,
                                XXH3_64bits(t->shape, t->rank * sizeof t->shape[0])};
            content = XXH3_64bits(parts, sizeof parts);
        }
    return content;
}

static void read_finish(struct br_load_job *job)
{
    struct br_unit_load *l = (struct br_unit_load *)job;
    l->read_ns = br_now_ns();
    if (!l->rc)
        l->content = content_of(l);
    if (!l->rc && l->task == BR_UNIT_READ) {
        if (l->fd < 0) /* what was never written to a file is zero */
            br_pack_gaps(&l->source->packer, l->unit, l->out);
        sums_complete(l);
    }
    load_end(l);
}

void br_unit_load_start(struct br_load_pool *pool, struct br_unit_load *l, bool first)
{
    l->pool = pool;
    l->rc = 0;
    l->started_ns = br_now_ns();
    l->read_ns = 0;
    l->hashes = NULL;
    l->sums = br_calloc(blocks(l->bytes), sizeof *l->sums);
    pthread_mutex_init(&l->lock, NULL);
    if (l->task == BR_UNIT_CHECK) {
        check_start(l, first);
        return;
    }
    l->n_parts = br_pack_parts(&l->source->packer, l->unit, l->parts);
    l->job.items = 0;
    for (uint32_t p = 0; p < l->n_parts; p++)
        l->job.items += part_items(&l->parts[p]);
    l->job.run = read_run;
    l->job.finish = read_finish;
    l->hashes = br_calloc(l->job.items, sizeof *l->hashes);
    br_load_pool_submit(pool, &l->job, first);
}

struct loads_wait {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    uint32_t left;
};

static void wait_count(struct br_unit_load *l)
{
    struct loads_wait *w = l->ctx;
    pthread_mutex_lock(&w->lock);
    if (--w->left == 0)
        pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
}

int br_unit_loads_run(struct br_load_pool *pool, struct br_unit_load *loads, uint32_t n, struct br_err *err)
{
    struct loads_wait w = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, n};
    for (uint32_t i = 0; i < n; i++) {
        loads[i].done = wait_count;
        loads[i].ctx = &w;
        br_unit_load_start(pool, &loads[i], false);
    }
    pthread_mutex_lock(&w.lock);
    while (w.left)
        pthread_cond_wait(&w.ended, &w.lock);
    pthread_mutex_unlock(&w.lock);
    for (uint32_t i = 0; i < n; i++)
        if (loads[i].rc) {
            *err = loads[i].err;
            return loads[i].rc;
        }
    return 0;
}
