/* The vocabulary: token text <-> id, and the bytes that each token stands for. Immutable after br_vocab_build. */
#ifndef BRIAREUS_TEXT_VOCAB_H
#define BRIAREUS_TEXT_VOCAB_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    BR_VOCAB_MAX_ID = 4 << 20,    /* above every vocabulary in use by a factor of 8 */
    BR_VOCAB_MAX_TEXT = 16 << 10, /* bytes of one token */
};

enum br_piece_flags {
    BR_PIECE_PRESENT = 1,
    BR_PIECE_ADDED = 2,
    BR_PIECE_SPECIAL = 4,
    BR_PIECE_BYTE = 8, /* <0xAB> of a byte_fallback vocabulary */
};

/* How token text turns into bytes. */
enum br_piece_coding {
    BR_CODING_BYTELEVEL, /* GPT-2's byte alphabet */
    BR_CODING_METASPACE, /* U+2581 is a space */
    BR_CODING_FALLBACK,  /* the same, and <0xAB> is a byte */
};

struct br_piece {
    const char *text, *raw; /* NUL-terminated, owned by the vocabulary; NULL in a gap */
    uint32_t text_len, raw_len;
    unsigned flags;
};

struct br_vocab {
    struct br_piece *pieces; /* (size) */
    int32_t size;            /* highest id + 1 */
    char *blob;              /* all texts and raws */
    int32_t *slots;          /* open-addressing hash of ids by text; -1 is free */
    size_t mask;
};

/* vocab: object text -> id. added: the list `added_tokens`, or NULL. Errors: BR_EINVAL for wrong types, BR_ECORRUPT for
 * ids out of range, used twice, or so sparse that half of the range is missing. */
int br_vocab_build(struct br_vocab *vocab, json_t *model_vocab, json_t *added, enum br_piece_coding coding,
                   struct br_err *err);
void br_vocab_free(struct br_vocab *vocab);

/* -1 when unknown. */
int32_t br_vocab_find(const struct br_vocab *vocab, const char *text, size_t len);

/* NULL for an id out of range or in a gap. */
const struct br_piece *br_vocab_piece(const struct br_vocab *vocab, int32_t id);

#endif
