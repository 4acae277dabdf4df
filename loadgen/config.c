#include "loadgen/config.h"

#include <stddef.h>
#include <string.h>

#define ROW(name, kind, field, fallback, min, max, help)                                                               \
    {                                                                                                                  \
        name, kind, offsetof(struct load_config, field), fallback, min, max, help                                      \
    }

const struct br_option load_options[] = {
    ROW("base-url", BR_OPT_STRING, base_url, "http://127.0.0.1:8000", 0, 0, "URL: the server"),
    ROW("backend", BR_OPT_STRING, backend, NULL, 0, 0,
        "API: openai (completions) or openai-chat [openai; openai-chat with --prompts]"),
    ROW("endpoint", BR_OPT_STRING, endpoint, NULL, 0, 0, "PATH: instead of /v1/completions or /v1/chat/completions"),
    ROW("header", BR_OPT_LIST, headers, NULL, 0, 0, "NAME=VALUE: sent with every request; may be repeated"),
    ROW("api-key", BR_OPT_LIST, keys, NULL, 0, 0, "KEY: may be repeated; each request draws one"),
    ROW("extra-body", BR_OPT_STRING, extra_body, NULL, 0, 0, "JSON: members for every request's body"),

    ROW("model", BR_OPT_LIST, models, NULL, 0, 0,
        "NAME[=RATE]: a model and its requests/s (with --request-rate: its weight); may be repeated"),
    ROW("request-rate", BR_OPT_NUMBER, request_rate, NULL, 0, 1e6, "RATE: requests/s of all models together"),
    ROW("popularity", BR_OPT_STRING, popularity, NULL, 0, 0, "LAW: equal or zipf:S, in the order of the models"),
    ROW("arrivals", BR_OPT_STRING, arrivals, NULL, 0, 0,
        "PROCESS: poisson, gamma, weibull, mmpp, constant, ramp [poisson; with a trace: its own times]"),
    ROW("burstiness", BR_OPT_NUMBER, burstiness, "1", 0.01, 1000, "SHAPE: of gamma or Weibull gaps; below 1 burstier"),
    ROW("ramp-up-strategy", BR_OPT_STRING, ramp_strategy, NULL, 0, 0, "HOW: linear"),
    ROW("ramp-up-start-rps", BR_OPT_NUMBER, ramp_start, NULL, 0, 1e6, "RATE: of all models at the start"),
    ROW("ramp-up-end-rps", BR_OPT_NUMBER, ramp_end, NULL, 0, 1e6, "RATE: of all models at the end"),
    ROW("mmpp-peak", BR_OPT_NUMBER, mmpp_peak, "4", 1, 1e6, "FACTOR: rate in a burst over the mean rate"),
    ROW("mmpp-burst", BR_OPT_SECONDS, mmpp_burst_s, "5s", 0.001, 1e6, "TIME: mean length of a burst"),
    ROW("mmpp-calm", BR_OPT_SECONDS, mmpp_calm_s, "45s", 0.001, 1e6, "TIME: mean length between bursts"),
    ROW("num-prompts", BR_OPT_UINT, num_prompts, NULL, 0, 50000000, "N: at most so many requests"),
    ROW("duration", BR_OPT_SECONDS, duration_s, "30s", 0.1, 1e7, "TIME: how long requests are sent"),
    ROW("warmup", BR_OPT_SECONDS, warmup_s, NULL, 0, 1e7, "TIME: requests of the first TIME are sent, not counted"),
    ROW("drain", BR_OPT_SECONDS, drain_s, "60s", 0, 1e7, "TIME: how long answers are awaited afterwards"),
    ROW("input-len", BR_OPT_STRING, input_len, "32", 0, 0,
        "LAW: prompt tokens: N, uniform:A:B or lognormal:MEDIAN:SIGMA[:MIN:MAX]"),
    ROW("output-len", BR_OPT_STRING, output_len, "64", 0, 0, "LAW: answer tokens (max_tokens), likewise"),
    ROW("max-tokens", BR_OPT_STRING, output_len, NULL, 0, 0, "LAW: another name of output-len"),
    ROW("dataset-path", BR_OPT_STRING, dataset_path, NULL, 0, 0,
        "FILE: a trace to replay (or, with --arrivals, to take lengths from), a ShareGPT file, or market rates"),
    ROW("dataset-name", BR_OPT_STRING, dataset_name, NULL, 0, 0,
        "FORMAT: azure, mooncake, aegaeon, burstgpt, servegen, sharegpt [by the file's first line]"),
    ROW("market-models", BR_OPT_STRING, market_models, NULL, 0, 0, "FILE: servegen: the models' lengths"),
    ROW("from", BR_OPT_SECONDS, from_s, NULL, 0, 1e9, "TIME: where in the trace to begin"),
    ROW("time-scale", BR_OPT_NUMBER, time_scale, "1", 1e-6, 1e6, "F: the trace takes F times as long"),
    ROW("prompt-scale", BR_OPT_NUMBER, prompt_scale, "1", 1e-6, 1e6, "F: of a trace's prompts"),
    ROW("output-scale", BR_OPT_NUMBER, output_scale, "1", 1e-6, 1e6, "F: of a trace's answers"),
    ROW("skip-bad", BR_OPT_BOOL, skip_bad, NULL, 0, 0, "leave out and count a trace's malformed lines, don't stop"),
    ROW("sort", BR_OPT_BOOL, sort, NULL, 0, 0, "sort a trace whose times go back, don't stop"),
    ROW("seed", BR_OPT_UINT, seed, "0", 0, 0, "N: same seed, same requests at the same times"),

    ROW("tokenizer", BR_OPT_STRING, tokenizer, NULL, 0, 0,
        "DIR: the model's, for prompts of exact lengths [the server's /tokenize, if it has one]"),
    ROW("prompt-format", BR_OPT_STRING, prompt_format, "text", 0, 0, "FORM: text, or ids (token ids)"),
    ROW("vocab-size", BR_OPT_UINT, vocab_size, NULL, 0, 10000000, "N: for ids without --tokenizer"),
    ROW("prompts", BR_OPT_STRING, prompts, NULL, 0, 0, "FILE: one chat question a line, instead of made-up text"),
    ROW("temperature", BR_OPT_NUMBER, temperature, "0", 0, 2, "T: 0 is greedy"),
    ROW("ignore-eos", BR_OPT_BOOL, ignore_eos, NULL, 0, 0, "every answer has all its tokens"),
    ROW("no-stream", BR_OPT_BOOL, no_stream, NULL, 0, 0, "answers come whole"),

    ROW("cancel-share", BR_OPT_NUMBER, cancel_share, NULL, 0, 1, "P: of requests that hang up midway"),
    ROW("slow-share", BR_OPT_NUMBER, slow_share, NULL, 0, 1, "P: of clients that read slowly (not judged)"),
    ROW("slow-delay", BR_OPT_SECONDS, slow_delay_s, "100ms", 0.001, 3600, "TIME: between their reads of 512 bytes"),
    ROW("deadline-share", BR_OPT_NUMBER, deadline_share, NULL, 0, 1, "P: of requests with a deadline"),
    ROW("deadline", BR_OPT_SECONDS, deadline_s, "30s", 0.001, 1e6, "TIME: after which those are given up"),
    ROW("priority-share", BR_OPT_NUMBER, priority_share, NULL, 0, 1, "P: of requests that carry --priority"),
    ROW("priority", BR_OPT_UINT, priority, "1", 0, 1000000, "N: lower goes first"),

    ROW("max-concurrency", BR_OPT_UINT, max_concurrency, NULL, 0, 1000000, "N: more requests wait for one to end"),
    ROW("request-timeout", BR_OPT_SECONDS, request_timeout_s, NULL, 0, 1e6, "TIME: a request is given up"),
    ROW("max-dispatch-delay", BR_OPT_SECONDS, max_dispatch_delay_s, "20ms", 0.001, 1e6,
        "TIME: sending later than this (p99) makes the run invalid"),

    ROW("ttft", BR_OPT_SECONDS, ttft_s, "10s", 0.001, 1e6, "TIME: SLO of the first token"),
    ROW("tbt", BR_OPT_SECONDS, tbt_s, "100ms", 0.0001, 1e6, "TIME: SLO between tokens"),
    ROW("goodput", BR_OPT_LIST, goodput, NULL, 0, 0, "KEY:MS: ttft, tpot or e2el; counts requests that keep all"),
    ROW("metric-percentiles", BR_OPT_STRING, percentiles, "50,90,99", 0, 0, "LIST: of percentiles"),
    ROW("find-goodput", BR_OPT_NUMBER, find_goodput, NULL, 0, 99.99,
        "PERCENT: find the highest rate with this attainment, by bisection"),
    ROW("precision", BR_OPT_NUMBER, precision, "0.05", 0.001, 1, "P: find-goodput: how near the bounds come"),
    ROW("max-runs", BR_OPT_UINT, max_runs, "24", 2, 1000, "N: find-goodput: at most so many runs"),

    ROW("stop-below", BR_OPT_NUMBER, stop_below, NULL, 0, 100,
        "PERCENT: end the run when its attainment cannot reach this any more"),
    ROW("find-devices", BR_OPT_BOOL, find_devices, NULL, 0, 0,
        "the fewest devices that hold the target: starts `briareus serve` with what stands behind --"),
    ROW("policy", BR_OPT_LIST, policies, NULL, 0, 0,
        "NAME: find-devices: dedicated, request, aegaeon, slack; may be repeated [all of these]"),
    ROW("target", BR_OPT_NUMBER, target, "99", 1, 100, "PERCENT: find-devices: of tokens on time"),
    ROW("costs", BR_OPT_STRING, costs, NULL, 0, 0,
        "FILE: find-devices: steps measured by `briareus model bench --json`, for what the planner says of CPU "
        "devices"),
    ROW("min-devices", BR_OPT_UINT, min_devices, "0", 0, 64,
        "N: find-devices: no fewer; the same as --max-devices: one run, to its end, whatever comes of it"),
    ROW("max-devices", BR_OPT_UINT, max_devices, "0", 0, 64,
        "N: find-devices: no more than these [as many as there are models]"),

    ROW("save-result", BR_OPT_BOOL, save_result, NULL, 0, 0, "write the result as JSON"),
    ROW("save-detailed", BR_OPT_BOOL, save_detailed, NULL, 0, 0, "with each request's lengths and latencies"),
    ROW("result-dir", BR_OPT_STRING, result_dir, NULL, 0, 0, "DIR: where the result goes"),
    ROW("result-filename", BR_OPT_STRING, result_filename, NULL, 0, 0, "FILE: of the result [load-DATE-TIME.json]"),
    ROW("label", BR_OPT_STRING, label, NULL, 0, 0, "TEXT: names the result in reports"),
    ROW("html", BR_OPT_STRING, html, NULL, 0, 0, "FILE: report with charts"),
    ROW("save-records", BR_OPT_STRING, records, NULL, 0, 0, "FILE: JSON lines, one a request"),
    ROW("trace", BR_OPT_STRING, timeline, NULL, 0, 0, "FILE: timeline of the requests, for Perfetto"),
    ROW("brief", BR_OPT_BOOL, brief, NULL, 0, 0, "print a row for each model, no more"),
    ROW("progress", BR_OPT_BOOL, progress, NULL, 0, 0, "progress line even if stderr is no terminal"),
    ROW("quiet", BR_OPT_BOOL, quiet, NULL, 0, 0, "no progress line"),
};
const uint32_t load_n_options = sizeof load_options / sizeof load_options[0];

static bool one_of(const char *value, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(value, names[i]) == 0)
            return true;
    return false;
}

static int check_ramp(const struct load_config *c, struct br_err *err)
{
    bool ramp = c->arrivals && strcmp(c->arrivals, "ramp") == 0;
    if (c->ramp_strategy && strcmp(c->ramp_strategy, "linear") != 0)
        return br_err_set(err, BR_EINVAL, "ramp-up-strategy: '%s' is not linear, the only one there is",
                          c->ramp_strategy);
    if ((ramp || c->ramp_strategy) && c->ramp_start + c->ramp_end <= 0)
        return br_err_set(err, BR_EINVAL, "a ramp needs --ramp-up-start-rps and --ramp-up-end-rps");
    return 0;
}

int load_config_check(const struct load_config *c, struct br_err *err)
{
    static const char *const backends[] = {"openai", "openai-chat"}, *const forms[] = {"text", "ids"};
    if (c->backend && !one_of(c->backend, backends, 2))
        return br_err_set(err, BR_EINVAL, "backend: '%s' is not openai or openai-chat", c->backend);
    if (!one_of(c->prompt_format, forms, 2))
        return br_err_set(err, BR_EINVAL, "prompt-format: '%s' is not text or ids", c->prompt_format);
    if (strcmp(c->prompt_format, "ids") == 0 && (c->prompts || (c->backend && strcmp(c->backend, "openai-chat") == 0)))
        return br_err_set(err, BR_EINVAL, "prompt-format: a chat takes no token ids; use --backend openai");
    if (strcmp(c->prompt_format, "ids") == 0 && !c->tokenizer && c->vocab_size < 8)
        return br_err_set(err, BR_EINVAL, "prompt-format: ids need --tokenizer DIR or --vocab-size N (at least 8)");
    if (c->prompts && c->backend && strcmp(c->backend, "openai-chat") != 0)
        return br_err_set(err, BR_EINVAL, "prompts: questions need --backend openai-chat");
    if (c->warmup_s >= c->duration_s)
        return br_err_set(err, BR_EINVAL, "warmup: %g s must be less than the duration (%g s)", c->warmup_s,
                          c->duration_s);
    if (c->dataset_name && !c->dataset_path)
        return br_err_set(err, BR_EINVAL, "dataset-name: it needs --dataset-path FILE");
    if (c->find_goodput != 0 && c->find_goodput < 1)
        return br_err_set(err, BR_EINVAL, "find-goodput: %g is a percentage, such as 90 or 99", c->find_goodput);
    if (c->stop_below > 0 && (c->find_goodput > 0 || c->cancel_share > 0))
        return br_err_set(err, BR_EINVAL, "stop-below: not with find-goodput or cancellations");
    return check_ramp(c, err);
}
