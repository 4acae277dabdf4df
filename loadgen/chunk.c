#include "loadgen/chunk.h"

#include <stdlib.h>
#include <string.h>

/* Where in the answer a value lies. */
enum place {
    ROOT,
    CHOICES,
    CHOICE,
    MESSAGE,
    USAGE,
    ERROR,
    TEXT,
    TOOLS,
    PROMPT,
    COMPLETION,
    WHY,
    COUNT,
    IDS,
    ELSEWHERE
};

struct scan {
    const char *at, *end;
    struct load_chunk *out;
    unsigned depth;
};

static const struct {
    enum place in, to;
    const char *key;
} g_keys[] = {
    {ROOT, CHOICES, "choices"},
    {ROOT, USAGE, "usage"},
    {ROOT, ERROR, "error"},
    {ROOT, COUNT, "count"},
    {ROOT, IDS, "tokens"},
    {CHOICE, TEXT, "text"},
    {CHOICE, MESSAGE, "delta"},
    {CHOICE, MESSAGE, "message"},
    {MESSAGE, TEXT, "content"},
    {MESSAGE, TEXT, "reasoning_content"},
    {MESSAGE, TEXT, "reasoning"},
    {MESSAGE, TOOLS, "tool_calls"},
    {USAGE, COMPLETION, "completion_tokens"},
    {USAGE, PROMPT, "prompt_tokens"},
    {ERROR, WHY, "message"},
};

static enum place place_of(enum place in, const char *key, size_t n)
{
    if (in == ELSEWHERE)
        return ELSEWHERE;
    for (size_t i = 0; i < sizeof g_keys / sizeof *g_keys; i++)
        if (g_keys[i].in == in && strlen(g_keys[i].key) == n && memcmp(g_keys[i].key, key, n) == 0)
            return g_keys[i].to;
    return ELSEWHERE;
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* The bytes between the quotes, escapes as they are. */
static int scan_string(struct scan *s, const char **text, size_t *n)
{
    const char *from;
    if (!take(s, '"'))
        return -1;
    for (from = s->at; s->at < s->end && *s->at != '"'; s->at++) {
        if ((unsigned char)*s->at < 0x20)
            return -1;
        if (*s->at == '\\')
            s->at++;
    }
    if (s->at >= s->end)
        return -1;
    *text = from;
    *n = (size_t)(s->at++ - from);
    return 0;
}

static void keep_message(struct load_chunk *out, const char *text, size_t n)
{
    size_t take_n = n < sizeof out->message - 1 ? n : sizeof out->message - 1;
    memcpy(out->message, text, take_n);
    out->message[take_n] = 0;
    out->error = true;
}

static int take_string(struct scan *s, enum place place)
{
    const char *text;
    size_t n;
    if (scan_string(s, &text, &n))
        return -1;
    if (place == TEXT && n)
        s->out->text = true;
    else if (place == WHY || place == ERROR)
        keep_message(s->out, text, n);
    return 0;
}

/* A number, true, false or null; only whole numbers are of use. */
static int take_word(struct scan *s, enum place place)
{
    const char *from = s->at;
    int64_t value = 0;
    bool whole = true;
    for (; s->at < s->end && strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", *s->at) && *s->at; s->at++) {
        whole = whole && *s->at >= '0' && *s->at <= '9' && s->at - from < 18;
        value = whole ? value * 10 + (*s->at - '0') : 0;
    }
    if (s->at == from)
        return -1;
    if (!whole && !strchr("-0123456789tfn", *from))
        return -1;
    if (whole && place == PROMPT)
        s->out->prompt_tokens = value;
    else if (whole && place == COMPLETION)
        s->out->completion_tokens = value;
    else if (whole && place == COUNT)
        s->out->count = value;
    return 0;
}

static int take_value(struct scan *s, enum place place);

static int take_object(struct scan *s, enum place place)
{
    const char *key;
    size_t n;
    if (place == ERROR)
        s->out->error = true;
    if (take(s, '}'))
        return 0;
    do {
        if (scan_string(s, &key, &n) || !take(s, ':') || take_value(s, place_of(place, key, n)))
            return -1;
    } while (take(s, ','));
    return take(s, '}') ? 0 : -1;
}

static int take_array(struct scan *s, enum place place)
{
    int64_t n = 0;
    if (take(s, ']')) {
        s->out->count = place == IDS && s->out->count < 0 ? 0 : s->out->count;
        return 0;
    }
    do {
        n++;
        if (take_value(s, place == CHOICES ? CHOICE : ELSEWHERE))
            return -1;
    } while (take(s, ','));
    if (place == TOOLS)
        s->out->text = true;
    if (place == IDS && s->out->count < 0)
        s->out->count = n;
    return take(s, ']') ? 0 : -1;
}

static int take_value(struct scan *s, enum place place)
{
    int rc = -1;
    skip_space(s);
    if (s->at >= s->end || s->depth >= LOAD_CHUNK_DEPTH)
        return -1;
    s->depth++;
    if (*s->at == '{')
        s->at++, rc = take_object(s, place);
    else if (*s->at == '[')
        s->at++, rc = take_array(s, place);
    else if (*s->at == '"')
        rc = take_string(s, place);
    else
        rc = take_word(s, place);
    s->depth--;
    return rc;
}

int load_chunk_parse(const char *json, size_t n, struct load_chunk *out)
{
    struct scan s = {.at = json, .end = json + n, .out = out};
    out->text = out->error = false;
    out->prompt_tokens = out->completion_tokens = out->count = -1;
    out->message[0] = 0;
    skip_space(&s);
    if (s.at >= s.end || *s.at != '{' || take_value(&s, ROOT))
        return -1;
    skip_space(&s);
    return s.at == s.end ? 0 : -1;
}
