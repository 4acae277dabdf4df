/* The step kernels as commands: each one is cut into tasks over outputs and run on the pool. */
#include <stdlib.h>
#include <string.h>

#include "worker/device/cpu/cpu.h"

static const struct cpu_kernel_set *kernel_set(const struct cpu_device *dev, enum br_numeric numeric)
{
    return numeric == BR_NUMERIC_BF16 ? &dev->isa->bf16 : &dev->isa->f32;
}

static int scratch_alloc(struct br_device *dev, uint64_t bytes, br_devptr *out, struct br_err *err)
{
    (void)dev;
    void *at = cpu_map(bytes, NULL);
    if (!at)
        return br_err_errno(err, BR_ENOMEM, "cannot take %llu bytes of scratch", (unsigned long long)bytes);
    *out = (uintptr_t)at;
    return 0;
}

static void scratch_free(struct br_device *dev, br_devptr at, uint64_t bytes)
{
    (void)dev;
    cpu_unmap(cpu_ptr(at), bytes);
}

struct upload {
    br_devptr dst;
    const void *src;
    uint64_t bytes;
};

static void upload_run(struct cpu_device *dev, const void *args)
{
    (void)dev;
    const struct upload *u = args;
    memcpy(cpu_ptr(u->dst), u->src, u->bytes);
}

static void upload(struct br_stream *stream, br_devptr dst, const void *src, uint64_t bytes)
{
    struct upload u = {dst, src, bytes};
    cpu_stream_enqueue(stream, upload_run, &u, sizeof u);
}

/* A job as tasks see it. */
struct job {
    const struct cpu_kernel_set *set;
    const void *op;
    uint32_t row_tasks; /* linear: tasks a panel; attention: unused */
    uint32_t rows_each; /* rows of a task */
    uint32_t total_rows;
};

static uint32_t rows_of_task(const struct job *job, uint32_t first)
{
    uint32_t left = job->total_rows - first;
    return left < job->rows_each ? left : job->rows_each;
}

static void embed_task(const void *arg, uint32_t task, void *scratch)
{
    (void)scratch;
    const struct job *job = arg;
    uint32_t first = task * job->rows_each;
    for (uint32_t i = 0; i < rows_of_task(job, first); i++)
        job->set->embed_row(job->op, first + i);
}

/* Rows a task for work that is a row at a time: a few tasks a thread. */
static struct job row_job(const struct cpu_device *dev, const void *op, enum br_numeric numeric, uint32_t rows)
{
    uint32_t tasks = 4 * cpu_pool_threads(dev->pool), each = (rows + tasks - 1) / tasks;
    return (struct job){.set = kernel_set(dev, numeric), .op = op, .rows_each = each, .total_rows = rows};
}

static uint32_t row_tasks(const struct job *job)
{
    return (job->total_rows + job->rows_each - 1) / job->rows_each;
}

static void embed_run(struct cpu_device *dev, const void *args)
{
    const struct br_embed_op *op = args;
    struct job job = row_job(dev, op, op->numeric, op->batch.rows);
    cpu_pool_run(dev->pool, embed_task, &job, row_tasks(&job));
}

static void embed(struct br_stream *stream, const struct br_embed_op *op)
{
    cpu_stream_enqueue(stream, embed_run, op, sizeof *op);
}

static void norm_task(const void *arg, uint32_t task, void *scratch)
{
    (void)scratch;
    const struct job *job = arg;
    const struct br_linear_op *op = job->op;
    const uint32_t *row = cpu_ptr(op->row);
    uint32_t first = task * job->rows_each;
    for (uint32_t i = first; i < first + rows_of_task(job, first); i++) {
        const char *in = (const char *)cpu_ptr(op->in) + (row ? row[i] : i) * br_f32_stride(op->k);
        char *out = (char *)cpu_ptr(op->act) + i * br_act_stride(op->k, op->numeric);
        job->set->norm_row((const float *)in, cpu_ptr(op->norm), op->k, op->eps, out);
    }
}

static void linear_task(const void *arg, uint32_t task, void *scratch)
{
    const struct job *job = arg;
    const struct br_linear_op *op = job->op;
    uint32_t first = task % job->row_tasks * job->rows_each;
    const void *act = cpu_ptr(op->norm ? op->act : op->in);
    uint32_t panel = task / job->row_tasks, rows = rows_of_task(job, first);
    if (op->format.code)
        job->set->linear_quant(op, act, panel, first, rows, scratch);
    else
        job->set->linear_tile(op, act, panel, first, rows);
}

static void linear_run(struct cpu_device *dev, const void *args)
{
    const struct br_linear_op *op = args;
    struct job job = row_job(dev, op, op->numeric, op->rows);
    if (op->norm)
        cpu_pool_run(dev->pool, norm_task, &job, row_tasks(&job));
    job.rows_each = CPU_LINEAR_ROWS;
    job.row_tasks = row_tasks(&job);
    cpu_pool_run(dev->pool, linear_task, &job, job.row_tasks * ((op->n + BR_PANEL - 1) / BR_PANEL));
}

static void linear(struct br_stream *stream, const struct br_linear_op *op)
{
    if (op->rows)
        cpu_stream_enqueue(stream, linear_run, op, sizeof *op);
}

static void rope_task(const void *arg, uint32_t task, void *scratch)
{
    const struct job *job = arg;
    uint32_t first = task * job->rows_each;
    for (uint32_t i = 0; i < rows_of_task(job, first); i++)
        job->set->rope_row(job->op, first + i, scratch);
}

static void rope_run(struct cpu_device *dev, const void *args)
{
    const struct br_rope_op *op = args;
    struct job job = row_job(dev, op, op->numeric, op->batch.rows);
    cpu_pool_run(dev->pool, rope_task, &job, row_tasks(&job));
}

static void rope(struct br_stream *stream, const struct br_rope_op *op)
{
    cpu_stream_enqueue(stream, rope_run, op, sizeof *op);
}

/* Positions that share a pass over K and V. */
static uint32_t attention_rows(const struct br_attention_op *op)
{
    uint32_t group = op->heads / op->kv_heads;
    return group >= CPU_ATTENTION_ROWS ? 1 : CPU_ATTENTION_ROWS / group;
}

/* Task t is KV head t % kv_heads of the t / kv_heads-th stretch of rows, counted over the items in order. */
static void attention_task(const void *arg, uint32_t task, void *scratch)
{
    const struct job *job = arg;
    const struct br_attention_op *op = job->op;
    const struct br_batch_item *item = cpu_ptr(op->batch.item);
    uint32_t stretch = task / op->kv_heads, index = 0;
    for (;; index++) {
        uint32_t stretches = (item[index].rows + job->rows_each - 1) / job->rows_each;
        if (stretch < stretches)
            break;
        stretch -= stretches;
    }
    uint32_t first = stretch * job->rows_each, left = item[index].rows - first;
    job->set->attend(op, index, task % op->kv_heads, first, left < job->rows_each ? left : job->rows_each, scratch);
}

static void attention_run(struct cpu_device *dev, const void *args)
{
    const struct br_attention_op *op = args;
    struct job job = {.set = kernel_set(dev, op->numeric), .op = op, .rows_each = attention_rows(op)};
    const struct br_batch_item *item = cpu_ptr(op->batch.item);
    uint32_t stretches = 0;
    for (uint32_t i = 0; i < op->batch.items; i++)
        stretches += (item[i].rows + job.rows_each - 1) / job.rows_each;
    cpu_pool_run(dev->pool, attention_task, &job, stretches * op->kv_heads);
}

static void attention(struct br_stream *stream, const struct br_attention_op *op)
{
    cpu_stream_enqueue(stream, attention_run, op, sizeof *op);
}

const struct br_kernels cpu_kernels = {
    .scratch_alloc = scratch_alloc,
    .scratch_free = scratch_free,
    .upload = upload,
    .embed = embed,
    .linear = linear,
    .rope = rope,
    .attention = attention,
};
