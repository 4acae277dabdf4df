/* Added tokens (special ones and others): found in text before anything else is done to it, leftmost first, the longest
 * at a place. Immutable after building. */
#ifndef BRIAREUS_TEXT_ADDED_H
#define BRIAREUS_TEXT_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct br_added_token {
    int32_t id;
    bool special;
    bool lstrip, rstrip; /* takes the white space before, after it along */
    bool single_word;    /* not inside a word */
};

struct br_added_set {
    struct br_added_token *tokens;
    size_t n_tokens, cap_tokens;
    struct added_node *nodes; /* a byte trie; node 0 is the root */
    int32_t n_nodes, cap_nodes;
    int32_t first[256]; /* the root's children by byte; 0: none */
};

/* Adds a token under its (non-empty) text; the first of two with one text wins. BR_EINVAL when the texts of all tokens
 * together pass 4 MiB. */
int br_added_put(struct br_added_set *set, const char *text, size_t len, const struct br_added_token *token,
                 struct br_err *err);
void br_added_free(struct br_added_set *set);

/* A range of bytes. */
struct br_span {
    size_t from, to;
};

/* Cuts a text into added tokens and what lies between them. */
struct br_added_iter {
    const struct br_added_set *set;
    const char *text;
    size_t len;
    bool specials;               /* whether special tokens are recognised at all */
    const struct br_span *plain; /* ordered ranges in which they are not; may be NULL */
    size_t n_plain;
    size_t at, done; /* next to look at; all before is given out */
    struct br_added_piece {
        size_t from, to;
        const struct br_added_token *token; /* NULL: plain text */
    } held;
};

/* The next piece; false at the end. Initialise an iterator with set, text, len, specials, plain. */
bool br_added_next(struct br_added_iter *iter, struct br_added_piece *piece);

#endif
