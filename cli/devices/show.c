/* What was found, for people: a table, a page. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/devices/find.h"
#include "report/html.h"

enum { MAX_POLICIES = BR_REPORT_SERIES, MAX_DEVICES = 65, CELL = 32, COLUMNS = 8 };

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *cell(char out[CELL], const json_t *object, const char *key, int digits, double factor)
{
    double value = number(object, key);
    if (isfinite(value))
        snprintf(out, CELL, "%.*f", digits, factor * value);
    else
        snprintf(out, CELL, "-");
    return out;
}

void devices_table(const json_t *found, FILE *out)
{
    size_t i;
    const json_t *p;
    fprintf(out, "\nFewest devices with %.4g %% of tokens on time\n%-10s %8s %8s %12s %14s %14s\n",
            100 * number(found, "target"), "policy", "devices", "plan", "on time, %", "TTFT p50, ms", "TTFT p99, ms");
    json_array_foreach(json_object_get(found, "policies"), i, p)
    {
        char text[5][CELL];
        fprintf(out, "%-10s %8s %8s %12s %14s %14s\n", json_string_value(json_object_get(p, "policy")),
                cell(text[0], p, "devices", 0, 1), cell(text[1], p, "plan_devices", 0, 1),
                cell(text[2], p, "attainment", 2, 100), cell(text[3], p, "median_ttft_scheduled_ms", 1, 1),
                cell(text[4], p, "p99_ttft_scheduled_ms", 1, 1));
    }
}

static void bars(struct br_buf *page, const json_t *policies, const char *key, const char *title)
{
    struct br_report_bar all[MAX_POLICIES] = {0};
    uint32_t n = 0;
    size_t i;
    const json_t *p;
    json_array_foreach(policies, i, p)
    {
        if (n < MAX_POLICIES)
            all[n++] = (struct br_report_bar){.name = json_string_value(json_object_get(p, "policy")),
                                              .value = number(p, key)};
    }
    br_report_bars(page, title, "devices", all, n);
}

/* y of a policy's runs by devices; gaps where there was none. */
static void series_fill(const json_t *trials, double *y)
{
    size_t i;
    const json_t *t;
    for (int k = 0; k < MAX_DEVICES; k++)
        y[k] = NAN;
    json_array_foreach(trials, i, t)
    {
        json_int_t n = json_integer_value(json_object_get(t, "devices"));
        if (n >= 0 && n < MAX_DEVICES)
            y[n] = 100 * number(t, "attainment");
    }
}

/* Where the chart ends: one beyond the most devices of any run. */
static uint32_t most_devices(const json_t *policies)
{
    json_int_t most = 0;
    size_t i, k;
    const json_t *p, *t;
    json_array_foreach(policies, i, p)
    {
        json_array_foreach(json_object_get(p, "trials"), k, t)
        {
            json_int_t n = json_integer_value(json_object_get(t, "devices"));
            most = n > most && n < MAX_DEVICES - 1 ? n : most;
        }
    }
    return (uint32_t)most + 1;
}

static void chart(struct br_buf *page, const json_t *policies)
{
    struct br_report_series lines[MAX_POLICIES];
    double x[MAX_DEVICES], (*y)[MAX_DEVICES] = br_calloc(MAX_POLICIES, sizeof *y);
    uint32_t n = 0;
    size_t i;
    const json_t *p;
    for (int k = 0; k < MAX_DEVICES; k++)
        x[k] = k;
    json_array_foreach(policies, i, p)
    {
        if (n == MAX_POLICIES)
            break;
        series_fill(json_object_get(p, "trials"), y[n]);
        lines[n] = (struct br_report_series){json_string_value(json_object_get(p, "policy")), y[n], BR_REPORT_POINTS};
        n++;
    }
    br_report_chart(page, &(struct br_report_chart){.title = "Tokens on time by devices, every run",
                                                    .x_label = "devices",
                                                    .y_label = "%",
                                                    .n = most_devices(policies) + 1,
                                                    .n_series = n,
                                                    .x = x,
                                                    .series = lines});
    free(y);
}

static void runs(struct br_buf *page, const json_t *policy)
{
    static const char *const head[COLUMNS] = {"devices", "on time, %", "plan, %",      "requests",
                                              "failed",  "stopped",    "TTFT p50, ms", "TTFT p99, ms"};
    const json_t *trials = json_object_get(policy, "trials"), *t;
    size_t n = json_array_size(trials), i;
    char(*text)[COLUMNS][CELL] = br_calloc(n + 1, sizeof *text);
    const char **cells = br_calloc(n * COLUMNS + 1, sizeof *cells);
    json_array_foreach(trials, i, t)
    {
        const char **c = cells + i * COLUMNS;
        c[0] = cell(text[i][0], t, "devices", 0, 1);
        c[1] = cell(text[i][1], t, "attainment", 2, 100);
        c[2] = cell(text[i][2], t, "plan_attainment", 2, 100);
        c[3] = cell(text[i][3], t, "requests", 0, 1);
        c[4] = cell(text[i][4], t, "failed", 0, 1);
        c[5] = json_is_true(json_object_get(t, "stopped_early")) ? "early" : "";
        c[6] = cell(text[i][6], t, "median_ttft_scheduled_ms", 1, 1);
        c[7] = cell(text[i][7], t, "p99_ttft_scheduled_ms", 1, 1);
    }
    br_report_heading(page, json_string_value(json_object_get(policy, "policy")));
    br_report_table(page, &(struct br_report_table){COLUMNS, (uint32_t)n, head, cells});
    free(cells);
    free(text);
}

int devices_page(const json_t *found, const char *path, struct br_err *err)
{
    const json_t *policies = json_object_get(found, "policies"), *p;
    struct br_buf page = {0};
    char lead[160];
    size_t i;
    snprintf(lead, sizeof lead, "Fewest devices with %.4g %% of tokens on time, measured on running servers.",
             100 * number(found, "target"));
    br_report_begin(&page, "Devices by policy", lead);
    bars(&page, policies, "devices", "Measured");
    bars(&page, policies, "plan_devices", "As briareus plan says");
    chart(&page, policies);
    json_array_foreach(policies, i, p) runs(&page, p);
    char *raw = json_dumps(found, JSON_INDENT(1));
    br_report_details(&page, "JSON", raw);
    free(raw);
    br_report_end(&page);
    FILE *f = fopen(path, "w");
    int bad = !f || fwrite(page.data, 1, page.len, f) != page.len;
    bad |= f && fclose(f);
    br_buf_free(&page);
    return bad ? br_err_errno(err, BR_EIO, "cannot write %s", path) : 0;
}
