/* A device with one toy model on it and sequences whose blocks and weights may be moved about between steps. */
#ifndef BRIAREUS_TESTS_RIG_H
#define BRIAREUS_TESTS_RIG_H

#include "tests/unit/worker/engine/toy.h"

enum { RIG_MAX_TOKENS = 320, RIG_BLOCKS = RIG_MAX_TOKENS / BR_KV_BLOCK_TOKENS, RIG_SEQS = 8 };

struct rig_seq {
    int32_t ids[RIG_MAX_TOKENS];
    uint32_t n, pos; /* tokens there are; tokens run */
    br_devptr blocks[RIG_BLOCKS];
    float *logits; /* of the last row run */
};

struct rig {
    struct br_device *dev;
    struct br_stream *compute, *copies;
    struct br_event *copied, *stepped;
    struct br_engine *engine;
    struct br_engine_model *model;
    const struct toy *toy;
    struct br_rng rng;
    struct rig_seq seq[RIG_SEQS];
    br_devptr *slot; /* free places for blocks */
    uint32_t n_slots;
    uint64_t block_bytes;
    bool weights_high; /* which of two places the weights are at */
};

/* All KV memory starts as 0xFF bytes: not-a-number in both formats. */
void rig_open(struct rig *rig, const struct toy *toy, const char *isa, uint32_t threads);
void rig_close(struct rig *rig);
/* Tokens from seed; nothing run. */
void rig_start(struct rig *rig, uint32_t seq, uint64_t seed, uint32_t n);
/* Runs the next n[i] tokens of sequence i (0: leaves it out) in one step; logits of each are in seq[i].logits. */
void rig_step(struct rig *rig, const uint32_t n[RIG_SEQS]);
/* Copies every block of a sequence elsewhere and poisons where it was. */
void rig_move_blocks(struct rig *rig, uint32_t seq);
/* Evicts all weights and loads them elsewhere, without waiting: the step's kernels wait for each unit's event. */
void rig_move_weights(struct rig *rig);

#endif
