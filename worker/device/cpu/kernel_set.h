/* Included behind a vec_*.h: compiles all kernels for F32 and for BF16 with that instruction set. */
#include "worker/device/cpu/vec_math.h"

static inline void *cpu_at(br_devptr at)
{
    return (void *)(uintptr_t)at;
}

static inline uint32_t at_most_16(uint32_t n)
{
    return n < 16 ? n : 16;
}

#define CELL_ELTS 1 /* elements in a 4-byte cell */
#define ELT float
#define FN(name) name##_f32
#define MAC mac_f32
#define TILE_ROWS TILE_ROWS_F32
#include "worker/device/cpu/elements.h"
#include "worker/device/cpu/tile.h"

#include "worker/device/cpu/attend.h"
#include "worker/device/cpu/linear_end.h"

#include "worker/device/cpu/linear.h"
#include "worker/device/cpu/linear_quant.h"
#include "worker/device/cpu/rows.h"
#undef CELL_ELTS
#undef ELT
#undef FN
#undef MAC
#undef TILE_ROWS

#define CELL_ELTS 2
#define ELT uint16_t
#define FN(name) name##_bf16
#define MAC mac_bf16
#define TILE_ROWS TILE_ROWS_BF16
#include "worker/device/cpu/elements.h"
#include "worker/device/cpu/tile.h"

#include "worker/device/cpu/attend.h"
#include "worker/device/cpu/linear_end.h"

#ifdef BR_HAVE_AMX
#include "worker/device/cpu/linear_amx.h"
#else
#include "worker/device/cpu/linear.h"
#endif
#include "worker/device/cpu/linear_quant.h"
#include "worker/device/cpu/rows.h"

#define KERNEL_SET(t)                                                                                                  \
    {                                                                                                                  \
        norm_row_##t, linear_tile_##t, linear_quant_##t, embed_row_##t, rope_row_##t, attend_##t                       \
    }
