#include "text/pretokenizer.h"

#include <string.h>

#include "text/utf8.h"

struct pretok_run {
    const struct br_pretokenizer *pretok;
    struct br_regex_scratch *regex;
    br_word_fn *word;
    void *user;
    struct br_err *err;
};

/* The parts of one text under one step; a part may be held back until it is known whether its neighbour joins it. */
struct split {
    struct pretok_run *run;
    size_t step; /* of the parts that come out */
    enum br_split_behavior behavior;
    const char *text;
    size_t from, to; /* held; empty: none */
    bool held_match;
};

static int run_step(struct pretok_run *run, size_t step, const char *text, size_t len);

static int split_out(struct split *split, size_t from, size_t to)
{
    return from < to ? run_step(split->run, split->step, split->text + from, to - from) : 0;
}

static int split_flush(struct split *split)
{
    size_t from = split->from, to = split->to;
    split->from = split->to = 0;
    return split_out(split, from, to);
}

static int split_hold(struct split *split, size_t from, size_t to, bool match)
{
    int rc = split_flush(split);
    split->from = from;
    split->to = to;
    split->held_match = match;
    return rc;
}

static int split_join(struct split *split, size_t to)
{
    split->to = to;
    return split_flush(split);
}

static int split_part(struct split *split, size_t from, size_t to, bool match)
{
    bool held = split->from < split->to;
    int rc;
    if (from == to)
        return 0;
    switch (split->behavior) {
    case BR_SPLIT_ISOLATED:
        break;
    case BR_SPLIT_REMOVED:
        return match ? 0 : split_out(split, from, to);
    case BR_SPLIT_MERGED_PREVIOUS:
        if (!match)
            return split_hold(split, from, to, match);
        if (held)
            return split_join(split, to);
        break;
    case BR_SPLIT_MERGED_NEXT:
        if (match)
            return split_hold(split, from, to, match);
        if (held)
            return split_join(split, to);
        break;
    case BR_SPLIT_CONTIGUOUS:
        if (!held || split->held_match != match)
            return split_hold(split, from, to, match);
        split->to = to;
        return 0;
    }
    rc = split_flush(split);
    return rc ? rc : split_out(split, from, to);
}

static size_t next_char(const char *text, size_t len, size_t at)
{
    do
        at++;
    while (at < len && !br_utf8_is_start(text[at]));
    return at;
}

static int run_split(struct pretok_run *run, size_t step, const char *text, size_t len)
{
    const struct br_pretokenizer_step *spec = &run->pretok->steps[step];
    struct split split = {.run = run, .step = step + 1, .behavior = spec->behavior, .text = text};
    size_t done = 0, from = 0, to = 0;
    int rc, found;
    while (from < len && (found = br_regex_find(&spec->regex, text, len, run->regex, &from, &to, run->err)) != 0) {
        if (found < 0)
            return found;
        if ((rc = split_part(&split, done, from, spec->invert)) != 0 ||
            (rc = split_part(&split, from, to, !spec->invert)) != 0)
            return rc;
        done = to;
        from = from == to ? next_char(text, len, to) : to;
    }
    rc = split_part(&split, done, len, spec->invert);
    return rc ? rc : split_flush(&split);
}

static int run_step(struct pretok_run *run, size_t step, const char *text, size_t len)
{
    if (step == run->pretok->n)
        return run->word(run->user, text, len, run->err);
    return run_split(run, step, text, len);
}

/* Spaces to U+2581, and one in front where the scheme wants it. */
static void to_metaspace(const struct br_pretokenizer *pretok, const char *text, size_t len, bool first,
                         struct br_buf *out)
{
    static const char mark[] = "\xE2\x96\x81";
    bool marked = text[0] == ' ' || (len >= 3 && memcmp(text, mark, 3) == 0);
    br_buf_clear(out);
    if (!marked && (pretok->prepend == BR_PREPEND_ALWAYS || (pretok->prepend == BR_PREPEND_FIRST && first)))
        br_buf_add(out, mark, 3);
    for (size_t at = 0; at < len;) {
        const char *space = memchr(text + at, ' ', len - at);
        size_t plain = space ? (size_t)(space - text) - at : len - at;
        br_buf_add(out, text + at, plain);
        at += plain + (space != NULL);
        if (space)
            br_buf_add(out, mark, 3);
    }
}

int br_pretokenizer_run(const struct br_pretokenizer *pretok, const char *text, size_t len, bool first,
                        struct br_regex_scratch *regex, struct br_buf *buf, br_word_fn *word, void *user,
                        struct br_err *err)
{
    struct pretok_run run = {pretok, regex, word, user, err};
    if (len == 0)
        return 0;
    if (pretok->metaspace) {
        to_metaspace(pretok, text, len, first, buf);
    } else if (pretok->prefix_space && text[0] != ' ') {
        br_buf_clear(buf);
        br_buf_puts(buf, " ");
        br_buf_add(buf, text, len);
    } else {
        return run_step(&run, 0, text, len);
    }
    return run_step(&run, 0, buf->data, buf->len);
}
