/* A unit's parts: each one vector, or one matrix in panels, and which rows of which tensors its pieces come from. So a
 * unit can be packed in pieces, by several threads, from files that are read piece by piece. */
#ifndef BRIAREUS_WORKER_WEIGHTS_PACK_PART_H
#define BRIAREUS_WORKER_WEIGHTS_PACK_PART_H

#include "worker/weights/pack.h"

enum { BR_PART_TENSORS = 3, BR_UNIT_PARTS = 12 };

enum br_part_kind {
    BR_PART_VECTOR, /* F32, the tensors one behind the other; one step */
    BR_PART_ROWS,   /* row-major; a step is a row */
    BR_PART_PANELS, /* the tensors' rows as columns, those of one tensor behind those of the other; a step is a panel */
    BR_PART_GATE_UP, /* panels of 32 rows of each of two tensors */
    BR_PART_INDEX,   /* which group an input is of, in front of panels of codes; one step */
    BR_PART_LINEARS, /* a matrix some of whose linears are quantised; a step is a panel. A panel's codes lie all over
                        the tensors, so there are no ranges to read: they are mapped. */
};

struct br_pack_part {
    enum br_part_kind kind;
    const struct br_tensor *tensor[BR_PART_TENSORS];
    uint32_t n_tensors;
    uint64_t rows[BR_PART_TENSORS], k; /* tensor i is [rows[i]][k]; of a vector: [rows[i]], k = 1 */
    uint64_t k_padded;                 /* inputs of a panel */
    uint64_t steps, step_bytes;        /* of the output */
    uint64_t at;                       /* in the unit */
    struct br_linear_set set;          /* INDEX, LINEARS: instead of tensors */
    struct br_matrix_format format;
};

/* Rows [row, row + rows) of a tensor: one piece of its file. */
struct br_pack_range {
    const struct br_tensor *tensor;
    uint64_t row, rows;
    uint64_t at, bytes; /* from the tensor's first byte */
};

/* Returns how many parts the unit has, in the order of their places. */
uint32_t br_pack_parts(const struct br_packer *packer, uint32_t unit, struct br_pack_part parts[BR_UNIT_PARTS]);

/* What steps [first, first + n) are made of; returns how many ranges. */
uint32_t br_pack_ranges(const struct br_pack_part *part, uint64_t first, uint64_t n,
                        struct br_pack_range ranges[BR_PART_TENSORS]);

/* Writes steps [first, first + n) of the part to out, n * step_bytes long. at[i]: the bytes of range i. */
void br_pack_steps(const struct br_packer *packer, const struct br_pack_part *part, uint64_t first, uint64_t n,
                   const unsigned char *const at[BR_PART_TENSORS], unsigned char *out);

/* A hash of that share of a LINEARS part's tensors which steps [first, first + n) are of all steps: those of all steps
 * together cover every byte. */
uint64_t br_pack_linears_hash(const struct br_pack_part *part, uint64_t first, uint64_t n);

/* Zeroes what lies between and behind the parts, so that images of equal weights are equal byte for byte. */
void br_pack_gaps(const struct br_packer *packer, uint32_t unit, unsigned char *out);

#endif
