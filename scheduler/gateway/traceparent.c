#include "scheduler/gateway/traceparent.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"

static int hex_value(char c) /* lower case only: 3.2.2 */
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_read(const char *text, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int high = hex_value(text[2 * i]), low = high < 0 ? -1 : hex_value(text[2 * i + 1]);
        if (low < 0)
            return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool all_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i])
            return false;
    return true;
}

/* version "-" trace-id "-" parent-id "-" flags; a later version may go on behind another "-". */
static bool context_read(const char *text, struct br_traceparent *out)
{
    uint8_t version, flags;
    size_t len = strlen(text);
    if (len < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-')
        return false;
    if (!hex_read(text, &version, 1) || !hex_read(text + 3, out->trace, 16) || !hex_read(text + 36, out->parent, 8) ||
        !hex_read(text + 53, &flags, 1))
        return false;
    if (version == 0xff || (version == 0 && len != 55) || (len > 55 && text[55] != '-'))
        return false;
    out->has_parent = true;
    out->sampled = flags & 1;
    return !all_zero(out->trace, 16) && !all_zero(out->parent, 8);
}

void br_traceparent_span(uint8_t span[8])
{
    uint64_t id = br_rng_entropy();
    id = id ? id : 1;
    memcpy(span, &id, 8);
}

void br_traceparent_begin(struct br_traceparent *trace, const char *traceparent)
{
    *trace = (struct br_traceparent){0};
    if (!context_read(traceparent, trace)) {
        *trace = (struct br_traceparent){.sampled = true};
        br_traceparent_span(trace->trace);
        br_traceparent_span(trace->trace + 8);
    }
    br_traceparent_span(trace->span);
}

void br_traceparent_pass(const struct br_traceparent *trace, char out[BR_MAX_TRACEPARENT])
{
    size_t n = (size_t)sprintf(out, "00-");
    for (int i = 0; i < 16; i++)
        n += (size_t)sprintf(out + n, "%02x", trace->trace[i]);
    n += (size_t)sprintf(out + n, "-");
    for (int i = 0; i < 8; i++)
        n += (size_t)sprintf(out + n, "%02x", trace->span[i]);
    sprintf(out + n, "-%02x", trace->sampled);
}
