/* The two files of a market. Private to traffic/. */
#ifndef BRIAREUS_TRAFFIC_MARKET_FILE_H
#define BRIAREUS_TRAFFIC_MARKET_FILE_H

#include "traffic/lines.h"
#include "traffic/market.h"

enum { MARKET_MAX_LINE = 4096 };

/* Fills models; lengths are multiplied by the options' scales. */
int market_models_read(struct lines *lines, const struct br_market_options *options, struct br_market *out,
                       struct br_err *err);
/* Fills windows as they are in the file. */
int market_rates_read(struct lines *lines, struct br_market *out, struct br_err *err);

#endif
