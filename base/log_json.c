#include "base/log_json.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct writer {
    char *out;
    size_t n, size; /* size: what may be used, without the end */
    bool full;
};

static void put(struct writer *w, const char *text, size_t len)
{
    w->full = w->full || len > w->size - w->n;
    if (w->full)
        return;
    memcpy(w->out + w->n, text, len);
    w->n += len;
}

static void put_code(struct writer *w, unsigned code)
{
    char text[8];
    put(w, text, (size_t)snprintf(text, sizeof text, "\\u%04x", code));
}

/* Length of the UTF-8 character at p, 0: none (RFC 3629, 4; of surrogates and overlong forms only the lead is seen). */
static size_t utf8_len(const unsigned char *p)
{
    size_t n = *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) ||
        (*p == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* One character of a value; returns how many bytes it was. */
static size_t put_char(struct writer *w, const char *p)
{
    unsigned char c = (unsigned char)*p;
    size_t n = c >= 0x80 ? utf8_len((const unsigned char *)p) : 1;
    if (c >= 0x80 && n == 0)
        put_code(w, 0xfffd);
    else if (c == '"' || c == '\\')
        put(w, (char[]){'\\', (char)c}, 2);
    else if (c < 0x20)
        put_code(w, c);
    else
        put(w, p, n);
    return n ? n : 1;
}

static int hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* As br_log_quote writes it; returns what follows the closing quote. */
static const char *put_quoted(struct writer *w, const char *p)
{
    put(w, "\"", 1);
    while (*p && *p != '"') {
        if (p[0] == '\\' && p[1] == 'x' && hex(p[2]) >= 0 && hex(p[3]) >= 0) {
            put_code(w, (unsigned)(hex(p[2]) << 4 | hex(p[3])));
            p += 4;
        } else if (p[0] == '\\' && p[1]) {
            put_char(w, p + 1);
            p += 2;
        } else {
            p += put_char(w, p);
        }
    }
    put(w, "\"", 1);
    return *p ? p + 1 : p;
}

/* -12.5e-3 and so on, by JSON's grammar, of at most 15 digits. */
static bool is_number(const char *p, size_t len)
{
    const char *end = p + len;
    size_t digits = 0, whole;
    p += p < end && *p == '-';
    whole = strspn(p, "0123456789");
    if (whole == 0 || (whole > 1 && *p == '0'))
        return false;
    digits += whole;
    p += whole;
    if (*p == '.') {
        size_t part = strspn(++p, "0123456789");
        if (part == 0)
            return false;
        digits += part;
        p += part;
    }
    if (p < end && (*p | 32) == 'e') {
        p++;
        p += p < end && (*p == '-' || *p == '+');
        whole = strspn(p, "0123456789");
        if (whole == 0 || whole > 2)
            return false;
        p += whole;
    }
    return p == end && digits <= 15;
}

static const char *put_bare(struct writer *w, const char *p)
{
    size_t len = strcspn(p, " ");
    if (is_number(p, len)) {
        put(w, p, len);
        return p + len;
    }
    put(w, "\"", 1);
    for (const char *end = p + len; p < end;)
        p += put_char(w, p);
    put(w, "\"", 1);
    return p;
}

/* key=value; returns what follows. */
static const char *put_pair(struct writer *w, const char *p)
{
    size_t key = strcspn(p, "= ");
    put(w, w->n > 1 ? ",\"" : "\"", w->n > 1 ? 2 : 1);
    for (size_t i = 0; i < key;)
        i += put_char(w, p + i);
    put(w, "\":", 2);
    p += key;
    if (*p != '=') {
        put(w, "true", 4); /* a word alone */
        return p;
    }
    return p[1] == '"' ? put_quoted(w, p + 2) : put_bare(w, p + 1);
}

size_t br_log_json(const char *pairs, char *out, size_t size)
{
    struct writer w = {.out = out, .size = size - 2};
    put(&w, "{", 1);
    while (*(pairs += strspn(pairs, " ")) && !w.full) {
        size_t before = w.n;
        pairs = put_pair(&w, pairs);
        if (w.full)
            w.n = before;
    }
    out[w.n++] = '}';
    out[w.n] = 0;
    return w.n;
}
