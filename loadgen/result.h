/* Results as JSON. Keys and meanings are those of `vllm bench serve` where it has the same thing; its latencies count
 * from the actual send, those that end in _scheduled from the scheduled one. */
#ifndef BRIAREUS_LOADGEN_RESULT_H
#define BRIAREUS_LOADGEN_RESULT_H

#include <jansson.h>

#include "loadgen/config.h"
#include "loadgen/measure.h"
#include "loadgen/offer.h"

/* What a result is made of; all borrowed. */
struct load_outcome_of_run {
    const struct load_config *config;
    const struct load_offer *offer;
    const struct load_journal *journal;
    const char *note; /* about prompt lengths; may be empty */
};

enum { LOAD_MAX_PERCENTILES = 16, LOAD_MAX_RESULT_BYTES = 1 << 30 };

/* The journal's result; the caller's to release. BR_EINVAL: percentiles or goodput bounds that are none. */
int load_result_make(const struct load_outcome_of_run *run, json_t **out, struct br_err *err);
/* Is there anything in these options that load_result_make would refuse? */
int load_result_check(const struct load_config *config, struct br_err *err);

/* Where --save-result puts it: result-dir/result-filename, a name by date and time if none is given. */
int load_result_save(const json_t *result, const struct load_config *config, struct br_err *err);
/* Reads one back; BR_EINVAL when it is no result. */
int load_result_read(const char *path, json_t **out, struct br_err *err);

/* The text for people. */
void load_result_print(const json_t *result, FILE *out);
/* A row for each model alone; times from the scheduled send. */
void load_result_print_models(const json_t *result, FILE *out);

/* The groups of keys as they appear in the JSON, for tables and pages: "ttft_scheduled", "TTFT from schedule". */
struct load_metric {
    const char *key, *name, *heading;
    size_t offset; /* of its struct load_dist in struct load_group */
};
extern const struct load_metric load_metrics[];
extern const uint32_t load_n_metrics;

/* JSON lines, one a request; with each token's time if detailed. */
int load_records_write(const char *path, const struct load_outcome_of_run *run, bool detailed, struct br_err *err);
/* Timeline for Perfetto: one row a request. */
int load_timeline_write(const char *path, const struct load_outcome_of_run *run, struct br_err *err);
/* HTML page about one result or several, side by side. */
int load_page_write(const char *path, json_t *const *results, uint32_t n, struct br_err *err);

#endif
