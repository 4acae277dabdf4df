#include "cli/plan/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/plan_options.h"
#include "report/html.h"

enum { MAX_BARS = PLAN_MAX_POLICIES * PLAN_MAX_GPUS };

double plan_json_get(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *plan_json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

void plan_cell(struct plan_cells *cells, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (cells->n == cells->cap) {
        cells->cap = cells->cap ? 2 * cells->cap : 64;
        cells->cells = br_realloc(cells->cells, cells->cap * sizeof *cells->cells);
    }
    cells->cells[cells->n++] = br_strdup(text);
}

void plan_cells_table(struct plan_cells *cells, const char *const *head, uint32_t n_columns, struct br_buf *out)
{
    struct br_report_table table = {n_columns, cells->n / n_columns, head, (const char *const *)cells->cells};
    br_report_table(out, &table);
    for (uint32_t i = 0; i < cells->n; i++)
        free(cells->cells[i]);
    free(cells->cells);
    *cells = (struct plan_cells){0};
}

static void name_of(const json_t *result, char *text, size_t size)
{
    snprintf(text, size, "%s, %s", plan_json_text(result, "policy"), plan_json_text(result, "gpu"));
}

/* One bar a result. value and label are by the caller. */
struct bars {
    struct br_report_bar list[MAX_BARS];
    char names[MAX_BARS][160], labels[MAX_BARS][160];
    uint32_t n;
};

static void bar_add(struct bars *b, const json_t *result, struct br_report_bar bar)
{
    if (b->n == MAX_BARS)
        return;
    name_of(result, b->names[b->n], sizeof b->names[0]);
    bar.name = b->names[b->n];
    bar.label = b->labels[b->n];
    b->list[b->n++] = bar;
}

static void need_label(const json_t *r, char *label, size_t size)
{
    double gpus = plan_json_get(r, "gpus"), fewer = plan_json_get(r, "reduction_vs_dedicated");
    if (!isfinite(gpus))
        snprintf(label, size, "holds at no count");
    else if (isfinite(fewer) && fewer != 0)
        snprintf(label, size, "%.0f (%+.1f %%)", gpus, -100 * fewer);
    else
        snprintf(label, size, "%.0f", gpus);
}

static void needs_on(const json_t *results, const char *gpu, struct br_buf *out)
{
    struct bars *b = br_calloc(1, sizeof *b);
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r)
    {
        const json_t *ci = json_object_get(r, "gpus_ci95");
        struct br_report_bar bar = {.value = plan_json_get(r, "gpus")};
        if (b->n == MAX_BARS || strcmp(plan_json_text(r, "gpu"), gpu) != 0)
            continue;
        if (json_is_array(ci)) {
            bar.low = json_number_value(json_array_get(ci, 0));
            bar.high = json_number_value(json_array_get(ci, 1));
        }
        need_label(r, b->labels[b->n], sizeof b->labels[0]);
        bar_add(b, r, bar);
    }
    br_report_bars(out, gpu, "GPUs; in brackets: against dedicated replicas", b->list, b->n);
    free(b);
}

static void needs(const json_t *results, double n_seeds, struct br_buf *out)
{
    char text[400];
    size_t i, k;
    json_t *r;
    br_report_heading(out, "GPUs by policy");
    json_array_foreach((json_t *)results, i, r)
    {
        const char *gpu = plan_json_text(r, "gpu");
        for (k = 0; k < i && strcmp(plan_json_text(json_array_get(results, k), "gpu"), gpu) != 0; k++)
            ;
        if (k == i)
            needs_on(results, gpu, out);
    }
    if (n_seeds < PLAN_MIN_INTERVAL)
        snprintf(text, sizeof text,
                 "Bar: the fewest that hold the target with every seed, redundancy included. There is no interval from "
                 "%.0f seed%s.",
                 n_seeds, n_seeds == 1 ? "" : "s");
    else
        snprintf(text, sizeof text,
                 "Bar: the fewest that hold the target with every seed, redundancy included. Thin mark: 95 %% interval "
                 "of the mean need of one seed without redundancy (Student's t over %.0f seeds).",
                 n_seeds);
    br_report_text(out, text);
}

static void need_row(const json_t *r, struct plan_cells *c)
{
    const json_t *ci = json_object_get(r, "gpus_ci95");
    plan_cell(c, "%s", plan_json_text(r, "policy"));
    plan_cell(c, "%s", plan_json_text(r, "gpu"));
    if (json_is_null(json_object_get(r, "gpus"))) {
        plan_cell(c, "holds at no count");
        for (int i = 0; i < 7; i++)
            plan_cell(c, "-");
        return;
    }
    plan_cell(c, "%.0f", plan_json_get(r, "gpus"));
    if (json_is_array(ci))
        plan_cell(c, "%.1f-%.1f", json_number_value(json_array_get(ci, 0)), json_number_value(json_array_get(ci, 1)));
    else
        plan_cell(c, "-");
    plan_cell(c, "%.1f", 100 * plan_json_get(r, "reduction_vs_dedicated"));
    plan_cell(c, "%.2f", 100 * plan_json_get(r, "attainment"));
    plan_cell(c, "%.2f", plan_json_get(r, "ttft_p50_s"));
    plan_cell(c, "%.2f", plan_json_get(r, "ttft_p99_s"));
    plan_cell(c, "%.0f", 1e3 * plan_json_get(r, "tbt_p99_s"));
    plan_cell(c, "%.1f", plan_json_get(r, "fluid_bound_gpus"));
}

static void need_table(const json_t *results, struct br_buf *out)
{
    static const char *const head[] = {"policy",     "GPU",         "GPUs",   "95 %",        "fewer, %",
                                       "on time, %", "TTFT p50, s", "p99, s", "TBT p99, ms", "bound"};
    struct plan_cells cells = {0};
    char text[512];
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r) need_row(r, &cells);
    plan_cells_table(&cells, head, sizeof head / sizeof *head, out);
    br_report_text(out, "bound: GPUs that would be busy with ideal batches and without switches.");
    json_array_foreach((json_t *)results, i, r)
    {
        snprintf(text, sizeof text, "%s on %s: %s", plan_json_text(r, "policy"), plan_json_text(r, "gpu"),
                 plan_json_text(r, "why"));
        if (*plan_json_text(r, "why"))
            br_report_text(out, text);
    }
}

static void host(const json_t *results, const json_t *workload, struct br_buf *out)
{
    struct bars *b = br_calloc(1, sizeof *b);
    double limit = plan_json_get(workload, "host_bytes_per_node") / 1e12;
    char text[300];
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r)
    {
        double tb = plan_json_get(r, "host_bytes_per_node") / 1e12;
        snprintf(b->labels[b->n < MAX_BARS ? b->n : 0], sizeof b->labels[0], "%.2f of %.2f%s", tb, limit,
                 tb > limit ? ", too much" : "");
        if (!json_is_null(json_object_get(r, "gpus")))
            bar_add(b, r, (struct br_report_bar){.value = tb});
    }
    br_report_heading(out, "Host memory");
    br_report_bars(out, "Most on any node: a copy of each model that its devices may need, and KV", "TB", b->list,
                   b->n);
    r = json_array_get(results, 0);
    snprintf(text, sizeof text, "One copy of every model is %.2f TB on disk; %.0f GPUs come with the memory for it.",
             plan_json_get(r, "disk_bytes") / 1e12, plan_json_get(r, "host_floor_gpus"));
    br_report_text(out, text);
    free(b);
}

static void money_table(const json_t *list, const char *title, const char *const *keys, uint32_t n, struct br_buf *out)
{
    struct plan_cells cells = {0};
    size_t i;
    json_t *row;
    if (json_array_size(list) == 0)
        return;
    json_array_foreach((json_t *)list, i, row) for (uint32_t k = 0; k < n; k++)
    {
        if (json_is_string(json_object_get(row, keys[k])))
            plan_cell(&cells, "%s", plan_json_text(row, keys[k]));
        else
            plan_cell(&cells, "%.2f", plan_json_get(row, keys[k]));
    }
    br_report_text(out, title);
    plan_cells_table(&cells, keys, n, out);
}

static void cost(const json_t *root, const json_t *results, struct br_buf *out)
{
    static const char *const mix[] = {
        "gpu", "policy", "reserved_gpus", "cost_per_hour", "all_on_demand_per_hour", "all_reserved_per_hour"};
    static const char *const tco[] = {"gpu",       "gpus",  "serve_per_month",           "train_per_month",
                                      "per_month", "total", "per_month_if_it_trains_too"};
    struct bars *b = br_calloc(1, sizeof *b);
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r)
    {
        double usd = plan_json_get(r, "cost_per_hour");
        snprintf(b->labels[b->n < MAX_BARS ? b->n : 0], sizeof b->labels[0], "%.2f", usd);
        if (!json_is_null(json_object_get(r, "gpus")))
            bar_add(b, r, (struct br_report_bar){.value = usd});
    }
    br_report_heading(out, "Cost");
    br_report_bars(out, "GPUs at on-demand prices", "$/h", b->list, b->n);
    money_table(json_object_get(root, "mix"), "Reserved and on-demand GPUs over the load curve, $/h:", mix, 6, out);
    money_table(json_object_get(root, "tco"), "With the training fleet, $:", tco, 7, out);
    br_report_text(out, "Prices are placeholders unless they were given with --prices.");
    free(b);
}

/* --max: what a fleet holds. */
static void most(const json_t *results, struct br_buf *out)
{
    bool rate = json_object_get(json_array_get(results, 0), "rate_99") != NULL;
    const char *keys[2] = {rate ? "rate_90" : "models_90", rate ? "rate_99" : "models_99"};
    static const char *const titles[] = {"at 90 % of tokens on time", "at 99 % of tokens on time"};
    for (int t = 0; t < 2; t++) {
        struct bars *b = br_calloc(1, sizeof *b);
        size_t i;
        json_t *r;
        json_array_foreach((json_t *)results, i, r)
        {
            snprintf(b->labels[b->n < MAX_BARS ? b->n : 0], sizeof b->labels[0], "%.4g on %.0f GPUs",
                     plan_json_get(r, keys[t]), plan_json_get(r, "gpus"));
            bar_add(b, r, (struct br_report_bar){.value = plan_json_get(r, keys[t])});
        }
        br_report_bars(out, titles[t], rate ? "requests/s" : "models", b->list, b->n);
        free(b);
    }
}

static void caveats(struct br_buf *out)
{
    br_report_heading(out, "What these figures say, and what they do not");
    br_report_text(out,
                   "With these models, this traffic and these costs, so many GPUs have the target share of all tokens "
                   "on time: the scheduler's own policies, run on a virtual clock. Requests that arrive near the "
                   "span's ends do not count; a need is the largest of the seeds', so another day may need more.");
    br_report_text(out,
                   "Steps take what the cost model predicts (docs/measured/costs.md says how well), so its errors are "
                   "errors here; tensor-parallel groups, 4-bit weights and 8-bit KV are predicted by formulas. Loads "
                   "run at what large copies from pinned memory reach. Nothing fails during a run, no time is lost "
                   "between processes, prompts share no prefixes.");
}

void plan_html(const json_t *root, const struct plan_ask *ask, const struct plan_timeline *timeline, struct br_buf *out)
{
    const json_t *workload = json_object_get(root, "workload"), *targets = json_object_get(root, "targets");
    const json_t *results = json_object_get(root, "results");
    bool need = json_object_get(json_array_get(results, 0), "need_by_seed") != NULL;
    const char *stands_for = plan_json_text(workload, "stands_for");
    br_report_begin(out, need ? "How many GPUs" : "What these GPUs hold", *stands_for ? stands_for : NULL);
    if (need) {
        needs(results, plan_json_get(workload, "seeds"), out);
        need_table(results, out);
        plan_html_curves(results, plan_json_get(targets, "attainment"), out);
        plan_html_time(results, out);
        if (timeline)
            plan_html_node(ask, timeline, out);
        host(results, workload, out);
        cost(root, results, out);
    } else {
        most(results, out);
    }
    plan_html_inputs(workload, targets, out);
    caveats(out);
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    br_report_details(out, "All of it as JSON", text);
    free(text);
    br_report_end(out);
}
