#include "text/regex.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/buf.h"

enum {
    REGEX_MAX_PATTERN = 16 << 10,
    REGEX_BASE_STEPS = 1 << 20,
    REGEX_STEPS_PER_BYTE = 32, /* a long run of spaces is walked back once by the usual patterns */
    REGEX_HEAP_KIB = 128 << 10,
};

/* Escapes that mean something else in Oniguruma than in PCRE2: \s is Unicode's White_Space (PCRE2 adds U+180E), \h a
 * hex digit (PCRE2: horizontal space). */
static void rewrite_escape(const char *escape, struct br_buf *out)
{
    switch (escape[1]) {
    case 's':
        br_buf_puts(out, "\\p{wspace}");
        break;
    case 'S':
        br_buf_puts(out, "\\P{wspace}");
        break;
    case 'h':
        br_buf_puts(out, "\\p{ahex}");
        break;
    case 'H':
        br_buf_puts(out, "\\P{ahex}");
        break;
    default:
        br_buf_add(out, escape, 2);
    }
}

/* Copies the beginning of a class, where a bracket that closes is literal; returns the last byte taken. */
static const char *rewrite_class_head(const char *p, struct br_buf *out)
{
    const char *end = p + 1;
    end += *end == '^';
    end += *end == ']';
    br_buf_add(out, p, (size_t)(end - p));
    return end - 1;
}

/* Oniguruma's syntax to PCRE2's. Classes inside classes and intersections (&&) exist only there: -1. */
static int rewrite_pattern(const char *pattern, struct br_buf *out)
{
    bool in_class = false;
    for (const char *p = pattern; *p; p++) {
        if (p[0] == '\\' && p[1]) {
            rewrite_escape(p++, out);
        } else if (p[0] == '[' && !in_class) {
            in_class = true;
            p = rewrite_class_head(p, out);
        } else if (in_class && ((p[0] == '[' && p[1] != ':') || (p[0] == '&' && p[1] == '&'))) {
            return -1;
        } else if (in_class && p[0] == '[') {
            const char *end = strstr(p, ":]");
            if (!end)
                return -1;
            br_buf_add(out, p, (size_t)(end + 2 - p));
            p = end + 1;
        } else {
            in_class = in_class && p[0] != ']';
            br_buf_add(out, p, 1);
        }
    }
    return 0;
}

int br_regex_compile(struct br_regex *regex, const char *pattern, bool literal, struct br_err *err)
{
    uint32_t options = PCRE2_UTF | PCRE2_NO_UTF_CHECK;
    struct br_buf rewritten = {0};
    PCRE2_SIZE at = 0;
    int code = 0;
    if (strlen(pattern) > REGEX_MAX_PATTERN)
        return br_err_set(err, BR_EINVAL, "regular expression: %zu bytes long, limit %d", strlen(pattern),
                          REGEX_MAX_PATTERN);
    if (literal) {
        br_buf_puts(&rewritten, pattern);
    } else if (rewrite_pattern(pattern, &rewritten) == 0) {
        options |= PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    } else {
        br_buf_free(&rewritten);
        return br_err_set(err, BR_ENOTSUP,
                          "regular expression \"%.120s\": classes inside classes and && are not supported", pattern);
    }
    regex->code = pcre2_compile((PCRE2_SPTR)(rewritten.data ? rewritten.data : ""), rewritten.len,
                                options | (literal ? PCRE2_LITERAL : 0), &code, &at, NULL);
    br_buf_free(&rewritten);
    if (!regex->code) {
        char message[160] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return br_err_set(err, BR_EINVAL, "regular expression \"%.120s\": %s (near byte %zu)", pattern, message, at);
    }
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* without JIT, matching falls back by itself */
    return 0;
}

void br_regex_free(struct br_regex *regex)
{
    pcre2_code_free(regex->code);
    regex->code = NULL;
}

void br_regex_scratch_free(struct br_regex_scratch *scratch)
{
    pcre2_match_data_free(scratch->match);
    pcre2_match_context_free(scratch->context);
    *scratch = (struct br_regex_scratch){0};
}

static void scratch_prepare(struct br_regex_scratch *scratch, size_t len)
{
    size_t steps = REGEX_BASE_STEPS + REGEX_STEPS_PER_BYTE * len;
    if (!scratch->match) {
        scratch->match = pcre2_match_data_create(1, NULL);
        scratch->context = pcre2_match_context_create(NULL);
        if (!scratch->match || !scratch->context)
            abort();
        pcre2_set_heap_limit(scratch->context, REGEX_HEAP_KIB);
    }
    pcre2_set_match_limit(scratch->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
}

int br_regex_find(const struct br_regex *regex, const char *text, size_t len, struct br_regex_scratch *scratch,
                  size_t *start, size_t *end, struct br_err *err)
{
    PCRE2_SIZE *bounds;
    int rc;
    scratch_prepare(scratch, len);
    rc = pcre2_match(regex->code, (PCRE2_SPTR)text, len, *start, PCRE2_NO_UTF_CHECK, scratch->match, scratch->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* deep backtracking: the interpreter keeps its frames on the heap */
        rc = pcre2_match(regex->code, (PCRE2_SPTR)text, len, *start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, scratch->match,
                         scratch->context);
    if (rc == PCRE2_ERROR_NOMATCH)
        return 0;
    if (rc < 0)
        return br_err_set(err, BR_EINVAL,
                          "pre_tokenizer: matching its regular expression failed at byte %zu of a "
                          "%zu-byte text (PCRE2 error %d): it backtracks too much",
                          *start, len, rc);
    bounds = pcre2_get_ovector_pointer(scratch->match);
    if (bounds[0] < *start || bounds[1] < bounds[0])
        return br_err_set(err, BR_EINVAL, "pre_tokenizer: its regular expression matches backwards (\\K)");
    *start = bounds[0];
    *end = bounds[1];
    return 1;
}
