/* An open-loop load on any OpenAI-compatible server: requests leave when their schedule says, whether or not earlier
 * ones have been answered. */
#ifndef BRIAREUS_LOADGEN_LOAD_H
#define BRIAREUS_LOADGEN_LOAD_H

#include <stdio.h>

#include "base/err.h"
#include "base/options.h"
#include "loadgen/stats.h"

struct load_config {
    char *base_url;               /* http://host:port */
    struct br_option_list models; /* NAME or NAME=RATE (requests/s) */
    double request_rate;          /* of each model that names none */
    double duration_s, drain_s;   /* send for that long; then wait that long for answers */
    uint32_t seed;
    struct load_slo slo;
    uint32_t input_words, max_tokens;
    double temperature;
    bool ignore_eos;
    char *prompts; /* file, one chat question a line; NULL: random words to /v1/completions */
    uint32_t max_in_flight;
    bool quiet;
};

struct load_result {
    uint32_t n_models;
    char **names;                    /* owned */
    struct load_model_stats *models; /* owned */
    double wall_s;
    char first_error[256];
};

int load_run(const struct load_config *config, struct load_result *out, struct br_err *err);
void load_result_free(struct load_result *result);

/* A table, one row a model and their sum. */
void load_print(const struct load_result *result, FILE *out);
/* JSON of the same, with the configuration. */
int load_write_json(const struct load_result *result, const struct load_config *config, const char *path,
                    struct br_err *err);

/* `briareus load`. */
int br_cli_load(int argc, char **argv);

#endif
