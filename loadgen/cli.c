#include <stddef.h>
#include <stdio.h>

#include "loadgen/load.h"

struct cli {
    struct load_config load;
    char *json;
};

#define ROW(name, kind, field, fallback, min, max, help)                                                               \
    {                                                                                                                  \
        name, kind, offsetof(struct cli, field), fallback, min, max, help                                              \
    }

static const struct br_option g_table[] = {
    ROW("base-url", BR_OPT_STRING, load.base_url, "http://127.0.0.1:8000", 0, 0, "URL: the server"),
    ROW("model", BR_OPT_LIST, load.models, NULL, 0, 0, "NAME[=RATE]: a model and its requests/s; may be repeated"),
    ROW("request-rate", BR_OPT_NUMBER, load.request_rate, "1", 0, 1e6, "RATE: requests/s of models without their own"),
    ROW("duration", BR_OPT_SECONDS, load.duration_s, "30s", 0.1, 1e6, "TIME: how long requests are sent"),
    ROW("drain", BR_OPT_SECONDS, load.drain_s, "60s", 0, 1e6, "TIME: how long answers are awaited afterwards"),
    ROW("seed", BR_OPT_UINT, load.seed, "0", 0, 0, "N: same seed, same requests at the same times"),
    ROW("ttft", BR_OPT_SECONDS, load.slo.ttft_s, "10s", 0.001, 1e6, "TIME: SLO of the first token"),
    ROW("tbt", BR_OPT_SECONDS, load.slo.tbt_s, "100ms", 0.0001, 1e6, "TIME: SLO between tokens"),
    ROW("input-len", BR_OPT_UINT, load.input_words, "32", 1, 100000, "N: words of a random prompt"),
    ROW("max-tokens", BR_OPT_UINT, load.max_tokens, "64", 1, 1000000, "N: longest answer"),
    ROW("temperature", BR_OPT_NUMBER, load.temperature, "0", 0, 2, "T: 0 is greedy"),
    ROW("ignore-eos", BR_OPT_BOOL, load.ignore_eos, NULL, 0, 0, "every answer has max-tokens tokens"),
    ROW("prompts", BR_OPT_STRING, load.prompts, NULL, 0, 0, "FILE: one chat question a line, instead of random words"),
    ROW("max-in-flight", BR_OPT_UINT, load.max_in_flight, "10000", 1, 1000000, "N: more open requests count as failed"),
    ROW("quiet", BR_OPT_BOOL, load.quiet, NULL, 0, 0, "no progress line"),
    ROW("save-result", BR_OPT_STRING, json, NULL, 0, 0, "FILE: the result as JSON"),
};
enum { N_OPTIONS = sizeof g_table / sizeof g_table[0] };

static bool nothing_sent(const struct load_result *result)
{
    uint64_t requests = 0;
    for (uint32_t i = 0; i < result->n_models; i++)
        requests += result->models[i].requests;
    return requests == 0;
}

/* 1: there is nothing to report. */
static int run_and_report(struct cli *cli, struct br_err *err)
{
    struct load_result result;
    int rc = load_run(&cli->load, &result, err);
    if (rc == 0 && nothing_sent(&result)) {
        fprintf(stderr, "briareus load: no requests were sent (rate x duration too small)\n");
        rc = 1;
    } else if (rc == 0) {
        load_print(&result, stdout);
        if (cli->json)
            rc = load_write_json(&result, &cli->load, cli->json, err);
    }
    load_result_free(&result);
    return rc;
}

int br_cli_load(int argc, char **argv)
{
    struct cli cli = {0};
    struct br_err err;
    int status,
        rc = br_options_read(g_table, N_OPTIONS, &cli, "briareus load",
                             "Puts open-loop Poisson load on an OpenAI-compatible server and reports attainment.", argc,
                             argv, &err);
    status = rc > 0 ? 0 : rc; /* --help */
    if (rc == 0)
        status = run_and_report(&cli, &err);
    br_options_free(g_table, N_OPTIONS, &cli);
    if (status < 0)
        fprintf(stderr, "briareus load: %s\n", err.msg);
    return status < 0 ? 2 : status;
}
