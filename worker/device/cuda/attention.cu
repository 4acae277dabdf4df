/* Causal attention on tensor cores, straight from KV blocks: decode and prefill with one set of sums. A warp takes 16
 * (row, query head) pairs of one KV head, 64 positions at a time; scores and their exponentials stay in registers,
 * since the result of one product has the shape of the other's input.
 *
 * In a block of 16 positions, lane 4g + q reads cells of positions 2g and 2g + 1 at once: products of positions "2 c"
 * and "2 c + 1", c the column of a fragment. So it holds scores of positions 4q .. 4q + 3, two cells of V's. Of the
 * dimensions it reads 2g and 2g + 1 of each 16 and holds results of 4q .. 4q + 3. */
#include "worker/device/cuda/attend.h"

static constexpr uint32_t WARPS = 4, THREADS = WARPS * GPU_WARP, BLOCK = BR_KV_BLOCK_TOKENS, STEP_BLOCKS = 4;

/* A warp's rows over a segment. Two rows a lane: g and g + 8. */
template <uint32_t D> struct tile {
    uint32_t q[D / 16][4];  /* queries, as fragments */
    float out[D / 8][4];    /* sums of values, not yet divided */
    float max[2], total[2]; /* total: of this lane's positions */
    uint32_t see[2];        /* positions that the row sees */
    const br_devptr *table;
    uint64_t offset; /* of K in a block */
    uint32_t end;    /* positions there are */
};

/* Two neighbouring cells: two positions of K, two dimensions of V. */
template <bool KV8> static __device__ __forceinline__ uint2 cells_load(const char *base, uint32_t cell)
{
    if constexpr (!KV8)
        return *reinterpret_cast<const uint2 *>(base + (size_t)cell * 4);
    uint32_t codes = *reinterpret_cast<const uint32_t *>(base + (size_t)cell * 2);
    uint2 pair;
    pair.x = __float_as_uint(gpu_of_e4m3(codes & 0xffu)) >> 16 | /* exact in BF16 */
             (__float_as_uint(gpu_of_e4m3(codes >> 8 & 0xffu)) & 0xffff0000u);
    pair.y = __float_as_uint(gpu_of_e4m3(codes >> 16 & 0xffu)) >> 16 |
             (__float_as_uint(gpu_of_e4m3(codes >> 24)) & 0xffff0000u);
    return pair;
}

template <uint32_t D, bool KV8>
static __device__ __forceinline__ void tile_begin(struct tile<D> &t, const struct br_attention_op &op,
                                                  const struct attend_unit &u)
{
    uint32_t lane = threadIdx.x % GPU_WARP, g = lane / 4, q = lane % 4, group = op.heads / op.kv_heads;
    const uint32_t *row[2];
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t flat = u.tile * ATTEND_ROWS + g + 8 * r, last = u.item.rows * group - 1;
        flat = flat < last ? flat : last; /* rows that are not there do what the last one does */
        t.see[r] = u.item.pos + flat / group + 1;
        br_devptr at = op.q + (u.item.first_row + flat / group) * br_act_stride(op.heads * D, BR_NUMERIC_BF16);
        row[r] = gpu_at<const uint32_t>(at) + (u.kv_head * group + flat % group) * (D / 2);
    }
#pragma unroll
    for (uint32_t i = 0; i < D / 16; i++)
#pragma unroll
        for (uint32_t f = 0; f < 4; f++)
            t.q[i][f] = row[f % 2][i * 8 + q + f / 2 * 4];
    t.table = gpu_at<const br_devptr>(op.batch.table) + u.item.table;
    t.offset = br_kv_offset(op.layer, u.kv_head, op.kv_heads, D, BR_NUMERIC_BF16) / (KV8 ? 2 : 1);
    t.end = u.item.pos + u.item.rows;
}

template <uint32_t D> static __device__ __forceinline__ void tile_clear(struct tile<D> &t)
{
#pragma unroll
    for (uint32_t i = 0; i < D / 8; i++)
#pragma unroll
        for (uint32_t f = 0; f < 4; f++)
            t.out[i][f] = 0;
#pragma unroll
    for (uint32_t r = 0; r < 2; r++)
        t.max[r] = -INFINITY, t.total[r] = 0;
}

/* Scores of the 16 positions of a block: score[j] of positions 2c + j. */
template <uint32_t D, bool KV8>
static __device__ __forceinline__ void block_scores(const struct tile<D> &t, const char *k, float score[2][4])
{
    uint32_t lane = threadIdx.x % GPU_WARP, g = lane / 4, q = lane % 4;
#pragma unroll
    for (uint32_t i = 0; i < D / 16; i++) {
        uint2 low = cells_load<KV8>(k, (i * 8 + q) * BLOCK + 2 * g);
        uint2 high = cells_load<KV8>(k, (i * 8 + q + 4) * BLOCK + 2 * g);
        uint32_t even[2] = {low.x, high.x}, odd[2] = {low.y, high.y};
        gpu_mma(score[0], t.q[i], even);
        gpu_mma(score[1], t.q[i], odd);
    }
}

/* V of positions from `left` on is nothing: it would meet weights of zero, but zero times not-a-number is not zero. */
static __device__ __forceinline__ uint2 cells_mask(uint2 cells, uint32_t first, uint32_t left)
{
    uint32_t keep = first + 1 < left ? 0xffffffffu : first < left ? 0xffffu : 0;
    return make_uint2(cells.x & keep, cells.y & keep);
}

template <uint32_t D, bool KV8>
static __device__ __forceinline__ void block_values(struct tile<D> &t, const char *v, uint32_t left,
                                                    const float weight[2][4])
{
    uint32_t lane = threadIdx.x % GPU_WARP, g = lane / 4, q = lane % 4;
    uint32_t p[4] = {gpu_to_bf16_pair(weight[0][0], weight[1][0]), gpu_to_bf16_pair(weight[0][2], weight[1][2]),
                     gpu_to_bf16_pair(weight[0][1], weight[1][1]), gpu_to_bf16_pair(weight[0][3], weight[1][3])};
#pragma unroll
    for (uint32_t i = 0; i < D / 16; i++) {
        uint2 low = cells_load<KV8>(v, (2 * q) * D + i * 16 + 2 * g);
        uint2 high = cells_load<KV8>(v, (2 * q + 1) * D + i * 16 + 2 * g);
        if (left < BLOCK)
            low = cells_mask(low, 4 * q, left), high = cells_mask(high, 4 * q + 2, left);
        uint32_t even[2] = {low.x, high.x}, odd[2] = {low.y, high.y};
        gpu_mma(t.out[2 * i], p, even);
        gpu_mma(t.out[2 * i + 1], p, odd);
    }
}

/* Scores to weights, the running sums to their new maximum. Lane's positions in a block: 4q + {0, 2} in score[0], + 1
 * in score[1]. */
template <uint32_t D>
static __device__ __forceinline__ void step_weights(struct tile<D> &t, uint32_t start, float s[STEP_BLOCKS][2][4])
{
    uint32_t q = threadIdx.x % 4;
    float most[2] = {-INFINITY, -INFINITY}, factor[2], base[2], sum[2] = {0, 0};
#pragma unroll
    for (uint32_t e = 0; e < STEP_BLOCKS * 8; e++) {
        uint32_t b = e / 8, j = e / 4 % 2, f = e % 4, pos = start + b * BLOCK + 4 * q + j + f % 2 * 2;
        s[b][j][f] = pos < t.see[f / 2] ? s[b][j][f] : -INFINITY;
        most[f / 2] = fmaxf(most[f / 2], s[b][j][f]);
    }
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        most[r] = fmaxf(most[r], __shfl_xor_sync(GPU_ALL, most[r], 1));
        most[r] = fmaxf(most[r], __shfl_xor_sync(GPU_ALL, most[r], 2));
        most[r] = fmaxf(most[r], t.max[r]);
        base[r] = most[r] == -INFINITY ? 0 : most[r]; /* it sees nothing of this segment yet */
        factor[r] = expf(t.max[r] - base[r]);
        t.max[r] = most[r];
    }
#pragma unroll
    for (uint32_t e = 0; e < STEP_BLOCKS * 8; e++) {
        float &x = s[e / 8][e / 4 % 2][e % 4];
        x = expf(x - base[e % 4 / 2]);
        sum[e % 4 / 2] += x;
    }
#pragma unroll
    for (uint32_t r = 0; r < 2; r++)
        t.total[r] = fmaf(t.total[r], factor[r], sum[r]);
#pragma unroll
    for (uint32_t e = 0; e < D / 2; e++)
        t.out[e / 4][e % 4] *= factor[e % 4 / 2];
}

/* 64 positions from start on. */
template <uint32_t D, bool KV8> static __device__ __forceinline__ void tile_step(struct tile<D> &t, uint32_t start)
{
    float score[STEP_BLOCKS][2][4] = {};
#pragma unroll
    for (uint32_t b = 0; b < STEP_BLOCKS; b++)
        if (start + b * BLOCK < t.end)
            block_scores<D, KV8>(t, gpu_at<const char>(t.table[start / BLOCK + b] + t.offset), score[b]);
    step_weights<D>(t, start, score);
#pragma unroll
    for (uint32_t b = 0; b < STEP_BLOCKS; b++) {
        uint32_t first = start + b * BLOCK;
        if (first < t.end)
            block_values<D, KV8>(t, gpu_at<const char>(t.table[first / BLOCK] + t.offset) + BLOCK * D * (KV8 ? 1 : 2),
                                 t.end - first, score[b]);
    }
}

/* A segment's result: maximum, sum (of all lanes) and sums of values. */
template <uint32_t D, bool KV8>
static __device__ __forceinline__ void tile_segment(struct tile<D> &t, uint32_t segment, uint32_t most)
{
    uint32_t start = segment * SEGMENT, end = start + SEGMENT;
    tile_clear(t);
    for (; start < end && start < most; start += STEP_BLOCKS * BLOCK)
        tile_step<D, KV8>(t, start);
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        t.total[r] += __shfl_xor_sync(GPU_ALL, t.total[r], 1);
        t.total[r] += __shfl_xor_sync(GPU_ALL, t.total[r], 2);
    }
}

/* Four neighbouring dimensions of a row that this lane holds: out[2i], out[2i + 1] hold 16 i + 4q .. 4q + 3. */
template <uint32_t D>
static __device__ __forceinline__ float4 tile_four(const struct tile<D> &t, uint32_t i, uint32_t r)
{
    return make_float4(t.out[2 * i][2 * r], t.out[2 * i + 1][2 * r], t.out[2 * i][2 * r + 1],
                       t.out[2 * i + 1][2 * r + 1]);
}

template <uint32_t D> static __device__ __forceinline__ void partial_put(const struct tile<D> &t, float *slot)
{
    uint32_t lane = threadIdx.x % GPU_WARP, g = lane / 4, q = lane % 4;
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t row = g + 8 * r;
#pragma unroll
        for (uint32_t i = 0; i < D / 16; i++)
            *reinterpret_cast<float4 *>(slot + row * D + i * 16 + 4 * q) = tile_four(t, i, r);
        if (q == 0) {
            slot[ATTEND_ROWS * D + row] = t.max[r];
            slot[ATTEND_ROWS * (D + 1) + row] = t.total[r];
        }
    }
}

static __device__ __forceinline__ float fold(float run, float by, float segment, float with)
{
    return fmaf(segment, with, run * by);
}

/* The running result lies in shared memory: registers are for the segment. */
template <uint32_t D>
static __device__ __forceinline__ void run_fold(const struct tile<D> &t, float4 *run, float max[2], float total[2],
                                                bool first)
{
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        struct attend_factors f = attend_fold(max[r], t.max[r]);
        total[r] = first ? t.total[r] : fold(total[r], f.run, t.total[r], f.segment);
        max[r] = first ? t.max[r] : f.max;
#pragma unroll
        for (uint32_t i = 0; i < D / 16; i++) {
            float4 *at = run + (i * 2 + r) * GPU_WARP, x = tile_four(t, i, r);
            if (!first)
                x = make_float4(fold(at->x, f.run, x.x, f.segment), fold(at->y, f.run, x.y, f.segment),
                                fold(at->z, f.run, x.z, f.segment), fold(at->w, f.run, x.w, f.segment));
            *at = x;
        }
    }
}

static __device__ __forceinline__ uint16_t *out_row(const struct br_attention_op &op, const struct attend_unit &u,
                                                    uint32_t flat)
{
    uint32_t group = op.heads / op.kv_heads;
    br_devptr at = op.out + (u.item.first_row + flat / group) * br_act_stride(op.heads * op.head_dim, BR_NUMERIC_BF16);
    return gpu_at<uint16_t>(at) + (u.kv_head * group + flat % group) * op.head_dim;
}

template <uint32_t D>
static __device__ __forceinline__ void run_put(const struct br_attention_op &op, const struct attend_unit &u,
                                               const float4 *run, const float total[2])
{
    uint32_t lane = threadIdx.x % GPU_WARP, g = lane / 4, q = lane % 4, rows = u.item.rows * (op.heads / op.kv_heads);
#pragma unroll
    for (uint32_t r = 0; r < 2; r++) {
        uint32_t flat = u.tile * ATTEND_ROWS + g + 8 * r;
        float scale = 1.0f / total[r];
#pragma unroll
        for (uint32_t i = 0; flat < rows && i < D / 16; i++) {
            float4 x = run[(i * 2 + r) * GPU_WARP];
            uint2 pair =
                make_uint2(gpu_to_bf16_pair(x.x * scale, x.y * scale), gpu_to_bf16_pair(x.z * scale, x.w * scale));
            *reinterpret_cast<uint2 *>(out_row(op, u, flat) + i * 16 + 4 * q) = pair;
        }
    }
}

template <uint32_t D, bool KV8> __global__ void __launch_bounds__(THREADS) attention_kernel(struct attend_op a)
{
    SHARED(float4, runs, WARPS * D * 4); /* 16 rows of D each */
    float4 *run = runs + threadIdx.x / GPU_WARP * (D * 4) + threadIdx.x % GPU_WARP;
    struct attend_unit u;
    struct tile<D> t;
    for (uint32_t index = blockIdx.x * WARPS + threadIdx.x / GPU_WARP; attend_find(a, index, false, &u);
         index += gridDim.x * WARPS) {
        tile_begin<D, KV8>(t, a.op, u);
        /* positions that the last row of the tile sees: the same for all lanes */
        uint32_t most = __shfl_sync(GPU_ALL, t.see[1], GPU_WARP - 1);
        if (u.split) {
            tile_segment<D, KV8>(t, u.segment, most);
            partial_put<D>(t, gpu_at<float>(a.work.at + u.slot * attend_slot_bytes(D)));
            continue;
        }
        float max[2] = {0, 0}, total[2] = {0, 0};
        for (uint32_t s = 0; s * SEGMENT < most; s++) {
            tile_segment<D, KV8>(t, s, most);
            run_fold<D>(t, run, max, total, s == 0);
        }
        run_put<D>(a.op, u, run, total);
    }
}

/* Folds the partial results of items that were split: a block an item, a warp a row of a KV head's tile. */
__global__ void __launch_bounds__(THREADS) combine_kernel(struct attend_op a)
{
    uint32_t lane = threadIdx.x % GPU_WARP, group = a.op.heads / a.op.kv_heads, D = a.op.head_dim;
    struct attend_unit u;
    if (!attend_find(a, blockIdx.x, true, &u) || !u.split)
        return;
    for (uint32_t row = blockIdx.y * WARPS + threadIdx.x / GPU_WARP; row < a.op.kv_heads * group * u.item.rows;
         row += gridDim.y * WARPS) {
        uint32_t flat = row % (group * u.item.rows);
        u.kv_head = row / (group * u.item.rows);
        br_devptr first = a.work.at + (u.slot + u.kv_head * u.segments) * attend_slot_bytes(D);
        for (uint32_t d = lane; d < D; d += GPU_WARP) {
            float sum = 0, max = 0, total = 0;
            for (uint32_t s = 0; s < u.segments; s++) {
                const float *slot = gpu_at<const float>(first + s * attend_slot_bytes(D));
                float x = slot[flat * D + d], m = slot[ATTEND_ROWS * D + flat], l = slot[ATTEND_ROWS * (D + 1) + flat];
                struct attend_factors f = attend_fold(max, m);
                sum = s ? fold(sum, f.run, x, f.segment) : x;
                total = s ? fold(total, f.run, l, f.segment) : l;
                max = s ? f.max : m;
            }
            out_row(a.op, u, flat)[d] = (uint16_t)gpu_to_bf16(sum * (1.0f / total));
        }
    }
}

static uint32_t blocks_of_grid(void)
{
    static int sms; /* the same for all GPUs of a process */
    struct cudaDeviceProp prop;
    if (!sms && cudaGetDeviceProperties(&prop, 0) == cudaSuccess)
        sms = prop.multiProcessorCount;
    return sms ? 4 * (uint32_t)sms : 256;
}

template <uint32_t D> static void attend_launch(cudaStream_t stream, const struct attend_op *a, enum br_kv_format kv)
{
    if (kv == BR_KV_FP8)
        LAUNCH((attention_kernel<D, true>), blocks_of_grid(), THREADS, 0, stream, *a);
    else
        LAUNCH((attention_kernel<D, false>), blocks_of_grid(), THREADS, 0, stream, *a);
    if (a->work_slots)
        LAUNCH((combine_kernel), dim3(a->op.batch.items, 8), THREADS, 0, stream, *a);
}

void br_cuda_attention(void *stream, const struct br_attention_op *op, enum br_kv_format kv,
                       const struct br_cuda_work *work)
{
    cudaStream_t s = static_cast<cudaStream_t>(stream);
    struct attend_op a = {*op, *work, work->bytes / attend_slot_bytes(op->head_dim)};
    if (op->numeric == BR_NUMERIC_BF16 && op->head_dim == 64)
        attend_launch<64>(s, &a, kv);
    else if (op->numeric == BR_NUMERIC_BF16 && op->head_dim == 80)
        attend_launch<80>(s, &a, kv);
    else if (op->numeric == BR_NUMERIC_BF16 && op->head_dim == 96)
        attend_launch<96>(s, &a, kv);
    else if (op->numeric == BR_NUMERIC_BF16 && op->head_dim == 128)
        attend_launch<128>(s, &a, kv);
    else
        attend_plain(stream, &a, kv);
}
