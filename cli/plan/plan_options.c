#include "cli/plan/plan_options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/plan/scenario.h"

#define AT(field) offsetof(struct plan_options, field)
static const struct br_option g_table[] = {
    {"stands-for", BR_OPT_STRING, AT(stands_for), NULL, 0, 0, "TEXT: what a scenario is an example of"},
    {"model", BR_OPT_LIST, AT(models), NULL, 0, 0,
     "WORDS: \"Qwen2.5-72B count=4 weights=int4 kv=fp8 rate=.1 cv=2 ttft=10s tbt=100ms tp=2 gpu=H20 prompt=540:.78 "
     "output=242:.6 name=N dedicated-tp=4\"; a catalogue name or a folder first, the rest as needed; may be repeated"},
    {"gpu", BR_OPT_LIST, AT(gpus), NULL, 0, 0, "NAME: kinds to compare, H20 when none is said"},
    {"one-kind", BR_OPT_BOOL, AT(one_kind), NULL, 0, 0,
     "with several kinds: each alone, without the search for a cheaper split of the models over two of them"},
    {"policy", BR_OPT_LIST, AT(policies), NULL, 0, 0,
     "NAME: slack, aegaeon, aegaeon-tuned, request, request-sjf, multiplex, dedicated; all but aegaeon-tuned and "
     "request-sjf when none is said"},
    {"handicapped", BR_OPT_BOOL, AT(handicapped), NULL, 0, 0,
     "also request with what the Aegaeon artifact's baseline lacks: batches of 4 that nobody joins, 16 GB/s, dropping"},
    {"weights", BR_OPT_STRING, AT(weights), "bf16", 0, 0, "FORMAT: of models that do not say: bf16, fp8, int8, int4"},
    {"large-weights", BR_OPT_STRING, AT(large_weights), NULL, 0, 0,
     "FORMAT: the same for models from 30e9 parameters on"},
    {"large-dedicated-tp", BR_OPT_UINT, AT(large_tp), NULL, 1, 8, "N: GPUs of such a model's dedicated replica"},
    {"kv", BR_OPT_STRING, AT(kv), "bf16", 0, 0, "FORMAT: of KV: bf16, fp8"},
    {"ttft", BR_OPT_SECONDS, AT(ttft_s), "10s", 1e-3, 3600, "S: SLO of models that do not say"},
    {"tbt", BR_OPT_SECONDS, AT(tbt_s), "100ms", 1e-4, 60, "S: SLO of models that do not say"},
    {"target", BR_OPT_NUMBER, AT(target), ".99", .5, .9999, "SHARE: of tokens on time"},
    {"pool-floor", BR_OPT_NUMBER, AT(pool_floor), ".9", 0, .9999,
     "SHARE: the least of it in any pool, of tokens whose prompts take no longer than TTFT"},
    {"seed", BR_OPT_UINT, AT(seed), "1", 0, 1e9, "N: the first one"},
    {"seeds", BR_OPT_UINT, AT(seeds), "3", 1, PLAN_MAX_SEEDS, "N: so many runs; the need is the largest of theirs"},
    {"redundancy", BR_OPT_UINT, AT(redundancy), "0", 0, 100, "K: devices of each pool that may be lost (N+K)"},
    {"rate", BR_OPT_NUMBER, AT(rate), ".1", 0, 1e4, "R: requests/s of each model that does not say"},
    {"cv", BR_OPT_NUMBER, AT(cv), "1", .05, 20, "CV: burstiness, of the gaps between a model's requests"},
    {"total-rate", BR_OPT_NUMBER, AT(total_rate), NULL, 1e-9, 1e6, "R: of all models, divided by --zipf"},
    {"zipf", BR_OPT_NUMBER, AT(zipf), NULL, 0, 10, "S: the i-th model's share is 1/i^S"},
    {"rates", BR_OPT_STRING, AT(rates), NULL, 0, 0, "MIN:MEAN:MAX: spread over the models as a bounded Pareto law"},
    {"shuffle", BR_OPT_BOOL, AT(shuffle), NULL, 0, 0, "each seed draws anew which model has which rate"},
    {"traffic", BR_OPT_STRING, AT(traffic), NULL, 0, 0,
     "FILE: replay a trace (azure, mooncake, aegaeon, burstgpt); one without names is divided by --zipf"},
    {"market", BR_OPT_STRING, AT(market), NULL, 0, 0, "FILE: rates by window of many models (ServeGen's form)"},
    {"market-models", BR_OPT_STRING, AT(market_models), NULL, 0, 0, "FILE: their names, sizes and lengths"},
    {"from", BR_OPT_STRING, AT(from), "busiest", 0, 0, "S: start of the span in a market's day, or 'busiest'"},
    {"rate-scale", BR_OPT_NUMBER, AT(rate_scale), "1", 1e-6, 1e6, "X: multiplies all rates"},
    {"mean-rate", BR_OPT_NUMBER, AT(mean_rate), NULL, 1e-9, 1e4, "R: scale a market to this mean of its models' day"},
    {"horizon", BR_OPT_SECONDS, AT(horizon_s), "1800s", 180, 1e6, "S: span that is simulated"},
    {"margin", BR_OPT_SECONDS, AT(margin_s), "60s", 0, 1e5, "S: at its begin and end whose requests do not count"},
    {"costs", BR_OPT_STRING, AT(costs), "fitted", 0, 0,
     "KIND: fitted (to measurements), ideal (the policies' comparison), or the FILE of `briareus model bench --json`: "
     "its "
     "device is then a kind for --gpu, the only one when none is said"},
    {"kv-count", BR_OPT_STRING, AT(kv_count), "blocks", 0, 0,
     "HOW: blocks (as a worker keeps KV, moves it to the host and computes it again on another device) or tokens "
     "(nothing "
     "is rounded up and such moves cost nothing, as in the policies' comparison)"},
    {"memory-use", BR_OPT_NUMBER, AT(memory_use), ".9", .1, 1,
     "SHARE: of a GPU's memory for weights and KV, less 1 GB"},
    {"context", BR_OPT_UINT, AT(context), "4096", 1, 1e7, "N: tokens of KV that must fit beside a model"},
    {"host-memory", BR_OPT_NUMBER, AT(host_tb), "2", .001, 1000, "TB: of a node"},
    {"node-gpus", BR_OPT_UINT, AT(node_gpus), "8", 1, 64, "N: of a node"},
    {"hysteresis", BR_OPT_NUMBER, AT(hysteresis), ".35", .01, 2, "SHARE: slack's H, of TTFT"},
    {"load-chunk", BR_OPT_BYTES, AT(load_chunk), "0", 0, 0x1p40,
     "BYTES: of a piece of a load of weights; 0: 1 GB; of a measured device what its link carries in 20 ms"},
    {"prices", BR_OPT_STRING, AT(prices), NULL, 0, 0, "FILE: YAML, on-demand, reserved and spot $/h by GPU"},
    {"max", BR_OPT_STRING, AT(max), NULL, 0, 0, "WHAT: models or rate: how many a fleet (--fleet) holds"},
    {"fleet", BR_OPT_UINT, AT(fleet), "8", 1, 100000, "N: GPUs, for --max"},
    {"load-curve", BR_OPT_STRING, AT(load_curve), NULL, 0, 0,
     "SHARES: of the planned load by hour, \"1,.8,.4,...\"; gives the best mix of reserved and on-demand"},
    {"train", BR_OPT_LIST, AT(train), NULL, 0, 0, "WORDS: \"A100-80 gpus=64 hours=300\" a month, for the total cost"},
    {"months", BR_OPT_NUMBER, AT(months), "12", .1, 120, "N: of the total cost"},
    {"threads", BR_OPT_UINT, AT(threads), "2", 1, 64, "N: that simulate"},
    {"curve", BR_OPT_BOOL, AT(curve), NULL, 0, 0, "attainment at other counts of GPUs too"},
    {"json", BR_OPT_STRING, AT(json), NULL, 0, 0, "FILE: results as JSON; - for stdout instead of the table"},
    {"html", BR_OPT_STRING, AT(html), NULL, 0, 0, "FILE: a report that opens in any browser"},
    {"trace", BR_OPT_STRING, AT(trace), NULL, 0, 0,
     "FILE: what one pool of the first result did, for Perfetto (ui.perfetto.dev)"},
    {"trace-seconds", BR_OPT_SECONDS, AT(trace_s), "120s", .1, 3600, "S: of --trace, from the margin on"},
    {"quiet", BR_OPT_BOOL, AT(quiet), NULL, 0, 0, "no progress on stderr"},
};
enum { N_OPTIONS = sizeof g_table / sizeof *g_table };

static const char g_purpose[] =
    "How few GPUs hold a share of tokens on time, for models, traffic and SLOs, by policy and GPU kind; simulated with "
    "the scheduler's own policies.\n"
    "--scenario NAME begins with a ready-made one: " SCENARIO_NAMES ".\n"
    "More: briareus plan compare A.json B.json, briareus plan costs --help. Exit status: 0; 2 when the input is wrong "
    "or a model fits nowhere.";

/* --scenario NAME stands for --config with the scenario's file; later flags go before it. */
static int scenario_replace(int argc, char **argv, char **words, char *path, size_t size, const char **scenario,
                            struct br_err *err)
{
    for (int i = 0; i < argc; i++) {
        words[i] = argv[i];
        const char *name = strncmp(argv[i], "--scenario=", 11) == 0 ? argv[i] + 11 : NULL;
        if (strcmp(argv[i], "--scenario") == 0) {
            if (i + 1 == argc)
                return br_err_set(err, BR_EINVAL, "--scenario needs a name: " SCENARIO_NAMES);
            name = argv[i + 1];
        }
        if (!name)
            continue;
        if (scenario_path(name, path, size, err) < 0)
            return err->code;
        static char config[] = "--config";
        if (argv[i][10] == '=')
            return br_err_set(err, BR_EINVAL, "write --scenario %s, with a space", name);
        words[i++] = config;
        words[i] = path;
        *scenario = name;
    }
    return 0;
}

int plan_options_read(struct plan_options *out, int argc, char **argv, struct br_err *err)
{
    static char path[4096];
    char **words = br_calloc((size_t)argc + 1, sizeof *words);
    *out = (struct plan_options){0};
    int rc = scenario_replace(argc, argv, words, path, sizeof path, &out->scenario, err);
    if (rc == 0)
        rc = br_options_read(g_table, N_OPTIONS, out, "briareus plan", g_purpose, argc, words, err);
    free(words);
    if (rc != 0)
        plan_options_free(out);
    return rc;
}

void plan_options_free(struct plan_options *options)
{
    br_options_free(g_table, N_OPTIONS, options);
}
