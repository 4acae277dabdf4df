/* What goes over the wire: the bytes of each request, a function of the options, the workload and the seed alone. */
#ifndef BRIAREUS_LOADGEN_ASK_H
#define BRIAREUS_LOADGEN_ASK_H

#include "base/buf.h"
#include "loadgen/config.h"
#include "loadgen/offer.h"
#include "loadgen/prompt.h"
#include "loadgen/target.h"

struct load_ask {
    const struct load_config *config;    /* borrowed */
    const struct br_workload *workload;  /* borrowed */
    const struct load_lexicon *lexicons; /* borrowed; one a model */
    uint64_t seed;
    bool chat, ids;
    struct br_buf head; /* up to the header that says the length */
    struct br_buf tail; /* of the body: members that are the same in all */
    char **names;       /* as JSON; n_models */
    uint32_t n_names;
    char **questions; /* as JSON */
    uint32_t n_questions;
};

/* BR_EINVAL: extra-body is no JSON object, a header is no NAME=VALUE; BR_ENOENT: no prompts file. */
int load_ask_init(struct load_ask *ask, const struct load_config *config, const struct load_target *target,
                  const struct br_workload *workload, const struct load_lexicon *lexicons, uint64_t seed,
                  struct br_err *err);
void load_ask_free(struct load_ask *ask);

/* A request's traits (enum load_trait bits) and, if it cancels, after how many tokens (1 .. output). */
unsigned load_ask_traits(const struct load_ask *ask, const struct br_request *request, uint32_t *cancel_after);
/* Head and body. */
void load_ask_write(const struct load_ask *ask, const struct br_request *request, struct br_buf *out);

#endif
