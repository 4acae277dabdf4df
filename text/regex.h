/* Regular expressions of tokenizer files (Oniguruma's syntax as far as PCRE2 shares it), with bounded matching. */
#ifndef BRIAREUS_TEXT_REGEX_H
#define BRIAREUS_TEXT_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct br_regex { /* ^ and $ match at every line, as in Oniguruma */
    struct pcre2_real_code_8 *code;
};

/* literal: the pattern is a plain string. BR_EINVAL, with the place, when it does not compile. */
int br_regex_compile(struct br_regex *regex, const char *pattern, bool literal, struct br_err *err);
void br_regex_free(struct br_regex *regex);

/* Per-call room, zero-initialised; not shared between threads. */
struct br_regex_scratch {
    struct pcre2_real_match_data_8 *match;
    struct pcre2_real_match_context_8 *context;
};
void br_regex_scratch_free(struct br_regex_scratch *scratch);

/* Looks for the first match in well-formed text at or after *start: 1 and its bounds, 0 when there is none, BR_EINVAL
 * when matching takes more steps than allowed (a pattern that backtracks without bound). */
int br_regex_find(const struct br_regex *regex, const char *text, size_t len, struct br_regex_scratch *scratch,
                  size_t *start, size_t *end, struct br_err *err);

#endif
