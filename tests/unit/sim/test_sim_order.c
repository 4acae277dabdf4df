/* Who waits behind a busy device is served by the policy's order: request by arrival, request-sjf shortest first, which
 * it can only know from the simulator. */
#include "sim/sim.h"
#include "tests/cmocka.h"

enum { N = 5 };

struct seen {
    uint32_t order[N], n;
};

static void request_seen(void *ctx, double now_s, enum sim_request_event what, uint32_t index)
{
    struct seen *s = ctx;
    (void)now_s;
    if (what == SIM_REQUEST_FIRST_TOKEN)
        s->order[s->n++] = index;
}

static double step_cost(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                        uint32_t prefill)
{
    (void)ctx, (void)device, (void)model, (void)kv_bytes;
    return .05 + .001 * decodes + 1e-5 * prefill;
}

/* Five models on a device that holds one; the first is at work while the others arrive. */
static void served(const char *policy, struct seen *seen)
{
    static const uint32_t outputs[N] = {400, 300, 100, 200, 50};
    struct br_pl_model models[N];
    struct br_pl_hardware hw = {.memory_bytes = 15000000000, .link_bytes_per_s = 1e10};
    struct sim_request requests[N];
    struct sim_observer observer = {.ctx = seen, .request = request_seen};
    struct sim_result result;
    struct br_err err;
    for (uint32_t i = 0; i < N; i++) {
        models[i] = (struct br_pl_model){
            .weights_bytes = 10000000000, .kv_token_bytes = 1000, .ttft_s = 100, .tbt_s = .1, .rate = .1};
        requests[i] = (struct sim_request){i, i, 100, outputs[i]};
    }
    struct sim_run run = {.pool = {.n_models = N,
                                   .n_devices = 1,
                                   .models = models,
                                   .hardware = &hw,
                                   .cost = {NULL, step_cost},
                                   .options = {.policy = policy, .chunk_bytes = 1000000000, .prefill_step_s = .3}},
                          .requests = requests,
                          .n_requests = N,
                          .horizon_s = 10,
                          .run_on_s = 300,
                          .observer = &observer};
    *seen = (struct seen){0};
    assert_int_equal(sim_run(&run, &result, &err), 0);
    assert_int_equal(seen->n, N);
}

static void queues_are_in_the_policys_order(void **state)
{
    static const uint32_t by_arrival[N] = {0, 1, 2, 3, 4}, by_length[N] = {0, 4, 2, 3, 1};
    struct seen seen;
    (void)state;
    served("request", &seen);
    assert_memory_equal(seen.order, by_arrival, sizeof by_arrival);
    served("request-sjf", &seen);
    assert_memory_equal(seen.order, by_length, sizeof by_length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(queues_are_in_the_policys_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
