/* The CPU kernels of one instruction set: each function handles one row or one tile, kernels.c shares them out. */
#ifndef BRIAREUS_WORKER_DEVICE_CPU_ISA_H
#define BRIAREUS_WORKER_DEVICE_CPU_ISA_H

#include "worker/device/kernels.h"

/* Part of the numeric profile: to be raised whenever a kernel's bits change. */
enum { CPU_KERNEL_VERSION = 1 };

/* Rows of one matrix task: a panel stays in the L2 cache while they pass. */
enum { CPU_LINEAR_ROWS = 96 };
/* Attention: rows (positions x query heads of one KV head) that share a pass over K and V, at most. */
enum { CPU_ATTENTION_ROWS = 48 };
/* Scratch of one compute thread; the largest user is attention (see attend.h). */
enum { CPU_SCRATCH_BYTES = 2 << 20 };

/* The kernels for one numeric. */
struct cpu_kernel_set {
    /* rmsnorm(in) x weight as activations; the rest of the stride is zeroed. */
    void (*norm_row)(const float *in, const float *weight, uint32_t width, float eps, void *out);
    /* Columns [64 panel, 64 panel + 64) of rows [row, row + rows): product and its end. act: activations of all rows.
     */
    void (*linear_tile)(const struct br_linear_op *op, const void *act, uint32_t panel, uint32_t row, uint32_t rows);
    /* The same for weights with a format, unpacked into scratch a stretch of inputs at a time: the bits are those of
     * the dequantised weights in panels. At most CPU_LINEAR_ROWS rows. */
    void (*linear_quant)(const struct br_linear_op *op, const void *act, uint32_t panel, uint32_t row, uint32_t rows,
                         void *scratch);
    void (*embed_row)(const struct br_embed_op *op, uint32_t row);
    void (*rope_row)(const struct br_rope_op *op, uint32_t row, void *scratch);
    /* Rows [row, row + rows) of an item, all query heads of one KV head. */
    void (*attend)(const struct br_attention_op *op, uint32_t item, uint32_t kv_head, uint32_t row, uint32_t rows,
                   void *scratch);
};

struct cpu_isa {
    const char *name;
    bool (*usable)(void);
    struct cpu_kernel_set f32, bf16;
};

extern const struct cpu_isa cpu_isa_generic, cpu_isa_avx2, cpu_isa_avx512, cpu_isa_avx512bf16, cpu_isa_amx;

/* name NULL: the best this CPU has. NULL and *err: BR_EINVAL unknown, BR_ENOTSUP not on this CPU. */
const struct cpu_isa *cpu_isa_pick(const char *name, struct br_err *err);

#endif
