/* Attention for F32 and for head sizes that the tensor-core kernel has no code for: a warp a row and query head. */
#include "worker/device/cuda/attend.h"

static constexpr uint32_t WARPS = 4, THREADS = WARPS * GPU_WARP, EACH = SEGMENT / GPU_WARP;

struct view {
    const br_devptr *table;
    uint64_t k, v; /* offsets in a block */
    uint32_t head_dim;
    bool half, kv8;
};

static __device__ __forceinline__ float element(const struct view &w, uint64_t base, uint64_t index)
{
    if (w.kv8)
        return gpu_of_e4m3(gpu_at<const uint8_t>(base)[index]);
    return w.half ? gpu_of_bf16(gpu_at<const uint16_t>(base)[index]) : gpu_at<const float>(base)[index];
}

static __device__ __forceinline__ float key(const struct view &w, uint32_t pos, uint32_t d)
{
    uint32_t at = pos % BR_KV_BLOCK_TOKENS;
    uint64_t index =
        w.half ? ((uint64_t)(d / 2) * BR_KV_BLOCK_TOKENS + at) * 2 + d % 2 : (uint64_t)d * BR_KV_BLOCK_TOKENS + at;
    return element(w, w.table[pos / BR_KV_BLOCK_TOKENS] + w.k, index);
}

static __device__ __forceinline__ float value(const struct view &w, uint32_t pos, uint32_t d)
{
    uint32_t at = pos % BR_KV_BLOCK_TOKENS;
    uint64_t index = w.half ? ((uint64_t)(at / 2) * w.head_dim + d) * 2 + at % 2 : (uint64_t)at * w.head_dim + d;
    return element(w, w.table[pos / BR_KV_BLOCK_TOKENS] + w.v, index);
}

static __device__ struct view view_of(const struct br_attention_op &op, uint32_t table, uint32_t kv_head, bool kv8)
{
    struct view w = {
        gpu_at<const br_devptr>(op.batch.table) + table, 0, 0, op.head_dim, op.numeric == BR_NUMERIC_BF16, kv8};
    w.k = br_kv_offset(op.layer, kv_head, op.kv_heads, op.head_dim, op.numeric) / (kv8 ? 2 : 1);
    w.v = w.k + (uint64_t)BR_KV_BLOCK_TOKENS * op.head_dim * (kv8 ? 1 : w.half ? 2 : 4);
    return w;
}

/* Weights of the positions of a segment to shared memory; returns their maximum and sum. */
static __device__ float2 segment_weights(const struct view &w, const void *q, uint32_t start, uint32_t seen,
                                         float *weight)
{
    uint32_t lane = threadIdx.x % GPU_WARP;
    float score[EACH], most = -INFINITY, total = 0;
    for (uint32_t e = 0; e < EACH; e++) {
        uint32_t i = e * GPU_WARP + lane;
        score[e] = 0;
        for (uint32_t d = 0; i < seen && d < w.head_dim; d++)
            score[e] =
                fmaf(w.half ? gpu_of_bf16(static_cast<const uint16_t *>(q)[d]) : static_cast<const float *>(q)[d],
                     key(w, start + i, d), score[e]);
        most = i < seen ? fmaxf(most, score[e]) : most;
    }
    most = gpu_warp_max(most);
    for (uint32_t e = 0; e < EACH; e++) {
        float x = e * GPU_WARP + lane < seen ? expf(score[e] - most) : 0;
        weight[e * GPU_WARP + lane] = x;
        total += x;
    }
    __syncwarp();
    return make_float2(most, gpu_warp_sum(total));
}

__global__ void __launch_bounds__(THREADS, 1) attention_plain_kernel(struct br_attention_op op, bool kv8)
{
    SHARED(float, weights, WARPS *SEGMENT);
    SHARED(float, runs, WARPS *BR_MAX_HEAD_DIM);
    uint32_t warp = threadIdx.x / GPU_WARP, lane = threadIdx.x % GPU_WARP, head = blockIdx.y * WARPS + warp;
    float *weight = weights + warp * SEGMENT, *run = runs + warp * BR_MAX_HEAD_DIM, max = 0, total = 0;
    if (head >= op.heads)
        return;
    uint32_t row = blockIdx.x, see = gpu_at<const uint32_t>(op.batch.pos)[row] + 1;
    uint32_t item = gpu_at<const uint32_t>(op.batch.row_item)[row];
    struct view w = view_of(op, gpu_at<const struct br_batch_item>(op.batch.item)[item].table,
                            head / (op.heads / op.kv_heads), kv8);
    uint64_t elt = w.half ? 2 : 4, stride = br_act_stride(op.heads * op.head_dim, op.numeric);
    const char *q = gpu_at<const char>(op.q + row * stride + (uint64_t)head * op.head_dim * elt);
    for (uint32_t start = 0; start < see; start += SEGMENT) {
        uint32_t seen = see - start < SEGMENT ? see - start : SEGMENT;
        float2 part = segment_weights(w, q, start, seen, weight);
        struct attend_factors f = attend_fold(max, part.x);
        for (uint32_t d = lane; d < op.head_dim; d += GPU_WARP) {
            float sum = 0;
            for (uint32_t i = 0; i < seen; i++)
                sum = fmaf(weight[i], value(w, start + i, d), sum);
            run[d] = start ? fmaf(sum, f.segment, run[d] * f.run) : sum;
        }
        total = start ? fmaf(part.y, f.segment, total * f.run) : part.y;
        max = start ? f.max : part.x;
        __syncwarp();
    }
    char *out = gpu_at<char>(op.out + row * stride + (uint64_t)head * op.head_dim * elt);
    for (uint32_t d = lane; d < op.head_dim; d += GPU_WARP)
        if (w.half)
            reinterpret_cast<uint16_t *>(out)[d] = (uint16_t)gpu_to_bf16(run[d] * (1.0f / total));
        else
            reinterpret_cast<float *>(out)[d] = run[d] * (1.0f / total);
}

void attend_plain(void *stream, const struct attend_op *a, enum br_kv_format kv)
{
    dim3 grid(a->op.batch.rows, (a->op.heads + WARPS - 1) / WARPS);
    LAUNCH((attention_plain_kernel), grid, THREADS, 0, static_cast<cudaStream_t>(stream), a->op, kv == BR_KV_FP8);
}
