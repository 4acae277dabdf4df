/* Results as a page: one, or several side by side. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "loadgen/result.h"
#include "report/html.h"

enum { MAX_RESULTS = BR_REPORT_SERIES, CELL = 48 };

struct page {
    struct br_buf out;
    json_t *const *results;
    uint32_t n;
    char names[MAX_RESULTS][64];
};

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void name_results(struct page *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const char *label = json_string_value(json_object_get(p->results[i], "label"));
        const char *date = json_string_value(json_object_get(p->results[i], "date"));
        snprintf(p->names[i], sizeof p->names[i], "%u: %.50s", i + 1, label ? label : date ? date : "result");
    }
}

static const struct {
    const char *key, *name;
    double scale;
} g_rows[] = {
    {"attainment", "tokens on time, %", 100},
    {"gap_attainment", "tokens on time gap by gap, %", 100},
    {"aegaeon_qos", "Aegaeon's time ratio, %", 100},
    {"requests", "requests", 1},
    {"completed", "completed", 1},
    {"failed", "failed", 1},
    {"request_rate", "offered, requests/s", 1},
    {"request_throughput", "answered, requests/s", 1},
    {"output_throughput", "tokens/s", 1},
    {"median_ttft_scheduled_ms", "TTFT from schedule, median ms", 1},
    {"p99_ttft_scheduled_ms", "TTFT from schedule, p99 ms", 1},
    {"median_ttft_ms", "TTFT from send, median ms", 1},
    {"p99_ttft_ms", "TTFT from send, p99 ms", 1},
    {"median_tpot_ms", "TPOT, median ms", 1},
    {"median_itl_ms", "ITL (TBT), median ms", 1},
    {"p99_itl_ms", "ITL (TBT), p99 ms", 1},
    {"median_e2el_scheduled_ms", "E2E from schedule, median ms", 1},
    {"p99_dispatch_delay_ms", "dispatch delay, p99 ms", 1},
};
enum { N_ROWS = sizeof g_rows / sizeof *g_rows };

static void summary(struct page *p)
{
    const char *head[MAX_RESULTS + 1] = {""};
    char text[N_ROWS][MAX_RESULTS][CELL];
    const char *cells[N_ROWS * (MAX_RESULTS + 1)];
    uint32_t columns = p->n + 1;
    for (uint32_t i = 0; i < p->n; i++)
        head[i + 1] = p->names[i];
    for (uint32_t r = 0; r < N_ROWS; r++) {
        cells[r * columns] = g_rows[r].name;
        for (uint32_t i = 0; i < p->n; i++) {
            double value = number(p->results[i], g_rows[r].key) * g_rows[r].scale;
            snprintf(text[r][i], CELL, value == floor(value) ? "%.0f" : "%.2f", value);
            cells[r * columns + i + 1] = isfinite(value) ? text[r][i] : NULL;
        }
    }
    br_report_table(&p->out, &(struct br_report_table){columns, N_ROWS, head, cells});
}

static void warnings(struct page *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const char *why = json_string_value(json_object_get(p->results[i], "invalid_reason"));
        const char *note = json_string_value(json_object_get(p->results[i], "note"));
        char text[512];
        snprintf(text, sizeof text, "%s%s%s%s%s", p->names[i], why ? " is INVALID: " : "", why ? why : "",
                 note ? ". Note: " : "", note ? note : "");
        if (why || note)
            br_report_text(&p->out, text);
    }
}

/* A list of numbers; missing ones are NaN. */
static double *list_of(const json_t *object, const char *key, uint32_t n)
{
    const json_t *list = json_object_get(object, key);
    double *out = br_malloc((n + 1) * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(list, i);
        out[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
    return out;
}

static uint32_t length_of(const json_t *object, const char *key)
{
    size_t n = json_array_size(json_object_get(object, key));
    return n < 100000 ? (uint32_t)n : 100000;
}

/* Some lines of one result over time. */
static void over_time(struct page *p, uint32_t i, const char *title, const char *unit, const char *const *keys,
                      const char *const *names, uint32_t n, bool log_y)
{
    const json_t *series = json_object_get(p->results[i], "series");
    uint32_t points = length_of(series, "t_s");
    double *x = list_of(series, "t_s", points), *y[4];
    struct br_report_series lines[4];
    char heading[160];
    snprintf(heading, sizeof heading, "%s%s%s", title, p->n > 1 ? ", " : "", p->n > 1 ? p->names[i] : "");
    for (uint32_t k = 0; k < n; k++) {
        y[k] = list_of(series, keys[k], points);
        lines[k] = (struct br_report_series){names[k], y[k], BR_REPORT_LINE};
    }
    if (points)
        br_report_chart(&p->out, &(struct br_report_chart){.title = heading,
                                                           .x_label = "s",
                                                           .y_label = unit,
                                                           .n = points,
                                                           .n_series = n,
                                                           .x = x,
                                                           .series = lines,
                                                           .log_y = log_y,
                                                           .from_zero = !log_y});
    for (uint32_t k = 0; k < n; k++)
        free(y[k]);
    free(x);
}

/* A chart has one x for all its series: the latencies of all results together; each result's share at each. */
static double share_at(const double *ms, const double *share, uint32_t n, double at)
{
    uint32_t low = 0, high = n; /* the first above `at` */
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (ms[mid] <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low ? share[low - 1] : 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void cdf(struct page *p, const char *key, const char *title)
{
    struct br_report_series lines[MAX_RESULTS];
    double *ms[MAX_RESULTS], *share[MAX_RESULTS], *y[MAX_RESULTS], *x = NULL;
    uint32_t n[MAX_RESULTS], points = 0, distinct = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const json_t *c = json_object_get(p->results[i], "cdf");
        n[i] = length_of(c, "share");
        ms[i] = list_of(c, key, n[i]);
        share[i] = list_of(c, "share", n[i]);
        n[i] = n[i] && isfinite(ms[i][0]) ? n[i] : 0;
        x = br_realloc(x, (points + n[i] + 1) * sizeof *x);
        memcpy(x + points, ms[i], n[i] * sizeof *x);
        points += n[i];
    }
    qsort(x, points, sizeof *x, ascending);
    for (uint32_t k = 0; k < points; k++)
        if (isfinite(x[k]) && (!distinct || x[k] > x[distinct - 1]))
            x[distinct++] = x[k];
    for (uint32_t i = 0; i < p->n; i++) {
        y[i] = br_malloc((distinct + 1) * sizeof *y[i]);
        for (uint32_t k = 0; k < distinct; k++)
            y[i][k] = share_at(ms[i], share[i], n[i], x[k]);
        lines[i] = (struct br_report_series){p->names[i], y[i], BR_REPORT_STEPS};
    }
    if (distinct > 1)
        br_report_chart(&p->out, &(struct br_report_chart){.title = title,
                                                           .x_label = "ms",
                                                           .y_label = "share",
                                                           .n = distinct,
                                                           .n_series = p->n,
                                                           .x = x,
                                                           .series = lines,
                                                           .log_x = true,
                                                           .from_zero = true});
    for (uint32_t i = 0; i < p->n; i++) {
        free(ms[i]);
        free(share[i]);
        free(y[i]);
    }
    free(x);
}

static void by_model(struct page *p, uint32_t i)
{
    const json_t *models = json_object_get(p->results[i], "models");
    size_t n = json_array_size(models);
    struct br_report_bar *bars = br_calloc(n + 1, sizeof *bars);
    char heading[160];
    for (size_t k = 0; k < n; k++) {
        const char *name = json_string_value(json_object_get(json_array_get(models, k), "model"));
        bars[k].name = name ? name : "?";
        bars[k].value = 100 * number(json_array_get(models, k), "attainment");
    }
    snprintf(heading, sizeof heading, "Tokens on time by model%s%s", p->n > 1 ? ", " : "", p->n > 1 ? p->names[i] : "");
    if (n)
        br_report_bars(&p->out, heading, "%", bars, (uint32_t)n);
    free(bars);
}

static void errors(struct page *p, uint32_t i)
{
    static const char *const head[] = {"outcome", "requests", "first message"};
    json_t *kinds = json_object_get(p->results[i], "outcomes");
    const json_t *first = json_object_get(p->results[i], "first_errors");
    const char *key, *cells[3 * LOAD_OUTCOMES];
    char counts[LOAD_OUTCOMES][CELL];
    json_t *value;
    uint32_t n = 0;
    json_object_foreach(kinds, key, value)
    {
        if (n == LOAD_OUTCOMES)
            break;
        snprintf(counts[n], CELL, "%lld", (long long)json_integer_value(value));
        cells[3 * n] = key;
        cells[3 * n + 1] = counts[n];
        cells[3 * n + 2] = json_string_value(json_object_get(first, key));
        n++;
    }
    if (p->n > 1)
        br_report_text(&p->out, p->names[i]);
    br_report_table(&p->out, &(struct br_report_table){3, n, head, cells});
}

static void charts(struct page *p)
{
    static const char *const ttft[] = {"ttft_p50_ms", "ttft_p99_ms"}, *const itl[] = {"itl_p50_ms", "itl_p99_ms"},
                             *const rate[] = {"tokens_per_s"}, *const names[] = {"median", "p99"},
                             *const tokens[] = {"tokens/s"};
    br_report_heading(&p->out, "Over time");
    for (uint32_t i = 0; i < p->n; i++) {
        over_time(p, i, "TTFT by scheduled send", "ms", ttft, names, 2, true);
        over_time(p, i, "Time between tokens", "ms", itl, names, 2, true);
        over_time(p, i, "Tokens per second", "tokens/s", rate, tokens, 1, false);
    }
    br_report_heading(&p->out, "Distributions");
    cdf(p, "ttft_scheduled_ms", "TTFT from the scheduled send");
    cdf(p, "itl_ms", "Time between tokens");
    cdf(p, "e2el_scheduled_ms", "End to end from the scheduled send");
    cdf(p, "dispatch_delay_ms", "Dispatch delay of the generator");
}

int load_page_write(const char *path, json_t *const *results, uint32_t n, struct br_err *err)
{
    struct page p = {.results = results, .n = n};
    FILE *f;
    int bad;
    if (n == 0 || n > MAX_RESULTS)
        return br_err_set(err, BR_EINVAL, "a page compares 1 to %d results, not %u", MAX_RESULTS, n);
    name_results(&p);
    br_report_begin(&p.out, n > 1 ? "Load: results compared" : "Load", "Open loop; times from the scheduled send.");
    warnings(&p);
    summary(&p);
    br_report_heading(&p.out, "Attainment");
    for (uint32_t i = 0; i < n; i++)
        by_model(&p, i);
    charts(&p);
    br_report_heading(&p.out, "What came of the requests");
    for (uint32_t i = 0; i < n; i++)
        errors(&p, i);
    br_report_end(&p.out);
    f = fopen(path, "w");
    bad = !f || fwrite(p.out.data, 1, p.out.len, f) != p.out.len;
    bad |= f && fclose(f);
    br_buf_free(&p.out);
    return bad ? br_err_errno(err, BR_EIO, "cannot write %s", path) : 0;
}
