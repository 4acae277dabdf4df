/* How fast the simulator is: one hour of D devices (H800), M models of the mix, R requests/s in all, policy slack.
 * sim_scale [D M R [hours [tokens]]]: with a fifth word memory is counted by token, not by the books of kvcache. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "tests/sim/rows.h"

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    const struct sim_scenario *sc = ctx;
    (void)device;
    return sim_ideal_step_s(sc->gpu, sc->mix[model % SIM_MIX], decodes, (double)kv_bytes, prefill);
}

static int scale(uint32_t n_devices, uint32_t n_models, double rate, double horizon_s, bool books)
{
    const struct sim_scenario *sc = &rows[0].scenario;
    struct br_pl_model *models = calloc(n_models, sizeof *models);
    struct br_pl_hardware *hw = calloc(n_devices, sizeof *hw);
    double *rates = calloc(n_models, sizeof *rates);
    if (!models || !hw || !rates)
        return 1;
    for (uint32_t i = 0; i < n_models; i++) {
        const struct sim_model *m = sc->mix[i % SIM_MIX];
        rates[i] = rate / n_models;
        models[i] = (struct br_pl_model){.weights_bytes = (int64_t)m->weights_bytes,
                                         .kv_token_bytes = (int64_t)m->kv_token_bytes,
                                         .ttft_s = 10,
                                         .tbt_s = .1,
                                         .rate = rates[i]};
    }
    for (uint32_t i = 0; i < n_devices; i++)
        hw[i] = (struct br_pl_hardware){.memory_bytes = (int64_t)sim_usable_bytes(sc->gpu),
                                        .link_bytes_per_s = sim_link_bytes_per_s(sc->gpu)};
    struct sim_traffic t = {1, n_models, rates, horizon_s, {540, .78, 16, 4096}, {242, .6, 16, 2048}};
    struct sim_run run = {.horizon_s = horizon_s, .margin_s = 60, .run_on_s = 10, .books = books};
    struct sim_result r = {0};
    struct br_err err = {0};
    run.requests = sim_arrivals(&t, &run.n_requests);
    run.pool = (struct br_pl_config){.n_models = n_models,
                                     .n_devices = n_devices,
                                     .models = models,
                                     .hardware = hw,
                                     .cost = {sc, step_s},
                                     .options = row_options(ROW_SLACK)};
    int64_t begin = br_now_ns();
    int rc = sim_run(&run, &r, &err);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("%u devices, %u models, %.0f req/s, %.0f s: %.1f s, %.0f MiB, %lu steps, attainment %.4f %s\n", n_devices,
           n_models, rate, horizon_s, (double)(br_now_ns() - begin) * 1e-9, (double)usage.ru_maxrss / 1024, r.steps,
           r.attainment, rc < 0 ? err.msg : "");
    free((void *)run.requests);
    free(models);
    free(hw);
    free(rates);
    return rc < 0;
}

int main(int argc, char **argv)
{
    uint32_t devices = argc > 3 ? (uint32_t)atoi(argv[1]) : 1000, models = argc > 3 ? (uint32_t)atoi(argv[2]) : 1000;
    return scale(devices, models, argc > 3 ? atof(argv[3]) : 100, 3600 * (argc > 4 ? atof(argv[4]) : 1), argc <= 5);
}
