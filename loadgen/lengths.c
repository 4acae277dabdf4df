/* Laws of lengths as written on the command line. */
#include <stdlib.h>
#include <string.h>

#include "loadgen/offer.h"

/* Up to `room` numbers separated by colons; how many, or -1. */
static int numbers(const char *text, double *out, int room)
{
    int n = 0;
    for (;; text++) {
        char *end;
        if (n == room)
            return -1;
        out[n++] = strtod(text, &end);
        if (end == text || (*end && *end != ':') || !(out[n - 1] >= 0 && out[n - 1] <= BR_WORKLOAD_MAX_TOKENS))
            return -1;
        if (!*end)
            return n;
        text = end;
    }
}

int load_length_parse(const char *option, const char *text, struct br_length *out, struct br_err *err)
{
    double v[4];
    const char *colon = strchr(text, ':');
    size_t word = colon ? (size_t)(colon - text) : 0;
    int n = numbers(colon ? colon + 1 : text, v, 4);
    *out = (struct br_length){.min = 1, .max = BR_WORKLOAD_MAX_TOKENS};
    if (!colon && n == 1 && v[0] >= 1) {
        out->kind = BR_LENGTH_FIXED;
        out->median = v[0];
        out->min = out->max = (uint32_t)v[0];
        return 0;
    }
    if (word == 7 && memcmp(text, "uniform", 7) == 0 && n == 2 && v[0] >= 1 && v[1] >= v[0]) {
        out->kind = BR_LENGTH_UNIFORM;
        out->min = (uint32_t)v[0];
        out->max = (uint32_t)v[1];
        return 0;
    }
    if (word == 9 && memcmp(text, "lognormal", 9) == 0 && (n == 2 || n == 4) && v[0] >= 1) {
        out->kind = BR_LENGTH_LOGNORMAL;
        out->median = v[0];
        out->sigma = v[1];
        if (n == 4) {
            out->min = (uint32_t)v[2];
            out->max = (uint32_t)v[3];
        }
        return 0;
    }
    return br_err_set(err, BR_EINVAL, "%s: '%s' is not N, uniform:A:B or lognormal:MEDIAN:SIGMA[:MIN:MAX], in tokens",
                      option, text);
}
