/* Norm per head, rotary embedding, and K and V into their blocks: a warp a head, a block some heads of a row. */
#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

static constexpr uint32_t WARPS = 8, THREADS = WARPS * GPU_WARP;

/* Where a row's K and V go. */
struct slot {
    char *k, *v;
    uint32_t at;
};

static __device__ __forceinline__ void element_put(char *base, uint64_t index, float x, enum br_numeric numeric,
                                                   enum br_kv_format kv)
{
    if (kv == BR_KV_FP8)
        reinterpret_cast<uint8_t *>(base)[index] = (uint8_t)gpu_to_e4m3(x);
    else if (numeric == BR_NUMERIC_BF16)
        reinterpret_cast<uint16_t *>(base)[index] = (uint16_t)gpu_to_bf16(x);
    else
        reinterpret_cast<float *>(base)[index] = x;
}

static __device__ __forceinline__ uint64_t k_index(enum br_numeric numeric, uint32_t d, uint32_t at)
{
    return numeric == BR_NUMERIC_BF16 ? ((uint64_t)(d / 2) * BR_KV_BLOCK_TOKENS + at) * 2 + d % 2
                                      : (uint64_t)d * BR_KV_BLOCK_TOKENS + at;
}

static __device__ __forceinline__ uint64_t v_index(enum br_numeric numeric, uint32_t head_dim, uint32_t d, uint32_t at)
{
    return numeric == BR_NUMERIC_BF16 ? ((uint64_t)(at / 2) * head_dim + d) * 2 + at % 2 : (uint64_t)at * head_dim + d;
}

static __device__ struct slot slot_of(const struct br_rope_op &op, uint32_t row, uint32_t pos, uint32_t head,
                                      enum br_kv_format kv)
{
    uint32_t item = gpu_at<const uint32_t>(op.batch.row_item)[row];
    uint32_t table = gpu_at<const struct br_batch_item>(op.batch.item)[item].table;
    br_devptr block = gpu_at<const br_devptr>(op.batch.table)[table + pos / BR_KV_BLOCK_TOKENS];
    uint64_t at = br_kv_offset(op.layer, head, op.kv_heads, op.head_dim, op.numeric);
    uint64_t half = (uint64_t)BR_KV_BLOCK_TOKENS * op.head_dim * (op.numeric == BR_NUMERIC_BF16 ? 2 : 4);
    if (kv == BR_KV_FP8)
        at /= 2, half /= 2;
    return {gpu_at<char>(block + at), gpu_at<char>(block + at + half), pos % BR_KV_BLOCK_TOKENS};
}

static __device__ float head_scale(const float *in, uint32_t head_dim, float eps)
{
    float squares = 0;
    for (uint32_t d = threadIdx.x % GPU_WARP; d < head_dim; d += GPU_WARP)
        squares = fmaf(in[d], in[d], squares);
    return 1.0f / sqrtf(gpu_warp_sum(squares) / (float)head_dim + eps);
}

/* Rotated pair (d, d + head_dim/2) of a head. */
static __device__ __forceinline__ float2 rotated(const struct br_rope_op &op, const float *in, const float *weight,
                                                 const float *cos_sin, float norm, uint32_t d)
{
    uint32_t half = op.head_dim / 2;
    float a = in[d], b = in[d + half], c = cos_sin[d], s = cos_sin[d + half];
    if (weight)
        a = a * norm * weight[d], b = b * norm * weight[d + half];
    return make_float2(fmaf(a, c, -(b * s)), fmaf(b, c, a * s));
}

__global__ void __launch_bounds__(THREADS) rope_kernel(struct br_rope_op op, enum br_kv_format kv)
{
    uint32_t row = blockIdx.x, head = blockIdx.y * WARPS + threadIdx.x / GPU_WARP, lane = threadIdx.x % GPU_WARP;
    uint32_t all = op.heads + 2 * op.kv_heads, half = op.head_dim / 2;
    if (head >= all)
        return;
    uint32_t pos = gpu_at<const uint32_t>(op.batch.pos)[row];
    const float *in = gpu_at<const float>(op.qkv + row * br_f32_stride(all * op.head_dim)) + head * op.head_dim;
    const float *cos_sin = gpu_at<const float>(op.cos_sin) + (uint64_t)pos * op.head_dim;
    bool is_q = head < op.heads, is_v = head >= op.heads + op.kv_heads;
    br_devptr weights = is_q ? op.q_norm : op.k_norm;
    const float *weight = weights && !is_v ? gpu_at<const float>(weights) : nullptr;
    float norm = weight ? head_scale(in, op.head_dim, op.eps) : 1, scale = 1.0f / sqrtf((float)op.head_dim);
    struct slot slot = {};
    if (!is_q)
        slot = slot_of(op, row, pos, (head - op.heads) % op.kv_heads, kv);
    char *q = gpu_at<char>(op.q + row * br_act_stride(op.heads * op.head_dim, op.numeric));
    for (uint32_t d = lane; is_v && d < op.head_dim; d += GPU_WARP)
        element_put(slot.v, v_index(op.numeric, op.head_dim, d, slot.at), in[d], op.numeric, kv);
    for (uint32_t d = lane; !is_v && d < half; d += GPU_WARP) {
        float2 y = rotated(op, in, weight, cos_sin, norm, d);
        if (is_q) {
            element_put(q, (uint64_t)head * op.head_dim + d, y.x * scale, op.numeric, BR_KV_BF16);
            element_put(q, (uint64_t)head * op.head_dim + d + half, y.y * scale, op.numeric, BR_KV_BF16);
        } else {
            element_put(slot.k, k_index(op.numeric, d, slot.at), y.x, op.numeric, kv);
            element_put(slot.k, k_index(op.numeric, d + half, slot.at), y.y, op.numeric, kv);
        }
    }
}

void br_cuda_rope(void *stream, const struct br_rope_op *op, enum br_kv_format kv)
{
    dim3 grid(op->batch.rows, (op->heads + 2 * op->kv_heads + WARPS - 1) / WARPS);
    LAUNCH((rope_kernel), grid, THREADS, 0, static_cast<cudaStream_t>(stream), *op, kv);
}
