/* What both attention kernels share: units of work, and how segments are folded. */
#ifndef BRIAREUS_WORKER_DEVICE_CUDA_ATTEND_H
#define BRIAREUS_WORKER_DEVICE_CUDA_ATTEND_H

#include "worker/device/cuda/gpu.h"
#include "worker/device/cuda/kernels.h"

static constexpr uint32_t SEGMENT = BR_ATTENTION_SEGMENT;
static constexpr uint32_t ATTEND_ROWS = 16; /* of a tile: query heads of one KV head at one or more positions */

struct attend_op {
    struct br_attention_op op;
    struct br_cuda_work work;
    uint64_t work_slots; /* partial results that fit */
};

/* A partial result in the work area: [rows][head_dim] values, then [rows] maxima, then [rows] sums. */
static __host__ __device__ __forceinline__ uint64_t attend_slot_bytes(uint32_t head_dim)
{
    return ATTEND_ROWS * ((uint64_t)head_dim + 2) * 4;
}

/* What a warp does at a time: one KV head's tile of 16 (row, query head) pairs over all segments, or, where an item has
 * but one tile and a long past, over one of them. */
struct attend_unit {
    struct br_batch_item item;
    uint32_t kv_head, tile, segment, segments;
    bool split;
    uint64_t slot; /* of its partial result */
};

/* An item as its lane sees it. */
struct attend_share {
    uint32_t tiles, segments, units;
    uint64_t slots;
};

static __device__ __forceinline__ struct attend_share attend_share_of(const struct br_attention_op &op, uint32_t index)
{
    struct attend_share share = {};
    if (index >= op.batch.items)
        return share;
    struct br_batch_item item = gpu_at<const struct br_batch_item>(op.batch.item)[index];
    share.tiles = (item.rows * (op.heads / op.kv_heads) + ATTEND_ROWS - 1) / ATTEND_ROWS;
    share.segments = (item.pos + item.rows + SEGMENT - 1) / SEGMENT;
    share.units = op.kv_heads * share.tiles;
    share.slots = share.tiles == 1 && share.segments > 1 ? op.kv_heads * share.segments : 0;
    return share;
}

/* Sum over this lane and those below. */
static __device__ __forceinline__ uint32_t attend_scan(uint32_t x)
{
    uint32_t lane = threadIdx.x % GPU_WARP;
    for (uint32_t by = 1; by < (uint32_t)GPU_WARP; by *= 2) {
        uint32_t below = __shfl_sync(GPU_ALL, x, (int)(lane >= by ? lane - by : lane));
        x += lane >= by ? below : 0;
    }
    return x;
}

/* The unit `index` (or, by_item, the first unit of the item `index`); false: there is none. All lanes of a warp ask
 * together; whether an item is split depends on the items in front of it, and its bits do not depend on that. */
[[maybe_unused]] static __device__ bool attend_find(const struct attend_op &a, uint32_t index, bool by_item,
                                                    struct attend_unit *unit)
{
    uint32_t lane = threadIdx.x % GPU_WARP, units = 0, slots = 0;
    for (uint32_t first = 0; first < a.op.batch.items; first += GPU_WARP) {
        struct attend_share share = attend_share_of(a.op, first + lane);
        uint32_t slots_end = slots + attend_scan((uint32_t)share.slots);
        bool split = share.slots && slots_end <= a.work_slots;
        uint32_t mine = split ? (uint32_t)share.slots : share.units, units_end = units + attend_scan(mine);
        uint32_t ahead = __ballot_sync(GPU_ALL, by_item ? first + lane > index : units_end > index);
        uint32_t found = ahead ? (uint32_t)__popc(~ahead & (ahead - 1)) : GPU_WARP; /* its lowest bit */
        if (by_item)
            found = index - first < (uint32_t)GPU_WARP ? index - first : GPU_WARP;
        units = __shfl_sync(GPU_ALL, units_end, GPU_WARP - 1);
        slots = __shfl_sync(GPU_ALL, slots_end, GPU_WARP - 1);
        if (found == (uint32_t)GPU_WARP)
            continue;
        uint32_t at = index - __shfl_sync(GPU_ALL, units_end - mine, (int)found);
        uint32_t tiles = __shfl_sync(GPU_ALL, share.tiles, (int)found);
        unit->item = gpu_at<const struct br_batch_item>(a.op.batch.item)[first + found];
        unit->segments = __shfl_sync(GPU_ALL, share.segments, (int)found);
        unit->split = __shfl_sync(GPU_ALL, (uint32_t)split, (int)found);
        unit->slot = __shfl_sync(GPU_ALL, slots_end - (uint32_t)share.slots, (int)found);
        if (by_item)
            at = 0;
        uint32_t each = unit->split ? unit->segments : tiles;
        unit->kv_head = at / each;
        unit->segment = unit->split ? at % each : 0;
        unit->tile = unit->split ? 0 : at % each;
        unit->slot += at;
        return true;
    }
    return false;
}

/* How a running result and a segment's go together: both times their factors. */
struct attend_factors {
    float max, run, segment;
};

static __device__ __forceinline__ struct attend_factors attend_fold(float run_max, float segment_max)
{
    float max = fmaxf(run_max, segment_max);
    return {max, expf(run_max - max), expf(segment_max - max)};
}

void attend_plain(void *stream, const struct attend_op *op, enum br_kv_format kv);

#endif
