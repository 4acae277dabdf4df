/* Aegaeon, theorem 3.1: with a device for every model the number of active models under request-level scaling has the
 * mean M (1 - exp(-lambda T)); M = 100, lambda = .037/s, T = 16.79 s: 46.27. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/sim.h"
#include "tests/cmocka.h"

enum { M = 100, TOKENS = 200, SEEDS = 12 };
static const double LAMBDA = .037, T_S = 16.79, SWITCH_S = .01;

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    (void)ctx, (void)device, (void)model, (void)decodes, (void)kv_bytes, (void)prefill;
    return (T_S - SWITCH_S) / TOKENS;
}

static double active_models(uint64_t seed, double *in_flight_s)
{
    static struct br_pl_model models[M];
    static struct br_pl_hardware hw[M];
    static double rate[M];
    for (int i = 0; i < M; i++) {
        models[i] =
            (struct br_pl_model){.weights_bytes = 1, .kv_token_bytes = 1, .ttft_s = 10, .tbt_s = .1, .rate = LAMBDA};
        hw[i] = (struct br_pl_hardware){.memory_bytes = 1000000000, .link_bytes_per_s = 1e15};
        rate[i] = LAMBDA;
    }
    struct sim_traffic traffic = {seed, M, rate, 1500, {16, 0, 16, 16}, {TOKENS, 0, TOKENS, TOKENS}};
    struct sim_run run = {.horizon_s = 1500, .margin_s = 100, .run_on_s = 50};
    struct sim_result result;
    struct br_err err;
    struct sim_request *requests = sim_arrivals(&traffic, &run.n_requests);
    assert_non_null(requests);
    run.requests = requests;
    run.pool = (struct br_pl_config){.n_models = M, .n_devices = M, .models = models, .hardware = hw};
    run.pool.cost.step_s = step_s;
    run.pool.options = (struct br_pl_options){.policy = "request", .chunk_bytes = 1000, .prefill_step_s = 1000};
    assert_int_equal(sim_run(&run, &result, &err), 0);
    free(requests);
    *in_flight_s = result.in_flight_s;
    return result.active_models;
}

static void active_models_have_their_mean(void **state)
{
    (void)state;
    double sum = 0, squares = 0, in_flight = 0, t;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        double m = active_models(seed, &t);
        sum += m;
        squares += m * m;
        in_flight += t / SEEDS;
    }
    double mean = sum / SEEDS, sigma = sqrt((squares / SEEDS - mean * mean) / (SEEDS - 1));
    double want = M * (1 - exp(-LAMBDA * T_S));
    printf("active models %.2f +- %.2f, theory %.2f; in flight %.2f s\n", mean, sigma, want, in_flight);
    assert_true(fabs(want - 46.27) < .005);
    assert_true(fabs(mean - want) < 3 * sigma);
    assert_true(fabs(in_flight - T_S) < .01 * T_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(active_models_have_their_mean)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
