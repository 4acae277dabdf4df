#include "text/stop.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* Knuth, Morris, Pratt 1977: the failure function. */
static void find_borders(struct br_stop_string *s)
{
    uint16_t k = 0;
    s->border[0] = 0;
    for (uint16_t i = 1; i < s->len; i++) {
        while (k > 0 && s->text[i] != s->text[k])
            k = s->border[k - 1];
        k = (uint16_t)(k + (s->text[i] == s->text[k]));
        s->border[i] = k;
    }
}

static void add_string(struct br_stop *stop, const char *text, size_t len)
{
    struct br_stop_string *s = &stop->strings[stop->n++];
    s->text = br_strdup(text);
    s->len = (uint16_t)len;
    s->border = br_calloc(len, sizeof *s->border);
    find_borders(s);
}

int br_stop_init(struct br_stop *stop, const char *const *strings, size_t n, bool include_stop_str, struct br_err *err)
{
    *stop = (struct br_stop){.include = include_stop_str, .hit = -1};
    if (n > BR_STOP_MAX)
        return br_err_set(err, BR_EINVAL, "stop: %zu strings given, at most %d are allowed", n, BR_STOP_MAX);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(strings[i]);
        if (len == 0 || len > BR_STOP_MAX_BYTES) {
            br_stop_free(stop);
            return br_err_set(err, BR_EINVAL, "stop: string %zu has %zu bytes, must have 1 to %d", i, len,
                              BR_STOP_MAX_BYTES);
        }
        add_string(stop, strings[i], len);
    }
    return 0;
}

void br_stop_free(struct br_stop *stop)
{
    for (size_t i = 0; i < stop->n; i++) {
        free(stop->strings[i].text);
        free(stop->strings[i].border);
    }
    *stop = (struct br_stop){.hit = -1};
}

/* Takes one byte; whether the string is complete with it. */
static bool string_step(struct br_stop_string *s, char byte)
{
    while (s->matched > 0 && s->text[s->matched] != byte)
        s->matched = s->border[s->matched - 1];
    s->matched = (uint16_t)(s->matched + (s->text[s->matched] == byte));
    return s->matched == s->len;
}

static int longest_complete(struct br_stop *stop, char byte)
{
    int best = -1;
    for (size_t i = 0; i < stop->n; i++)
        if (string_step(&stop->strings[i], byte) && (best < 0 || stop->strings[i].len > stop->strings[best].len))
            best = (int)i;
    return best;
}

static uint64_t held_bytes(const struct br_stop *stop)
{
    uint64_t held = 0;
    for (size_t i = 0; i < stop->n; i++)
        if (stop->strings[i].matched > held)
            held = stop->strings[i].matched;
    return held;
}

int br_stop_feed(struct br_stop *stop, const char *piece, size_t len, uint64_t *safe)
{
    if (stop->n == 0) {
        stop->fed += len;
        *safe = stop->fed;
        return -1;
    }
    for (size_t i = 0; i < len && stop->hit < 0; i++) {
        stop->fed++;
        stop->hit = longest_complete(stop, piece[i]);
        if (stop->hit >= 0)
            stop->cut = stop->fed - (stop->include ? 0 : stop->strings[stop->hit].len);
    }
    *safe = stop->hit >= 0 ? stop->cut : stop->fed - held_bytes(stop);
    return stop->hit;
}
