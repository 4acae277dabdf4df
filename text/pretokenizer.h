/* The `pre_tokenizer` of a tokenizer.json: cuts normalised text into words. Split (regular expression or string),
 * Digits, ByteLevel, Metaspace and Sequences of them. Immutable after parsing. */
#ifndef BRIAREUS_TEXT_PRETOKENIZER_H
#define BRIAREUS_TEXT_PRETOKENIZER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "text/regex.h"

enum { BR_PRETOKENIZER_STEPS = 8 };

/* What becomes of the matches of a Split, named as in the file. */
enum br_split_behavior {
    BR_SPLIT_ISOLATED,
    BR_SPLIT_REMOVED,
    BR_SPLIT_MERGED_PREVIOUS,
    BR_SPLIT_MERGED_NEXT,
    BR_SPLIT_CONTIGUOUS,
};

struct br_pretokenizer {
    struct br_pretokenizer_step {
        struct br_regex regex;
        enum br_split_behavior behavior;
        bool invert;
    } steps[BR_PRETOKENIZER_STEPS];
    size_t n;
    bool bytelevel;    /* words become bytes of GPT-2's alphabet */
    bool prefix_space; /* ByteLevel add_prefix_space */
    bool metaspace;    /* spaces become U+2581 */
    enum { BR_PREPEND_NEVER, BR_PREPEND_FIRST, BR_PREPEND_ALWAYS } prepend;
};

/* json: NULL or null for none. Errors: BR_ENOTSUP naming the part, BR_EINVAL for a regular expression that does not
 * compile. */
int br_pretokenizer_parse(struct br_pretokenizer *pretok, json_t *json, struct br_err *err);
void br_pretokenizer_free(struct br_pretokenizer *pretok);

/* Gets every word in order; non-zero stops the walk and is returned. */
typedef int br_word_fn(void *user, const char *word, size_t len, struct br_err *err);

/* Cuts well-formed text. first: it stands at the beginning of what the caller encodes. regex, buf: this call's
 * room. */
int br_pretokenizer_run(const struct br_pretokenizer *pretok, const char *text, size_t len, bool first,
                        struct br_regex_scratch *regex, struct br_buf *buf, br_word_fn *word, void *user,
                        struct br_err *err);

#endif
