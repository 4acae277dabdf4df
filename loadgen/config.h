/* The options of `briareus load`. Names as in `vllm bench serve` where they mean the same. */
#ifndef BRIAREUS_LOADGEN_CONFIG_H
#define BRIAREUS_LOADGEN_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/options.h"

struct load_config {
    /* target */
    char *base_url;                /* http://host:port */
    char *backend;                 /* openai | openai-chat */
    char *endpoint;                /* path; NULL: by backend */
    struct br_option_list headers; /* NAME=VALUE */
    struct br_option_list keys;    /* API keys, one drawn for each request */
    char *extra_body;              /* JSON object whose members go into every request */

    /* what arrives when, for which model, how long */
    struct br_option_list models; /* NAME or NAME=RATE */
    double request_rate;          /* of all models; 0: as the models say, else 1 each */
    char *popularity;             /* equal | zipf:S; NULL: as the models say */
    char *arrivals; /* poisson | gamma | weibull | mmpp | constant | ramp; NULL: poisson, or the trace's */
    double burstiness;
    double ramp_start, ramp_end; /* requests/s of all models; both 0: no ramp */
    char *ramp_strategy;         /* linear */
    double mmpp_peak, mmpp_burst_s, mmpp_calm_s;
    uint32_t num_prompts; /* at most so many requests; 0: as many as there are */
    double duration_s, warmup_s, drain_s;
    char *input_len, *output_len; /* N | uniform:A:B | lognormal:MEDIAN:SIGMA */
    char *dataset_name, *dataset_path, *market_models;
    double from_s, time_scale, prompt_scale, output_scale;
    bool skip_bad, sort;
    uint32_t seed;

    /* prompts */
    char *tokenizer;     /* folder or tokenizer.json */
    char *prompt_format; /* text | ids */
    uint32_t vocab_size;
    char *prompts; /* file, one chat question a line */
    double temperature;
    bool ignore_eos, no_stream;

    /* shares of requests that are special */
    double cancel_share, slow_share, deadline_share, priority_share;
    double deadline_s, slow_delay_s;
    uint32_t priority;

    /* limits */
    uint32_t max_concurrency;
    double request_timeout_s, max_dispatch_delay_s;

    /* judged by */
    double ttft_s, tbt_s;
    struct br_option_list goodput; /* ttft:MS, tpot:MS, e2el:MS */
    char *percentiles;             /* 50,90,99 */
    double find_goodput;           /* attainment in percent; 0: not sought */
    double precision;              /* of the rate found */
    uint32_t max_runs;
    double stop_below; /* percent: end a run that cannot reach this attainment any more; 0: run on */
    bool find_devices;
    struct br_option_list policies;
    double target; /* percent of tokens on time, of find_devices */
    uint32_t min_devices, max_devices;
    char *costs; /* of find_devices, for the planner: measured steps of CPU devices */

    /* where results go */
    bool save_result, save_detailed, brief, progress, quiet;
    char *result_dir, *result_filename, *html, *records, *timeline, *label;
};

extern const struct br_option load_options[];
extern const uint32_t load_n_options;

/* What no single option can know: values that exclude each other or need another. */
int load_config_check(const struct load_config *config, struct br_err *err);

#endif
