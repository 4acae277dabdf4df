/* How a quantised matrix lies in device memory: codes and what it takes to turn them into numbers, panel by panel.
 *
 * A weight is (code - zero) * scale - min, with scale, zero and min per group of inputs and output column. A matrix
 * with K inputs and N outputs is index    only if format.indexed: uint16 [K], the group of each input; padded to 64
 * bytes panels   [ceil(N/64)], each one scales F16 or F32 [groups][64 / span]: `span` neighbouring columns share one; a
 * panel's scales fill whole lines zeros  uint8 [groups][64], if format.zeros: what is stored; format.zero is added to
 * it mins   F32 [groups][64], if format.mins codes  U4:       uint32 [ceil(K/8)][64]: inputs 0 2 4 6 1 3 5 7 of eight
 * from the low nibble up U8, E4M3: uint32 [ceil(K/4)][64]: inputs 0 2 1 3 of four from the low byte up so that shifting
 * a word by a nibble or a byte leaves two neighbouring inputs in its halves, as a cell of two BF16 wants them. Codes of
 * inputs and columns that are not there are 0, their scales too. */
#ifndef BRIAREUS_WORKER_WEIGHTS_QUANT_PANEL_H
#define BRIAREUS_WORKER_WEIGHTS_QUANT_PANEL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__ /* CUDA kernels ask these functions too */
#define BR_HOST_DEVICE __host__ __device__
#else
#define BR_HOST_DEVICE
#endif

enum { BR_PANEL = 64, BR_QUANT_MAX_GROUPS = 65536 };

enum br_code { BR_CODE_NONE, BR_CODE_U4, BR_CODE_U8, BR_CODE_E4M3 };

/* All 0: not quantised. No padding: it is stored and compared as bytes. */
struct br_matrix_format {
    uint32_t code;  /* enum br_code */
    uint32_t group; /* inputs that share a scale: 16, or 32 times a power of two; 0: all of them */
    uint16_t zero;  /* added to the stored zero, or the zero of all */
    uint8_t span;   /* columns that share a scale: 1 or 32 */
    uint8_t wide;   /* scales are F32, not F16 */
    uint8_t zeros, mins;
    uint8_t indexed, reserved;
};

/* Offsets within a panel. */
struct br_quant_panel {
    uint64_t groups, zeros, mins, codes, bytes;
};

static inline BR_HOST_DEVICE uint64_t br_quant_lines(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static inline BR_HOST_DEVICE uint64_t br_quant_groups(const struct br_matrix_format *f, uint64_t k)
{
    return f->group ? (k + f->group - 1) / f->group : 1;
}

static inline BR_HOST_DEVICE struct br_quant_panel br_quant_panel_at(const struct br_matrix_format *f, uint64_t k)
{
    uint64_t per_word = f->code == BR_CODE_U4 ? 8 : 4;
    struct br_quant_panel at = {.groups = br_quant_groups(f, k)};
    at.zeros = br_quant_lines(at.groups * (BR_PANEL / f->span) * (f->wide ? 4 : 2));
    at.mins = at.zeros + (f->zeros ? at.groups * BR_PANEL : 0);
    at.codes = at.mins + (f->mins ? at.groups * BR_PANEL * 4 : 0);
    at.bytes = at.codes + (k + per_word - 1) / per_word * BR_PANEL * 4;
    return at;
}

static inline BR_HOST_DEVICE uint64_t br_quant_index_bytes(const struct br_matrix_format *f, uint64_t k)
{
    return f->indexed ? br_quant_lines(k * 2) : 0;
}

/* In BF16 a product of such a matrix sums code - zero, exact in BF16, by groups, and scales the sums in F32; of others
 * it multiplies with the numbers that the codes stand for, rounded to BF16. In F32 it always does the latter, exactly.
 */
static inline bool br_quant_grouped(const struct br_matrix_format *f)
{
    return f->code && !f->indexed && !f->mins && (f->group == 0 || f->group >= 32);
}

/* Not quantised, or a format that the kernels know. */
static inline bool br_matrix_format_valid(const struct br_matrix_format *f)
{
    bool group = f->group == 0 || f->group == 16 || (f->group >= 32 && !(f->group & (f->group - 1)));
    if (f->code == BR_CODE_NONE)
        return !f->group && !f->zero && !f->span && !f->wide && !f->zeros && !f->mins && !f->indexed;
    return f->code <= BR_CODE_E4M3 && group && (f->span == 1 || f->span == 32) && f->zero <= 256 && f->wide <= 1 &&
           f->zeros <= 1 && f->mins <= 1 && f->indexed <= 1;
}

#endif
