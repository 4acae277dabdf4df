/* The end of a sequence, from its tokens alone. */
#ifndef BRIAREUS_WORKER_SAMPLER_END_WATCH_H
#define BRIAREUS_WORKER_SAMPLER_END_WATCH_H

#include "proto/seq.h"
#include "text/tokenizer.h"

/* Watches one sequence. */
struct br_end_watch;

/* Copies what it needs of spec and eos; tokenizer is borrowed and may be NULL when spec has no stop strings. */
int br_end_watch_create(const struct br_seq_spec *spec, const struct br_tokenizer *tokenizer, const int32_t *eos,
                        uint32_t n_eos, uint32_t max_positions, struct br_end_watch **out, struct br_err *err);
void br_end_watch_destroy(struct br_end_watch *watch);

/* Takes the next output token (also those of a resumed sequence, in order); returns BR_END_NONE while it goes on.
 * Of reasons that come together the first of this list counts: eos or stop id (never before min_tokens; eos not with
 * ignore_eos), stop string (only with min_tokens reached), max_tokens or context full (prompt + output ==
 * max_positions). */
enum br_end br_end_watch_push(struct br_end_watch *watch, int32_t id);

#endif
