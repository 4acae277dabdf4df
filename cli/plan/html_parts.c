/* The parts of a plan's page that have more to draw: curves, shares of time, a node's timeline, the inputs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plan/html.h"
#include "report/html.h"
#include "report/lanes.h"

enum { MAX_LANES = PLAN_MAX_POLICIES * PLAN_MAX_GPUS, MAX_X = BR_REPORT_SERIES * PLAN_MAX_CURVE };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double point(const json_t *curve, size_t i, const char *key)
{
    return plan_json_get(json_array_get(curve, i), key);
}

/* The straight line between a curve's neighbouring points, so that all series have the same x; a gap outside. */
static double between(const json_t *curve, double gpus)
{
    for (size_t i = 0; i < json_array_size(curve); i++) {
        double x = point(curve, i, "gpus"), y = 100 * point(curve, i, "attainment");
        if (x == gpus)
            return y;
        if (i > 0 && x > gpus && point(curve, i - 1, "gpus") < gpus) {
            double x0 = point(curve, i - 1, "gpus"), y0 = 100 * point(curve, i - 1, "attainment");
            return y0 + (y - y0) * (gpus - x0) / (x - x0);
        }
    }
    return NAN;
}

static uint32_t xs_of(const json_t *const *curves, uint32_t n_curves, double *xs)
{
    uint32_t n = 0, kept = 0;
    for (uint32_t c = 0; c < n_curves; c++)
        for (size_t i = 0; i < json_array_size(curves[c]) && n < MAX_X; i++)
            xs[n++] = point(curves[c], i, "gpus");
    qsort(xs, n, sizeof *xs, by_value);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || xs[i] > xs[kept - 1])
            xs[kept++] = xs[i];
    return kept;
}

void plan_html_curves(const json_t *results, double target, struct br_buf *out)
{
    const json_t *curves[BR_REPORT_SERIES];
    struct br_report_series series[BR_REPORT_SERIES];
    char names[BR_REPORT_SERIES][160], title[80];
    double xs[MAX_X], (*ys)[MAX_X] = br_calloc(BR_REPORT_SERIES, sizeof *ys);
    uint32_t n = 0;
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r)
    {
        if (json_array_size(json_object_get(r, "curve")) < 2 || n == BR_REPORT_SERIES)
            continue;
        snprintf(names[n], sizeof names[n], "%s, %s", plan_json_text(r, "policy"), plan_json_text(r, "gpu"));
        curves[n++] = json_object_get(r, "curve");
    }
    uint32_t n_x = xs_of(curves, n, xs);
    for (uint32_t s = 0; s < n; s++) {
        for (uint32_t k = 0; k < n_x; k++)
            ys[s][k] = between(curves[s], xs[k]);
        series[s] = (struct br_report_series){names[s], ys[s], BR_REPORT_LINE};
    }
    snprintf(title, sizeof title, "Tokens on time by GPUs, first seed; the target is %.4g %%", 100 * target);
    if (n > 0) {
        br_report_heading(out, "Attainment against GPUs");
        br_report_chart(out, &(struct br_report_chart){title, "GPUs, without redundant ones", "% of tokens on time",
                                                       n_x, n, xs, series, false, false, false});
        br_report_text(out, "Each pool has so much more or less of its own need, rounded, down to one device.");
    }
    free(ys);
}

static const char *const g_parts[] = {"decode", "prefill", "switch", "stalled", "idle"};
enum { N_PARTS = sizeof g_parts / sizeof *g_parts };

static void time_row(const json_t *r, struct plan_cells *c)
{
    const json_t *time = json_object_get(r, "time");
    plan_cell(c, "%s, %s", plan_json_text(r, "policy"), plan_json_text(r, "gpu"));
    for (int p = 0; p < N_PARTS; p++)
        plan_cell(c, "%.1f", 100 * plan_json_get(time, g_parts[p]));
    plan_cell(c, "%.1f", 100 * plan_json_get(r, "compute_busy"));
    plan_cell(c, "%.1f", 100 * plan_json_get(r, "link_busy"));
    plan_cell(c, "%.3f", plan_json_get(r, "switches_per_gpu_s"));
}

void plan_html_time(const json_t *results, struct br_buf *out)
{
    static const char *const head[] = {
        "% of devices' time", "decode", "prefill", "switch", "stalled", "idle", "compute", "link", "switches/s"};
    struct br_report_lane lanes[MAX_LANES];
    struct br_report_segment segments[MAX_LANES][N_PARTS];
    struct plan_cells cells = {0};
    char names[MAX_LANES][160];
    uint32_t n = 0;
    size_t i;
    json_t *r;
    json_array_foreach((json_t *)results, i, r)
    {
        double at = 0;
        if (json_is_null(json_object_get(r, "gpus")) || n == MAX_LANES)
            continue;
        for (uint32_t p = 0; p < N_PARTS; p++) {
            double share = 100 * plan_json_get(json_object_get(r, "time"), g_parts[p]);
            segments[n][p] = (struct br_report_segment){at, at + share, p};
            at += share;
        }
        snprintf(names[n], sizeof names[n], "%s, %s", plan_json_text(r, "policy"), plan_json_text(r, "gpu"));
        lanes[n] = (struct br_report_lane){names[n], segments[n], N_PARTS};
        n++;
        time_row(r, &cells);
    }
    br_report_heading(out, "Where the time goes");
    br_report_lanes(out, &(struct br_report_lanes){"Devices' time", "%", 0, 100, lanes, g_parts, n, N_PARTS - 1});
    br_report_text(out, "Not coloured: idle. prefill: steps with prompt rows, the wait for weights that come in "
                        "meanwhile included; stalled: "
                        "sequences are there and none can run. The link works beside the steps.");
    plan_cells_table(&cells, head, sizeof head / sizeof *head, out);
}

/* Neighbouring steps of a model are one spell. */
static const double GAP_S = .05;

struct node {
    const struct plan_timeline *t;
    struct br_report_segment *segments; /* of all lanes, lane after lane */
    struct br_report_lane *lanes;       /* two a device: steps, link */
    char (*names)[64];
    uint32_t n_segments, n_lanes;
    uint32_t *order; /* [models of the ask]: index among the names shown; UINT32_MAX: not seen */
};

static void lane_fill(struct node *n, uint32_t device, bool link)
{
    struct br_report_segment *last = NULL;
    struct br_report_lane *lane = &n->lanes[n->n_lanes];
    snprintf(n->names[n->n_lanes], sizeof n->names[0], link ? "link" : "device %u", device);
    *lane = (struct br_report_lane){.name = n->names[n->n_lanes++], .segments = &n->segments[n->n_segments]};
    for (uint32_t i = 0; i < n->t->n_spans; i++) {
        const struct plan_span *s = &n->t->spans[i];
        bool moves = s->kind == PLAN_SPAN_LOAD || s->kind == PLAN_SPAN_SWAP;
        if (s->device != device || (link ? !moves : s->kind != PLAN_SPAN_STEP))
            continue;
        if (last && last->what == n->order[s->model] && s->from_s < last->to + GAP_S) {
            last->to = s->to_s;
            continue;
        }
        last = &n->segments[n->n_segments++];
        *last = (struct br_report_segment){s->from_s, s->to_s, n->order[s->model]};
        lane->n++;
    }
}

/* Models that step or load on the node, in order of their first time. */
static uint32_t models_seen(const struct plan_ask *ask, const struct plan_timeline *t, uint32_t devices,
                            uint32_t *order, const char **names)
{
    uint32_t n = 0;
    for (uint32_t m = 0; m < ask->n_models; m++)
        order[m] = UINT32_MAX;
    for (uint32_t i = 0; i < t->n_spans; i++) {
        const struct plan_span *s = &t->spans[i];
        if (s->device >= devices || order[s->model] != UINT32_MAX)
            continue;
        order[s->model] = n;
        names[n++] = ask->models[s->model].name;
    }
    return n;
}

void plan_html_node(const struct plan_ask *ask, const struct plan_timeline *t, struct br_buf *out)
{
    uint32_t devices = ask->node_gpus / t->kind.tp;
    char title[240];
    devices = devices < t->n_devices ? devices : t->n_devices;
    const char **names = br_calloc(ask->n_models + 1, sizeof *names);
    struct node n = {.t = t,
                     .segments = br_calloc(t->n_spans + 1, sizeof *n.segments),
                     .lanes = br_calloc(2 * devices + 1, sizeof *n.lanes),
                     .names = br_calloc(2 * devices + 1, sizeof *n.names),
                     .order = br_calloc(ask->n_models, sizeof *n.order)};
    uint32_t n_names = models_seen(ask, t, devices, n.order, names);
    for (uint32_t d = 0; d < devices; d++) {
        lane_fill(&n, d, false);
        lane_fill(&n, d, true);
    }
    br_report_heading(out, "One node");
    snprintf(title, sizeof title,
             "%s: %u of a pool's %u devices (%u x %s each), %.0f seconds: whose steps, whose loads", t->policy, devices,
             t->n_devices, t->kind.tp, t->kind.gpu->name, t->to_s - t->from_s);
    br_report_lanes(out, &(struct br_report_lanes){title, "s", t->from_s, t->to_s, n.lanes, names, n.n_lanes, n_names});
    br_report_text(out,
                   "Gaps of less than 50 ms between steps of one model are not drawn. --trace FILE has every step.");
    free(n.segments);
    free(n.lanes);
    free(n.names);
    free(n.order);
    free(names);
}

static bool alike(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"base", "weights", "kv", "ttft_s", "tbt_s"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(a, keys[i]), json_object_get(b, keys[i])))
            return false;
    return true;
}

/* Models of the same size and SLO, wherever they stand in the list, are one row at the first one's place. */
static void model_row(const json_t *models, size_t first, struct plan_cells *c)
{
    const json_t *one = json_array_get(models, first);
    double rate = 0, most = 0, least = INFINITY;
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(models); i++) {
        const json_t *m = json_array_get(models, i);
        if (!alike(one, m))
            continue;
        if (i < first)
            return;
        double its = plan_json_get(m, "rate");
        rate += its;
        most = fmax(most, its);
        least = fmin(least, its);
        n++;
    }
    plan_cell(c, "%s, %s, KV %s", plan_json_text(one, "base"), plan_json_text(one, "weights"),
              plan_json_text(one, "kv"));
    plan_cell(c, "%u", n);
    plan_cell(c, "%.1f", plan_json_get(one, "weights_bytes") / 1e9);
    plan_cell(c, "%.3g (%.3g-%.3g)", rate, least, most);
    plan_cell(c, "%g / %g", plan_json_get(one, "ttft_s"), 1e3 * plan_json_get(one, "tbt_s"));
}

void plan_html_inputs(const json_t *workload, const json_t *targets, struct br_buf *out)
{
    static const char *const head[] = {"models", "how many", "GB each", "requests/s (least-most)", "TTFT s / TBT ms"};
    const json_t *models = json_object_get(workload, "models");
    struct plan_cells cells = {0};
    char text[400];
    double requests = plan_json_get(workload, "requests");
    br_report_heading(out, "What was asked");
    snprintf(text, sizeof text,
             "%zu models, %.3g requests/s in all, %.0f tokens out a request; %.0f s simulated, %.0f s at both ends not "
             "counted; %.0f seed%s from %.0f on; %.4g %% of tokens on time, N+%.0f; nodes of %.0f GPUs with %.2f TB.",
             json_array_size(models), plan_json_get(workload, "rate"),
             requests > 0 ? plan_json_get(workload, "tokens") / requests : 0, plan_json_get(workload, "horizon_s"),
             plan_json_get(workload, "margin_s"), plan_json_get(workload, "seeds"),
             plan_json_get(workload, "seeds") == 1 ? "" : "s", plan_json_get(workload, "seed"),
             100 * plan_json_get(targets, "attainment"), plan_json_get(targets, "redundancy"),
             plan_json_get(workload, "gpus_per_node"), plan_json_get(workload, "host_bytes_per_node") / 1e12);
    br_report_text(out, text);
    for (size_t i = 0; i < json_array_size(models); i++)
        model_row(models, i, &cells);
    plan_cells_table(&cells, head, sizeof head / sizeof *head, out);
}
