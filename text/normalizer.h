/* The `normalizer` of a tokenizer.json: NFC, NFD, NFKC, NFKD, Prepend, Replace (of a literal string), Strip, and
 * Sequences of them. Immutable after parsing. */
#ifndef BRIAREUS_TEXT_NORMALIZER_H
#define BRIAREUS_TEXT_NORMALIZER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum { BR_NORMALIZER_STEPS = 8 };

enum br_unicode_form { BR_NFC, BR_NFD, BR_NFKC, BR_NFKD };

struct br_normalizer {
    struct br_normalizer_step {
        enum { BR_NORM_UNICODE, BR_NORM_PREPEND, BR_NORM_REPLACE, BR_NORM_STRIP } kind;
        enum br_unicode_form form;
        char *from, *to; /* owned */
        bool left, right;
    } steps[BR_NORMALIZER_STEPS];
    size_t n;
};

/* json: NULL or null for none. Errors: BR_ENOTSUP for a type or pattern that is not in the list above. */
int br_normalizer_parse(struct br_normalizer *norm, json_t *json, struct br_err *err);
void br_normalizer_free(struct br_normalizer *norm);

/* Normalises well-formed UTF-8. *out, *out_len is the text itself when nothing changes, else it lies in one of the two
 * buffers, which the caller frees. BR_EINVAL when the result would pass 256 MiB. */
int br_normalizer_apply(const struct br_normalizer *norm, const char *text, size_t len, struct br_buf bufs[2],
                        const char **out, size_t *out_len, struct br_err *err);

/* Appends the normal form of well-formed text; linear in its length even for long runs of combining marks. */
void br_unicode_normalize(enum br_unicode_form form, const char *text, size_t len, struct br_buf *out);

/* Whether text is in the form already, decided quickly: false may be wrong, true is not. */
bool br_unicode_is_normal(enum br_unicode_form form, const char *text, size_t len);

#endif
