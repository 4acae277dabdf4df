/* From options to a journal: offer, prompts, run. For loadgen/ and cli/devices. */
#ifndef BRIAREUS_LOADGEN_SESSION_H
#define BRIAREUS_LOADGEN_SESSION_H

#include "loadgen/goodput.h"
#include "loadgen/result.h"
#include "loadgen/run.h"
#include "loadgen/tokens.h"

struct load_session {
    const struct load_config *config; /* borrowed */
    struct load_target target;
    struct load_offer offer;
    struct load_lexicon *lexicons; /* of the offer's models, which are the same at any rate */
    uint32_t n_lexicons;
    struct load_journal journal;
    char note[200];
};

/* Resolves the target. */
int load_session_open(struct load_session *session, const struct load_config *config, struct br_err *err);
/* Offers the load times rate_factor, drawn with `seed`; offer and journal are those of this run until the next. */
int load_session_run(struct load_session *session, double rate_factor, uint64_t seed, const char *label,
                     struct br_err *err);
void load_session_close(struct load_session *session);

/* Prints what the search finds; the JSON is the caller's. BR_EINVAL: the load offers nothing. */
int load_session_find(struct load_session *session, json_t **out, struct br_err *err);

#endif
