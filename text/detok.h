/* Incremental detokenizer: ids in, well-formed UTF-8 out, never half a character. */
#ifndef BRIAREUS_TEXT_DETOK_H
#define BRIAREUS_TEXT_DETOK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct br_tokenizer;

/* Fixed size, no allocation of its own; copying it copies the state. */
struct br_detok {
    const struct br_tokenizer *tokenizer; /* borrowed */
    bool skip_special;
    bool first;      /* no token has come yet */
    uint32_t strip;  /* leading spaces still to be left out */
    char pending[4]; /* the beginning of a character */
    unsigned char n_pending;
};

void br_detok_init(struct br_detok *detok, const struct br_tokenizer *tokenizer, bool skip_special);

/* The text goes on behind other text: its first space is kept. To be called before the first push. */
void br_detok_continue(struct br_detok *detok);

/* Appends what the id completes to out: all of its text but an unfinished character at the end. An id without a token
 * adds nothing. */
void br_detok_push(struct br_detok *detok, int32_t id, struct br_buf *out);

/* The end of the text: a character that is cut becomes U+FFFD. All pushes and the flush together give
 * br_tokenizer_decode of all ids. */
void br_detok_flush(struct br_detok *detok, struct br_buf *out);

#endif
