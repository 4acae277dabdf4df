/* The input is a file of models, a line '=' and a file of rates. What is taken are sources that can be drawn from. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traffic/market.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_source(const struct br_market *market, uint32_t model)
{
    struct br_source source;
    struct br_arrivals arrivals;
    struct br_err err;
    double last_s = 0, next_s;
    br_market_source(market, model, &source);
    if (br_process_check(&source.process, &err) || br_lengths_check(&source.lengths, &err))
        abort();
    br_arrivals_init(&arrivals, &source.process, 1, model);
    for (uint64_t i = 0; i < 100 && (next_s = br_arrivals_next(&arrivals)) < INFINITY; i++, last_s = next_s) {
        uint32_t prompt, output;
        br_lengths_draw(&source.lengths, 1, model, i, &prompt, &output);
        if (next_s < last_s || next_s > market->duration_s || !prompt || !output || prompt > BR_WORKLOAD_MAX_TOKENS ||
            output > BR_WORKLOAD_MAX_TOKENS)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct br_market_options cut = {.from_s = 300, .time_scale = 2, .mean_rate = .04, .prompt_scale = 3};
    const uint8_t *bar = size > 3 ? memmem(data, size, "\n=\n", 3) : NULL;
    struct br_market_options options = {0};
    struct br_market market;
    struct br_err err = {0};
    FILE *models, *rates;
    size_t before = bar ? (size_t)(bar - data) + 1 : 0;
    if (!bar || size - before - 2 == 0)
        return 0;
    if (size % 2)
        options = cut;
    models = fmemopen((void *)(uintptr_t)data, before, "r");
    rates = fmemopen((void *)(uintptr_t)(bar + 3), size - before - 2, "r");
    if (br_market_read(rates, "rates", models, "models", &options, &market, &err) == 0) {
        double at_s;
        if (!(br_market_peak(&market, &at_s) < INFINITY))
            abort();
        for (uint32_t i = 0; i < market.n_models; i++)
            check_source(&market, i);
    } else if (!err.msg[0] || market.models || market.windows) {
        abort();
    }
    br_market_free(&market);
    fclose(models);
    fclose(rates);
    return 0;
}
