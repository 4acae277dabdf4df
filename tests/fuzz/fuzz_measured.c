/* The input is a whole file of measured costs. Times that come of what is taken are finite and not below 0. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "cost/measured.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void step_check(const struct br_measured *measured, const struct br_measured_model *m, double decodes,
                       double tokens)
{
    struct br_cost_step step = {.decodes = decodes, .kv_tokens = decodes * 300};
    if (tokens > 0)
        br_cost_add_chunks(&step, 1, tokens, 100);
    double seconds = br_measured_step_s(measured, m, &step);
    if (!(seconds >= 0) || !isfinite(seconds))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_measured measured;
    struct br_err err;
    if (br_measured_parse((const char *)data, size, "input", &measured, &err))
        return measured.models != NULL ? abort(), 1 : 0;
    for (uint32_t i = 0; i < measured.n_models; i++)
        for (double n = 0; n < 300; n = 3 * n + 1) {
            step_check(&measured, &measured.models[i], n, 0);
            step_check(&measured, &measured.models[i], n, n + 1);
        }
    br_measured_free(&measured);
    return 0;
}
