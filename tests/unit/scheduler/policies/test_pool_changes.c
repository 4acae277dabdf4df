/* What changes a pool while it runs: devices and models that come and go, truths from outside, pauses, priorities,
 * pins, host memory. Two kinds of models' sizes on devices of 8000 bytes; TTFT 10 s, TBT .1 s; a row of prompt takes .1
 * ms beside the .01 s of a step. */
#include <string.h>

#include "scheduler/core/policies/pool_books.h"
#include "tests/cmocka.h"

static struct br_pool *pool;
static struct br_pl_actions did;

static double step_s(const void *ctx, uint32_t device, uint32_t model, uint32_t decodes, int64_t kv_bytes,
                     uint32_t prefill)
{
    (void)ctx, (void)device, (void)model, (void)kv_bytes;
    return .01 + .001 * decodes + .0001 * prefill;
}

static struct br_pl_model model(int64_t weights_bytes)
{
    return (struct br_pl_model){
        .weights_bytes = weights_bytes, .kv_token_bytes = 1, .ttft_s = 10, .tbt_s = .1, .rate = .1};
}

/* Devices of 8000 bytes, 10,000 bytes/s. */
static void begin(struct br_pl_options options, const struct br_pl_model *models, uint32_t n_models, uint32_t n_devices,
                  int64_t host_bytes)
{
    struct br_pl_hardware hw[4];
    struct br_err err;
    for (uint32_t i = 0; i < n_devices; i++)
        hw[i] = (struct br_pl_hardware){.memory_bytes = 8000, .link_bytes_per_s = 1e4};
    options.hysteresis = .1;
    options.chunk_bytes = 10000;
    options.prefill_step_s = .3;
    struct br_pl_config config = {.n_models = n_models,
                                  .n_devices = n_devices,
                                  .max_seqs = 8,
                                  .models = models,
                                  .hardware = hw,
                                  .cost = {NULL, step_s},
                                  .options = options,
                                  .n_nodes = 1,
                                  .host_bytes = &host_bytes};
    assert_int_equal(br_pl_create(&config, &pool, &err), 0);
}

static int end(void **state)
{
    (void)state;
    br_pl_destroy(pool);
    pool = NULL;
    return 0;
}

static void happen(double now_s, struct br_pl_event event)
{
    struct br_err err = {0};
    br_pl_step(pool, now_s, &event, &did);
    if (br_pl_check(pool, &err) < 0)
        fail_msg("%s", err.msg);
}

static const struct br_pl_action *find(enum br_pl_action_kind kind, uint32_t seq)
{
    for (uint32_t i = 0; i < did.n; i++)
        if (did.list[i].kind == kind && did.list[i].seq == seq)
            return &did.list[i];
    return NULL;
}

static void arrive(double now_s, uint32_t seq, uint32_t of, double weight)
{
    happen(now_s, (struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = seq, .model = of, .prompt = 100, .weight = weight});
}

/* Until the device's step has been done so often; loads first. */
static void steps(double now_s, uint32_t device, int n)
{
    while (n > 0) {
        const struct br_pl_device *d = &pool->devices[device];
        enum br_pl_event_kind kind = d->link.slot >= 0 ? BR_PL_LOAD_DONE : BR_PL_STEP_DONE;
        assert_true(d->link.slot >= 0 || d->step.slot >= 0);
        n -= kind == BR_PL_STEP_DONE;
        happen(now_s, (struct br_pl_event){.kind = kind, .device = device});
    }
}

/* lead = arrival + TTFT / weight - now - prefill; prefill of 100 rows: .02 s. */
static void weight_counts_as_a_shorter_ttft(void **state)
{
    (void)state;
    struct br_pl_model models[] = {model(2000), model(2000), model(2000)};
    models[2].weight = 4;
    begin((struct br_pl_options){.policy = "slack", .mirror = true}, models, 3, 1, 0);
    arrive(0, 0, 0, 0);
    arrive(0, 1, 1, 2);
    arrive(0, 2, 2, 0);
    assert_true(br_pl_slot_key(pool, 1, 0, 0) > 8.98 - 1e-9 && br_pl_slot_key(pool, 1, 0, 0) < 8.98 + 1e-9);
    assert_true(br_pl_slot_key(pool, 1, 0, 1) > 3.98 - 1e-9 && br_pl_slot_key(pool, 1, 0, 1) < 3.98 + 1e-9);
    assert_true(br_pl_slot_key(pool, 1, 0, 2) > 1.48 - 1e-9 && br_pl_slot_key(pool, 1, 0, 2) < 1.48 + 1e-9);
    /* late: it counts as TTFT / weight from due */
    assert_true(br_pl_slot_key(pool, 20, 0, 0) > 10 - 1e-9 && br_pl_slot_key(pool, 20, 0, 0) < 10 + 1e-9);
    assert_true(br_pl_slot_key(pool, 20, 0, 1) > 5 - 1e-9 && br_pl_slot_key(pool, 20, 0, 1) < 5 + 1e-9);
}

static void heavier_sequences_come_first(void **state)
{
    (void)state;
    struct br_pl_model m = model(2000);
    begin((struct br_pl_options){.policy = "slack", .mirror = true}, &m, 1, 1, 0);
    arrive(0, 0, 0, 1);
    arrive(1, 1, 0, 3);
    arrive(2, 2, 0, 3);
    const struct br_pl_list *wait = &pool->slots[0].wait;
    assert_int_equal(wait->first, 1);
    assert_int_equal(pool->seqs[1].next, 2);
    assert_int_equal(wait->last, 0);
}

static void deadline_clock_stands_still_while_paused(void **state)
{
    (void)state;
    struct br_pl_model m = model(2000);
    begin((struct br_pl_options){.policy = "slack", .mirror = true}, &m, 1, 1, 0);
    arrive(0, 0, 0, 0);
    happen(2, (struct br_pl_event){.kind = BR_PL_PAUSE, .seq = 0});
    assert_true(br_pl_slot_key(pool, 3, 0, 0) >= 1e9); /* asks for nothing */
    assert_true(br_pl_util(pool, 0) <= 0);
    happen(50, (struct br_pl_event){.kind = BR_PL_RESUME, .seq = 0});
    double key = br_pl_slot_key(pool, 50, 0, 0); /* as at 2 s: 10 - 2 - .02 */
    assert_true(key > 7.98 - 1e-9 && key < 7.98 + 1e-9);
}

static void sequences_of_a_lost_device_go_elsewhere_without_kv(void **state)
{
    (void)state;
    struct br_pl_model m = model(2000);
    begin((struct br_pl_options){.policy = "slack"}, &m, 1, 2, 0);
    arrive(0, 0, 0, 0);
    steps(.3, 0, 3);
    assert_int_equal(pool->seqs[0].delivered, 3);
    happen(.4, (struct br_pl_event){.kind = BR_PL_DEVICE_DOWN, .device = 0});
    const struct br_pl_action *a = find(BR_PL_ASSIGN, 0);
    assert_non_null(a);
    assert_int_equal(a->device, 1);
    assert_int_equal(pool->seqs[0].left, 103); /* prompt and what was delivered */
    assert_int_equal(pool->devices[0].used, 0);
    happen(.5, (struct br_pl_event){.kind = BR_PL_DEVICE_DOWN, .device = 1});
    assert_non_null(find(BR_PL_UNASSIGN, 0));
    assert_int_equal(br_pl_device_of(pool, 0), -1);
    happen(.6, (struct br_pl_event){.kind = BR_PL_DEVICE_UP, .device = 0});
    assert_int_equal(find(BR_PL_ASSIGN, 0)->device, 0);
}

static void draining_device_gets_nothing_new(void **state)
{
    (void)state;
    struct br_pl_model models[] = {model(2000), model(2000)};
    begin((struct br_pl_options){.policy = "slack", .mirror = true}, models, 2, 2, 0);
    arrive(0, 0, 0, 0);
    happen(0, (struct br_pl_event){.kind = BR_PL_DEVICE_DRAIN, .device = 0});
    arrive(0, 1, 0, 0);
    arrive(0, 2, 1, 0);
    assert_int_equal(br_pl_device_of(pool, 0), 0);
    assert_int_equal(br_pl_device_of(pool, 1), 1);
    assert_int_equal(br_pl_device_of(pool, 2), 1);
}

static void model_goes_where_it_may_and_fits(void **state)
{
    (void)state;
    struct br_err err;
    struct br_pl_model models[] = {model(7000), model(2000)};
    begin((struct br_pl_options){.policy = "slack", .mirror = true}, models, 2, 2, 0);
    happen(0, (struct br_pl_event){.kind = BR_PL_UNSERVE, .device = 0, .model = 1});
    arrive(0, 0, 1, 0);
    assert_int_equal(br_pl_device_of(pool, 0), 1);
    happen(0, (struct br_pl_event){.kind = BR_PL_DEVICE_DOWN, .device = 1});
    struct br_pl_hardware small = {.memory_bytes = 4000, .link_bytes_per_s = 1e4};
    assert_int_equal(br_pl_hardware_set(pool, 0, &small, &err), BR_EINVAL); /* it is up */
    assert_int_equal(br_pl_hardware_set(pool, 1, &small, &err), 0);
    happen(0, (struct br_pl_event){.kind = BR_PL_DEVICE_UP, .device = 1});
    assert_int_equal(br_pl_device_of(pool, 0), 1);
    arrive(0, 1, 0, 0); /* 7000 bytes do not fit on device 1 now */
    assert_int_equal(br_pl_device_of(pool, 1), 0);
}

static void pinned_weights_stay_and_take_their_room(void **state)
{
    (void)state;
    struct br_err err;
    struct br_pl_model models[] = {model(5000), model(4000), model(2000)};
    models[0].pinned = true;
    begin((struct br_pl_options){.policy = "slack"}, models, 3, 1, 0);
    arrive(0, 0, 0, 0);
    steps(.5, 0, 1);
    arrive(1, 1, 1, 0); /* 4000 and some KV beside 5000 are more than 8000 */
    assert_int_equal(br_pl_device_of(pool, 1), -1);
    arrive(1, 2, 2, 0); /* 2000 are not */
    assert_int_equal(br_pl_device_of(pool, 2), 0);
    models[0].pinned = false;
    assert_int_equal(br_pl_model_set(pool, 0, &models[0], &err), 0);
    happen(2, (struct br_pl_event){.kind = BR_PL_TICK});
    assert_int_equal(br_pl_device_of(pool, 1), 0);
}

static void removed_model_ends_its_sequences(void **state)
{
    (void)state;
    struct br_err err;
    struct br_pl_model models[] = {model(2000), model(2000)};
    begin((struct br_pl_options){.policy = "slack"}, models, 2, 1, 0);
    arrive(0, 0, 0, 0);
    arrive(0, 1, 1, 0);
    steps(.5, 0, 1);
    happen(1, (struct br_pl_event){.kind = BR_PL_MODEL_GONE, .model = 0});
    assert_non_null(find(BR_PL_GONE, 0));
    assert_null(find(BR_PL_GONE, 1));
    assert_int_equal(pool->models[0].weights_bytes, 0);
    models[0].weights_bytes = 3000;
    assert_int_equal(br_pl_model_set(pool, 0, &models[0], &err), 0);
    models[1].weights_bytes = 3000;
    assert_int_equal(br_pl_model_set(pool, 1, &models[1], &err), BR_EINVAL); /* has a sequence */
    models[0].tbt_s = -1;
    assert_int_equal(br_pl_model_set(pool, 0, &models[0], &err), BR_EINVAL);
}

/* 2 models of 3000 on a host of 6050: room for 50 bytes of KV, and there are 100. */
static void kv_that_the_host_has_no_room_for_is_computed_again(void **state)
{
    (void)state;
    struct br_pl_model models[] = {model(3000), model(3000)};
    begin((struct br_pl_options){.policy = "slack"}, models, 2, 1, 6050);
    arrive(0, 0, 0, 0);
    steps(.5, 0, 1);
    happen(.6, (struct br_pl_event){.kind = BR_PL_END, .seq = 0}); /* takes it out of its second step, too */
    arrive(.6, 1, 0, 0);
    happen(.7, (struct br_pl_event){.kind = BR_PL_STEP_END});
    steps(.8, 0, 1);
    happen(.9, (struct br_pl_event){.kind = BR_PL_PAUSE, .seq = 1});
    happen(1, (struct br_pl_event){.kind = BR_PL_STEP_DONE}); /* 101 bytes have to go */
    assert_non_null(find(BR_PL_RECOMPUTE, 1));
    assert_int_equal(pool->seqs[1].kv, 0);
    assert_int_equal(pool->seqs[1].left, 102);
}

/* The leader's books: a decode step of one sequence takes .011 s, TBT is .1 s. */
static void mirror_is_told_and_begins_nothing(void **state)
{
    (void)state;
    struct br_pl_model m = model(2000);
    begin((struct br_pl_options){.policy = "slack", .mirror = true}, &m, 1, 2, 0);
    struct br_pl_event e = {.kind = BR_PL_ARRIVE, .prompt = 100};
    br_pl_tell(pool, 0, &e, &did);
    assert_int_equal(did.n, 1);
    assert_int_equal(did.list[0].kind, BR_PL_ASSIGN);
    e = (struct br_pl_event){.kind = BR_PL_RESIDENT, .bytes = 2000};
    br_pl_tell(pool, 1, &e, &did);
    e = (struct br_pl_event){.kind = BR_PL_PROGRESS, .delivered = 5};
    br_pl_tell(pool, 1, &e, &did);
    assert_int_equal(pool->seqs[0].kv, 104); /* the last token has none yet */
    assert_true(br_pl_util(pool, 0) > .11 - 1e-9 && br_pl_util(pool, 0) < .11 + 1e-9);
    e = (struct br_pl_event){.kind = BR_PL_END};
    br_pl_tell(pool, 2, &e, &did);
    assert_true(br_pl_util(pool, 0) <= 0);
    assert_int_equal(pool->devices[0].used, 2000);
}

static void adopted_sequence_runs_where_it_is(void **state)
{
    (void)state;
    struct br_pl_model m = model(2000);
    begin((struct br_pl_options){.policy = "slack", .mirror = true}, &m, 1, 3, 0);
    happen(0, (struct br_pl_event){.kind = BR_PL_ARRIVE,
                                   .prompt = 100,
                                   .delivered = 20,
                                   .placed = true,
                                   .device = 2,
                                   .kv = true,
                                   .kv_here = true,
                                   .age_s = 3});
    assert_int_equal(br_pl_device_of(pool, 0), 2);
    assert_int_equal(pool->seqs[0].state, BR_PL_RUNNING);
    assert_int_equal(pool->seqs[0].kv, 119);
    double key = br_pl_slot_key(pool, 0, 2, 0); /* -3 + 10 + 20 * .1 */
    assert_true(key > 9 - 1e-9 && key < 9 + 1e-9);
}

static void every_step_of_another_slot(void **state)
{
    (void)state;
    struct br_pl_model models[] = {model(2000), model(2000), model(2000)};
    begin((struct br_pl_options){.policy = "slack", .switch_every_step = true}, models, 3, 1, 0);
    for (uint32_t i = 0; i < 3; i++)
        arrive(0, i, i, 0);
    steps(1, 0, 3);
    for (int i = 0, last = -1; i < 12; i++) {
        const struct br_pl_device *d = &pool->devices[0];
        assert_int_not_equal(d->step.slot, last);
        last = d->step.slot;
        steps(1, 0, 1);
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pool->seqs[i].delivered, 5);
}

static void shortest_job_first(void **state)
{
    static const uint32_t outputs[] = {50, 40, 10, 30};
    uint32_t order[4], n = 0;
    (void)state;
    struct br_pl_model models[] = {model(7000), model(7000), model(7000), model(7000)};
    begin((struct br_pl_options){.policy = "request-sjf"}, models, 4, 1, 0);
    for (uint32_t i = 0; i < 4; i++) {
        happen(0, (struct br_pl_event){.kind = BR_PL_ARRIVE, .seq = i, .model = i, .prompt = 10, .output = outputs[i]});
        if (i == 0)
            order[n++] = (uint32_t)pool->devices[0].link.slot; /* it was alone */
    }
    while (n < 4) {
        const struct br_pl_device *d = &pool->devices[0];
        int32_t before = d->loading;
        for (uint32_t i = 0; d->step.slot >= 0 && i < d->step.n; i++)
            pool->devices[0].step.items[i].ended = true;
        happen(1, (struct br_pl_event){.kind = d->step.slot >= 0 ? BR_PL_STEP_DONE : BR_PL_LOAD_DONE});
        if (d->loading >= 0 && d->loading != before)
            order[n++] = (uint32_t)d->loading;
    }
    assert_int_equal(order[1], 2);
    assert_int_equal(order[2], 3);
    assert_int_equal(order[3], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(weight_counts_as_a_shorter_ttft, end),
        cmocka_unit_test_teardown(heavier_sequences_come_first, end),
        cmocka_unit_test_teardown(deadline_clock_stands_still_while_paused, end),
        cmocka_unit_test_teardown(sequences_of_a_lost_device_go_elsewhere_without_kv, end),
        cmocka_unit_test_teardown(draining_device_gets_nothing_new, end),
        cmocka_unit_test_teardown(model_goes_where_it_may_and_fits, end),
        cmocka_unit_test_teardown(pinned_weights_stay_and_take_their_room, end),
        cmocka_unit_test_teardown(removed_model_ends_its_sequences, end),
        cmocka_unit_test_teardown(kv_that_the_host_has_no_room_for_is_computed_again, end),
        cmocka_unit_test_teardown(mirror_is_told_and_begins_nothing, end),
        cmocka_unit_test_teardown(adopted_sequence_runs_where_it_is, end),
        cmocka_unit_test_teardown(every_step_of_another_slot, end),
        cmocka_unit_test_teardown(shortest_job_first, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
