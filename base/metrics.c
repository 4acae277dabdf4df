#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

void br_metric_hist_init(struct br_metric_hist *hist, const double *bounds, uint32_t n)
{
    assert(n <= BR_METRIC_MAX_BOUNDS);
    *hist = (struct br_metric_hist){.bounds = bounds, .n = n};
}

void br_metric_hist_add(struct br_metric_hist *hist, double value, uint64_t times)
{
    uint32_t i = 0;
    while (i < hist->n && value > hist->bounds[i])
        i++;
    hist->count[i] += times;
    hist->sum += value * (double)times;
}

void br_metric_family(struct br_buf *out, const char *name, const char *type, const char *help)
{
    br_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_escaped(struct br_buf *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            br_buf_printf(out, "\\%c", *value);
        else if (*value == '\n')
            br_buf_puts(out, "\\n");
        else
            br_buf_add(out, value, 1);
    }
}

void br_metric_label(struct br_buf *labels, const char *key, const char *value)
{
    br_buf_printf(labels, "%s%s=\"", labels->len ? "," : "", key);
    put_escaped(labels, value);
    br_buf_puts(labels, "\"");
}

/* Whole numbers without a fraction: counters stay exact to 2^53. */
static void put_value(struct br_buf *out, double value)
{
    if (isnan(value))
        br_buf_puts(out, "NaN");
    else if (isinf(value))
        br_buf_puts(out, value > 0 ? "+Inf" : "-Inf");
    else if (value == floor(value) && fabs(value) < 0x1p53)
        br_buf_printf(out, "%.0f", value);
    else
        br_buf_printf(out, "%.9g", value);
}

static void put_line(struct br_buf *out, const char *name, const char *suffix, const struct br_buf *labels,
                     double value)
{
    br_buf_printf(out, "%s%s", name, suffix);
    if (labels && labels->len)
        br_buf_printf(out, "{%s}", labels->data);
    br_buf_puts(out, " ");
    put_value(out, value);
    br_buf_puts(out, "\n");
}

void br_metric_put(struct br_buf *out, const char *name, const struct br_buf *labels, double value)
{
    put_line(out, name, "", labels, value);
}

static void put_bucket(struct br_buf *out, const char *name, const struct br_buf *labels, double bound, uint64_t count)
{
    br_buf_printf(out, "%s_bucket{", name);
    if (labels && labels->len)
        br_buf_printf(out, "%s,", labels->data);
    if (isinf(bound))
        br_buf_puts(out, "le=\"+Inf\"");
    else
        br_buf_printf(out, bound == floor(bound) ? "le=\"%.1f\"" : "le=\"%g\"", bound); /* as Python writes them */
    br_buf_printf(out, "} %" PRIu64 "\n", count);
}

void br_metric_hist_put(struct br_buf *out, const char *name, const struct br_buf *labels,
                        const struct br_metric_hist *hist)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i <= hist->n; i++) {
        total += hist->count[i];
        put_bucket(out, name, labels, i < hist->n ? hist->bounds[i] : INFINITY, total);
    }
    put_line(out, name, "_sum", labels, hist->sum);
    put_line(out, name, "_count", labels, (double)total);
}
