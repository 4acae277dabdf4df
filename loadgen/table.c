/* A result as text: first as `vllm bench serve` prints it, then by model. */
#include <stdio.h>
#include <string.h>

#include "loadgen/result.h"

enum { WIDTH = 50 };

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void rule(FILE *out, const char *heading, char fill)
{
    int n = (int)strlen(heading), left = n < WIDTH ? (WIDTH - n) / 2 : 0;
    for (int i = 0; i < left; i++)
        fputc(fill, out);
    fputs(heading, out);
    for (int i = left + n; i < WIDTH; i++)
        fputc(fill, out);
    fputc('\n', out);
}

static void count_row(FILE *out, const char *name, const json_t *result, const char *key)
{
    fprintf(out, "%-40s %-10lld\n", name, (long long)json_integer_value(json_object_get(result, key)));
}

static void number_row(FILE *out, const char *name, const json_t *result, const char *key)
{
    if (json_is_number(json_object_get(result, key)))
        fprintf(out, "%-40s %-10.2f\n", name, number(result, key));
}

static void metric_rows(FILE *out, const json_t *result, const struct load_metric *m)
{
    const char *key;
    const json_t *value;
    char label[64], wanted[64];
    rule(out, m->heading, '-');
    snprintf(label, sizeof label, "Mean %s (ms):", m->name);
    snprintf(wanted, sizeof wanted, "mean_%s_ms", m->key);
    number_row(out, label, result, wanted);
    snprintf(label, sizeof label, "Median %s (ms):", m->name);
    snprintf(wanted, sizeof wanted, "median_%s_ms", m->key);
    number_row(out, label, result, wanted);
    snprintf(wanted, sizeof wanted, "_%s_ms", m->key);
    json_object_foreach((json_t *)(uintptr_t)result, key, value)
    {
        const char *rest = strchr(key, '_');
        if (key[0] != 'p' || key[1] < '0' || key[1] > '9' || !rest || strcmp(rest, wanted) != 0)
            continue;
        snprintf(label, sizeof label, "P%.*s %s (ms):", (int)(rest - key - 1), key + 1, m->name);
        number_row(out, label, result, key);
    }
}

static void percent_row(FILE *out, const char *name, const json_t *result, const char *key)
{
    if (json_is_number(json_object_get(result, key)))
        fprintf(out, "%-40s %-10.2f\n", name, 100 * number(result, key));
}

static void kinds(FILE *out, const json_t *result)
{
    const json_t *counts = json_object_get(result, "outcomes"), *first = json_object_get(result, "first_errors");
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)counts, key, value)
    {
        const char *why = json_string_value(json_object_get(first, key));
        if (strcmp(key, "completed") != 0)
            fprintf(out, "  %-38s %-10lld%s%s\n", key, (long long)json_integer_value(value), why ? " first: " : "",
                    why ? why : "");
    }
}

/* A number right-aligned, or a dash. */
static void cell(FILE *out, int width, int digits, const json_t *object, const char *key)
{
    if (json_is_number(json_object_get(object, key)))
        fprintf(out, " %*.*f", width, digits, number(object, key));
    else
        fprintf(out, " %*s", width, "-");
}

static void model_row(FILE *out, const char *name, const json_t *m)
{
    fprintf(out, "%-20.20s", name);
    cell(out, 8, 0, m, "requests");
    cell(out, 6, 0, m, "failed");
    cell(out, 9, 0, m, "total_output_tokens");
    cell(out, 11, 1, m, "median_ttft_scheduled_ms");
    cell(out, 11, 1, m, "p99_ttft_scheduled_ms");
    cell(out, 10, 1, m, "median_itl_ms");
    cell(out, 10, 1, m, "p99_itl_ms");
    fprintf(out, " %10.2f %%\n", 100 * number(m, "attainment"));
}

void load_result_print_models(const json_t *result, FILE *out)
{
    const json_t *list = json_object_get(result, "models");
    const char *invalid = json_string_value(json_object_get(result, "invalid_reason"));
    fprintf(out, "%-20s %8s %6s %9s %11s %11s %10s %10s %12s\n", "model", "requests", "failed", "tokens", "TTFT p50 ms",
            "TTFT p99 ms", "TBT p50 ms", "TBT p99 ms", "attainment");
    for (size_t i = 0; i < json_array_size(list); i++)
        model_row(out, json_string_value(json_object_get(json_array_get(list, i), "model")), json_array_get(list, i));
    if (json_array_size(list) > 1)
        model_row(out, "all", result);
    if (invalid)
        fprintf(out, "INVALID: %s\n", invalid);
}

void load_result_print(const json_t *result, FILE *out)
{
    const char *note = json_string_value(json_object_get(result, "note"));
    rule(out, " Serving Benchmark Result ", '=');
    count_row(out, "Successful requests:", result, "completed");
    count_row(out, "Failed requests:", result, "failed");
    kinds(out, result);
    number_row(out, "Maximum request concurrency:", result, "max_concurrency");
    number_row(out, "Request rate offered (req/s):", result, "request_rate");
    number_row(out, "Benchmark duration (s):", result, "duration");
    count_row(out, "Total input tokens:", result, "total_input_tokens");
    count_row(out, "Total generated tokens:", result, "total_output_tokens");
    number_row(out, "Request throughput (req/s):", result, "request_throughput");
    number_row(out, "Request goodput (req/s):", result, "request_goodput");
    number_row(out, "Output token throughput (tok/s):", result, "output_throughput");
    number_row(out, "Peak output token throughput (tok/s):", result, "max_output_tokens_per_s");
    number_row(out, "Peak concurrent requests:", result, "max_concurrent_requests");
    number_row(out, "Total token throughput (tok/s):", result, "total_token_throughput");
    rule(out, "Attainment", '-');
    percent_row(out, "Tokens on time (%):", result, "attainment");
    percent_row(out, "Tokens on time, gap by gap (%):", result, "gap_attainment");
    percent_row(out, "Aegaeon's time ratio (%):", result, "aegaeon_qos");
    for (uint32_t i = 0; i < load_n_metrics; i++)
        metric_rows(out, result, &load_metrics[i]);
    rule(out, "", '=');
    fputc('\n', out);
    load_result_print_models(result, out);
    if (note)
        fprintf(out, "\nNote: %s\n", note);
    if (json_is_true(json_object_get(result, "stopped_early")))
        fprintf(out, "\nStopped early: no more than %.2f %% of all tokens could have been on time.\n",
                100 * json_number_value(json_object_get(result, "attainment_at_most")));
    if (json_is_true(json_object_get(result, "interrupted")))
        fprintf(out, "\nInterrupted: this is what there was.\n");
}
