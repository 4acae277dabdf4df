/* Small models on disk and a turn to run them, shared by the worker's tests. */
#ifndef BRIAREUS_TESTS_WORKER_TURN_FIXTURE_H
#define BRIAREUS_TESTS_WORKER_TURN_FIXTURE_H

#include <pthread.h>

#include "worker/turn/turn.h"

enum { FX_MODELS = 5, FX_RANDOM = 3 };

/* Models 0..2 are random (llama F32 tied, qwen3 BF16, qwen2 F32 with bias), 3 and 4 the shared trained and BF16 ones.
 */
struct fx_models {
    char dir[64]; /* temporary: model folders and their images */
    char folder[FX_MODELS][256];
    struct br_weight_image *image[FX_MODELS];
    struct br_tokenizer *tokenizer[FX_MODELS]; /* of 3 and 4 */
    struct br_turn_model model[FX_MODELS];
    uint64_t largest_bytes, all_bytes; /* of weights */
};

void fx_models_open(struct fx_models *m);
void fx_models_close(struct fx_models *m);

/* What came out of one sequence. */
struct fx_result {
    uint64_t seq;
    uint32_t cached;
    uint32_t given, n; /* tokens that it started with; tokens in all, given ones left empty */
    struct br_token tokens[160];
    enum br_end end;
    char error[512];
};

struct fx_run {
    struct br_turn *turn;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct fx_result *results; /* [cap] */
    uint32_t n, cap, ended;
    bool drained;
};

/* A turn over the first n_models, everything resident, no profile; config may be changed before fx_start. */
void fx_config(const struct fx_models *m, struct br_turn_config *config);
void fx_start(struct fx_run *run, const struct br_turn_config *config, const struct fx_models *m, uint32_t n_models);
void fx_stop(struct fx_run *run);

/* Sequence k of a model: prompts of 1 to 70 tokens, 6 to 24 to come, greedy and sampled ones, logprobs. */
void fx_spec(const struct fx_models *m, uint32_t model, uint32_t k, struct br_seq_spec *out);
/* Starts it behind `given` tokens of `before` (may be NULL with 0); returns its result's index. */
uint32_t fx_add(struct fx_run *run, const struct br_seq_spec *spec, const struct br_token *before, uint32_t given);
void fx_wait(struct fx_run *run); /* until all that were added have ended */
void fx_wait_tokens(struct fx_run *run, uint32_t index, uint32_t n);

/* The reference: this sequence alone, one model, everything resident. */
void fx_alone(const struct fx_models *m, uint32_t model, uint32_t k, struct fx_result *out);
/* The same of any sequence of a model. */
void fx_alone_spec(const struct fx_models *m, uint32_t model, const struct br_seq_spec *spec, struct fx_result *out);
/* Ids, logprobs, top lists and end bit for bit, from token `from` on. */
void fx_same(const struct fx_result *want, const struct fx_result *got, uint32_t from);

#endif
