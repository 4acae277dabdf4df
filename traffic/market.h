/* A market of many models with rates that change by the window (ServeGen's form): two CSV files,
 *   rates:  model,t_s,rate_rps,interarrival,shape, ...: a row a window of 600 s, windows without traffic left out, the
 *           rows of a model together and ascending; interarrival Gamma, Weibull or Exponential. Gaps have that family
 *           and shape and mean 1/rate_rps (ServeGen's cv and scale are not used: its scale, a fit to the same gaps,
 *           gives a rate that is 9 % off on average, and could not follow a change of rates).
 *   models: model,base,class,in_mean,in_p50,in_p90,in_p99,out_mean,out_p50,out_p90,out_p99, ...;
 *           empty statistics are the medians of the models of the same class that have them (else of all). */
#ifndef BRIAREUS_TRAFFIC_MARKET_H
#define BRIAREUS_TRAFFIC_MARKET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "traffic/generate.h"
#include "traffic/lengths.h"
#include "traffic/process.h"

enum {
    BR_MARKET_WINDOW_S = 600,
    BR_MARKET_MAX_MODELS = 4096,
    BR_MARKET_MAX_WINDOWS = 1 << 22,
    BR_MARKET_MAX_BYTES = 256 << 20
};

struct br_market_model {
    char name[64], base[64], class_name[64];
    double mean_rate, peak_rate; /* over the cut and scaled windows: mean over duration_s, busiest window */
    struct br_lengths lengths;
    bool lengths_known; /* false: medians of others */
    uint32_t first_window, n_windows;
};

struct br_market {
    struct br_market_model *models; /* owned; in the order of the models file */
    uint32_t n_models;
    struct br_window *windows; /* owned; a model's are contiguous and ascending */
    uint32_t n_windows;
    double duration_s; /* from 0 to the end of the last window, or as cut */
};

/* Zeroes: everything as it is in the file. */
struct br_market_options {
    double from_s, duration_s; /* cut, in the file's time; then t = 0; duration 0: to the end of the last window */
    double time_scale;         /* windows are this many times as long, rates stay; 0: 1 */
    double rate_scale;         /* rates are multiplied by it; 0: 1 */
    double mean_rate;          /* instead: rates are scaled so that the models' mean is this; 0: not */
    double prompt_scale, output_scale; /* 0: 1 */
};

/* Models that the rates lack have no windows; a model of the rates that the models file lacks is an error, as is a
 * malformed line ("FILE:LINE: column rate_rps: ..."). Caller frees on success; on failure *out is empty. */
int br_market_load(const char *rates_path, const char *models_path, const struct br_market_options *options,
                   struct br_market *out, struct br_err *err);
/* The same from open streams. */
int br_market_read(FILE *rates, const char *rates_file, FILE *models, const char *models_file,
                   const struct br_market_options *options, struct br_market *out, struct br_err *err);
void br_market_free(struct br_market *market);

/* The source of a model; borrows the market. */
void br_market_source(const struct br_market *market, uint32_t model, struct br_source *out);
/* The busiest moment: largest sum of rates over all models, and when its window starts. */
double br_market_peak(const struct br_market *market, double *at_s);

#endif
