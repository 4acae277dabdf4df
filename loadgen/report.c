#include <jansson.h>
#include <stdlib.h>

#include "base/buf.h"
#include "loadgen/load.h"

static double ms(const struct br_hist *hist, double p)
{
    return (double)br_hist_quantile(hist, p) * 1e-3;
}

static void print_row(FILE *out, const char *name, const struct load_model_stats *s)
{
    fprintf(out, "%-16s %8llu %6llu %9llu %11.1f %11.1f %10.1f %10.1f %10.2f %%\n", name,
            (unsigned long long)s->requests, (unsigned long long)s->failed, (unsigned long long)s->tokens,
            ms(&s->ttft_us, 0.5), ms(&s->ttft_us, 0.99), ms(&s->tbt_us, 0.5), ms(&s->tbt_us, 0.99),
            100 * load_attainment(s));
}

static struct load_model_stats *sum_of(const struct load_result *r)
{
    struct load_model_stats *sum = br_malloc(sizeof *sum);
    load_stats_init(sum);
    for (uint32_t i = 0; i < r->n_models; i++)
        load_stats_merge(sum, &r->models[i]);
    return sum;
}

void load_print(const struct load_result *r, FILE *out)
{
    struct load_model_stats *sum = sum_of(r);
    fprintf(out, "%-16s %8s %6s %9s %11s %11s %10s %10s %12s\n", "model", "requests", "failed", "tokens", "TTFT p50 ms",
            "TTFT p99 ms", "TBT p50 ms", "TBT p99 ms", "attainment");
    for (uint32_t i = 0; i < r->n_models; i++)
        print_row(out, r->names[i], &r->models[i]);
    print_row(out, "all", sum);
    free(sum);
    if (r->first_error[0])
        fprintf(out, "first failure: %s\n", r->first_error);
}

static json_t *stats_json(const char *name, const struct load_model_stats *s)
{
    return json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f}", "model", name, "requests",
                     (json_int_t)s->requests, "failed", (json_int_t)s->failed, "tokens", (json_int_t)s->tokens,
                     "tokens_on_time", (json_int_t)s->tokens_on_time, "tokens_owed", (json_int_t)s->tokens_owed,
                     "attainment", load_attainment(s), "ttft_p50_s", ms(&s->ttft_us, 0.5) * 1e-3, "ttft_p99_s",
                     ms(&s->ttft_us, 0.99) * 1e-3, "tbt_p50_s", ms(&s->tbt_us, 0.5) * 1e-3, "tbt_p99_s",
                     ms(&s->tbt_us, 0.99) * 1e-3);
}

int load_write_json(const struct load_result *r, const struct load_config *c, const char *path, struct br_err *err)
{
    struct load_model_stats *sum = sum_of(r);
    json_t *models = json_array(), *root;
    int rc;
    for (uint32_t i = 0; i < r->n_models; i++)
        json_array_append_new(models, stats_json(r->names[i], &r->models[i]));
    root = json_pack("{s:{s:f,s:I,s:f,s:f,s:I},s:f,s:o,s:o}", "workload", "duration_s", c->duration_s, "seed",
                     (json_int_t)c->seed, "ttft_s", c->slo.ttft_s, "tbt_s", c->slo.tbt_s, "max_tokens",
                     (json_int_t)c->max_tokens, "wall_s", r->wall_s, "models", models, "all", stats_json("all", sum));
    free(sum);
    rc = json_dump_file(root, path, JSON_INDENT(1));
    json_decref(root);
    return rc ? br_err_errno(err, BR_EIO, "cannot write %s", path) : 0;
}
