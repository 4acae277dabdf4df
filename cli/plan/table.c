/* An answer as a table. */
#include <math.h>
#include <string.h>

#include "cli/plan/report.h"

static void head(const struct plan_options *o, const struct plan_material *m, const struct plan_answer *a, FILE *out)
{
    const struct plan_ask *ask = &m->ask;
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < a->requests[0].n; i++)
        tokens += a->requests[0].list[i].output;
    if (o->stands_for)
        fprintf(out, "%s\n", o->stands_for);
    fprintf(out, "%u models, %.3g requests/s, %.0f tokens out a request; %.0f s", ask->n_models,
            a->requests[0].n / ask->horizon_s, a->requests[0].n ? (double)tokens / a->requests[0].n : 0.0,
            ask->horizon_s);
    if (o->market)
        fprintf(out, " from %.0f s of the day", m->from_s);
    fprintf(out, "; %.4g %% of tokens on time; TTFT %g s, TBT %g ms; redundancy N+%u; %u seed%s\n\n", 100 * ask->target,
            o->ttft_s, 1e3 * o->tbt_s, ask->redundancy, ask->n_seeds, ask->n_seeds == 1 ? "" : "s");
}

static void interval(const struct plan_result *r, char *text, size_t size)
{
    if (r->gpus && isfinite(r->ci95[0]))
        snprintf(text, size, "%.1f-%.1f", r->ci95[0], r->ci95[1]);
    else
        snprintf(text, size, "-");
}

static void row(const struct plan_result *r, FILE *out)
{
    char ci[32], reduction[16] = "-";
    double devices = r->tally.device_s > 0 ? r->tally.device_s : 1;
    interval(r, ci, sizeof ci);
    if (r->gpus == 0) {
        fprintf(out, "| %-13s | %-8s | none | holds at no count (why: below) |\n", r->policy, r->gpu);
        return;
    }
    if (r->dedicated_gpus)
        snprintf(reduction, sizeof reduction, "%.1f", 100 * (1 - (double)r->gpus / r->dedicated_gpus));
    fprintf(
        out,
        "| %-13s | %-8s | %4u | %-11s | %6s | %6.2f | %6.2f | %6.2f | %6.0f | %4.2f | %4.2f | %5.2f | %5.2f | %4u | "
        "%7.2f |\n",
        r->policy, r->gpu, r->gpus, ci, reduction, 100 * plan_tally_attainment(&r->tally),
        (double)br_hist_quantile(r->tally.ttft_us, .5) / 1e6, (double)br_hist_quantile(r->tally.ttft_us, .99) / 1e6,
        (double)br_hist_quantile(r->tally.tbt_us, .99) / 1e3, r->tally.compute_s / devices, r->tally.link_s / devices,
        r->tally.switches / devices, r->host_bytes_per_node / 1e12, r->nodes, r->cost_per_hour);
}

static void pools(const struct plan_result *r, FILE *out)
{
    if (strcmp(r->policy, "dedicated") == 0 || r->gpus == 0)
        return;
    fprintf(out, "%s on %s:", r->policy, r->gpu);
    for (uint32_t i = 0; i < r->n_parts; i++) {
        const struct plan_part *p = &r->parts[i];
        fprintf(out, "%s %u x %u %s for %u models (%.2f TB)", i ? "," : "", p->devices, p->kind.tp, p->kind.gpu->name,
                p->n_models, p->weights_bytes / 1e12);
    }
    if (r->memory_gpus)
        fprintf(out, ", %u more for their nodes' memory", r->memory_gpus);
    fprintf(out, "\n");
}

static void bounds(const struct plan_result *r, FILE *out)
{
    double most = fmax(ceil(r->fluid_gpus - 1e-9), r->host_floor_gpus);
    fprintf(out, "%s on %s: fluid compute bound %.1f GPUs, host-memory floor %u GPUs", r->policy, r->gpu, r->fluid_gpus,
            r->host_floor_gpus);
    if (r->gpus)
        fprintf(out, "; %u are %.2f x the larger, %u without redundancy %.2f x", r->gpus, r->gpus / most,
                r->gpus - r->redundant_gpus, (r->gpus - r->redundant_gpus) / most);
    fprintf(out, "; dedicated %u; weights on disk %.2f TB\n", r->dedicated_gpus, r->disk_bytes / 1e12);
}

/* Whether any baseline holds with fewer GPUs of the same kind; those that hold at no count say nothing here. */
static void beaten(const struct plan_result *r, const struct plan_answer *a, FILE *out)
{
    uint32_t n = 0, more = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct plan_result *b = &a->results[i];
        if (b == r || strcmp(b->gpu, r->gpu) != 0 || b->gpus == 0)
            continue;
        n++;
        if (r->gpus > b->gpus) {
            fprintf(out, "%s on %s: MORE than %s, which needs %u\n", r->policy, r->gpu, b->policy, b->gpus);
            more++;
        }
    }
    if (n > 0 && more == 0)
        fprintf(out, "%s on %s: no more than any of the %u others that hold\n", r->policy, r->gpu, n);
}

static void mixed_say(const struct plan_answer *a, FILE *out)
{
    const struct plan_mixed *mix = &a->mix;
    if (mix->tried && mix->found)
        fprintf(out, "slack on %s: the cheapest of %u splits over two kinds that were tried, %.2f $/h; %s alone %.2f\n",
                a->results[a->n - 1].gpu, mix->tried, mix->cost_per_hour, mix->alone_gpu, mix->alone_per_hour);
    else if (mix->tried)
        fprintf(out, "None of %u splits over two kinds that were tried costs less than %s alone, %.2f $/h\n",
                mix->tried, mix->alone_gpu, mix->alone_per_hour);
}

static void seeds_say(const struct plan_answer *a, FILE *out)
{
    if (a->n_seeds < PLAN_MIN_INTERVAL)
        fprintf(out, "No interval from %u seed%s: give --seeds 3 or more.\n", a->n_seeds, a->n_seeds == 1 ? "" : "s");
    else
        fprintf(out,
                "95 %% of need: interval of the mean need of one seed, Student's t over %u seeds, without "
                "redundancy; GPUs: the largest of them.\n",
                a->n_seeds);
}

void plan_table(const struct plan_options *o, const struct plan_material *m, const struct plan_answer *a, FILE *out)
{
    head(o, m, a, out);
    fprintf(
        out,
        "| policy        | GPU      | GPUs | 95 %% of need | fewer, %% | on time | TTFT p50 | p99, s | TBT p99, ms | "
        "compute | link | switches/s | host TB | nodes | $/h |\n"
        "|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (uint32_t i = 0; i < a->n; i++)
        row(&a->results[i], out);
    fprintf(out, "\n");
    for (uint32_t i = 0; i < a->n; i++) {
        pools(&a->results[i], out);
        if (*a->results[i].why)
            fprintf(out, "%s on %s: %s\n", a->results[i].policy, a->results[i].gpu, a->results[i].why);
    }
    for (uint32_t i = 0; i < a->n; i++)
        if (strcmp(a->results[i].policy, "slack") == 0)
            bounds(&a->results[i], out);
    for (uint32_t i = 0; i < a->n; i++)
        if (strcmp(a->results[i].policy, "slack") == 0 && a->results[i].gpus > 0)
            beaten(&a->results[i], a, out);
    mixed_say(a, out);
    seeds_say(a, out);
    for (uint32_t i = 0; i < a->n; i++)
        if (a->results[i].host_bytes_per_node > m->ask.host_bytes && strcmp(a->results[i].policy, "dedicated") != 0)
            fprintf(out,
                    "%s on %s: a node needs %.2f TB of host memory and has %.2f: more memory, 4-bit weights or a disk "
                    "tier for rarely used models\n",
                    a->results[i].policy, a->results[i].gpu, a->results[i].host_bytes_per_node / 1e12,
                    m->ask.host_bytes / 1e12);
    if (!m->prices.own)
        fprintf(out, "Prices are placeholders: give your own with --prices.\n");
}
