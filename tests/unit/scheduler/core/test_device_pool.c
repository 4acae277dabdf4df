/* br_dev with `slack`: what the worker is asked for, and what happens when it does less. Weights come in chunks of 400
 * bytes. */
#include <string.h>

#include "scheduler/core/device.h"
#include "tests/cmocka.h"

static struct br_dev *dev;
static struct br_dev_actions did;
static double now_s;

static const struct br_dev_config usual = {
    .policy = "slack",
    .memory_bytes = 3000,
    .link_bytes_per_s = 1e4,
    .chunk_bytes = 400,
    .max_slots = 4,
    .max_seqs = 16,
    .max_batch = 8,
    .max_step_tokens = 64,
    .prefill_chunk = 32,
    .quota_max_s = 4,
};

static void begin(void)
{
    struct br_err err;
    now_s = 100;
    assert_int_equal(br_dev_create(&usual, &dev, &err), 0);
}

static int end(void **state)
{
    (void)state;
    br_dev_destroy(dev);
    dev = NULL;
    return 0;
}

static void happen(struct br_dev_event event)
{
    struct br_err err = {0};
    br_dev_step(dev, now_s, &event, &did);
    if (br_dev_check(dev, &err))
        fail_msg("%s", err.msg);
}

static void slot_add(uint32_t slot, uint64_t bytes, bool pinned)
{
    struct br_dev_event e = {BR_DEV_SLOT_ADD, .slot = slot, .ttft_s = 10, .tbt_s = .1, .pinned = pinned};
    e.bytes_all = bytes;
    e.kv_token_bytes = 1;
    e.shape = (struct br_step_shape){.fixed_s = .001, .read_s = .005, .row_s = .0001};
    happen(e);
}

static void seq_add(uint32_t slot, uint32_t seq, uint32_t tokens)
{
    happen((struct br_dev_event){BR_DEV_SEQ_ADD, .slot = slot, .seq = seq, .tokens = tokens});
}

static void weights(uint32_t slot, uint64_t bytes, uint64_t all)
{
    happen((struct br_dev_event){BR_DEV_WEIGHTS, .slot = slot, .bytes = bytes, .bytes_all = all});
}

static void loaded(uint32_t slot, uint64_t bytes, uint64_t all)
{
    weights(slot, bytes, all);
    happen((struct br_dev_event){BR_DEV_LOADED, .slot = slot});
}

static void kv(uint32_t seq, enum br_dev_kv where)
{
    happen((struct br_dev_event){BR_DEV_KV, .seq = seq, .kv = where});
}

static void boundary(void)
{
    happen((struct br_dev_event){.kind = BR_DEV_BOUNDARY});
}

static const struct br_dev_action *find(enum br_dev_action_kind kind)
{
    for (uint32_t i = 0; i < did.n_actions; i++)
        if (did.actions[i].kind == kind)
            return &did.actions[i];
    return NULL;
}

static void step_ran(void)
{
    struct br_dev_actions step = did;
    uint32_t slot = find(BR_DO_STEP)->slot;
    now_s += .01;
    for (uint32_t i = 0; i < step.n_items; i++)
        happen((struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = step.items[i].seq, .tokens = step.items[i].tokens,
                                     .emitted = step.items[i].last});
    happen((struct br_dev_event){BR_DEV_STEP_DONE, .slot = slot, .step_s = .01});
}

/* A slot with its weights in and n sequences of 20 tokens, whose prompts have run. */
static void slot_run(uint32_t slot, uint64_t bytes, uint32_t first, uint32_t n)
{
    slot_add(slot, bytes, false);
    weights(slot, bytes, bytes);
    for (uint32_t i = 0; i < n; i++)
        seq_add(slot, first + i, 20);
    for (bool ran = false; !ran;) {
        boundary();
        ran = find(BR_DO_STEP)->slot == slot;
        step_ran();
    }
}

static void what_cannot_be_is_refused(void **state)
{
    struct br_dev_config c = usual;
    struct br_err err;
    (void)state;
    c.policy = "slak";
    assert_int_equal(br_dev_create(&c, &dev, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "quota-rr"));
    assert_non_null(strstr(err.msg, "slack"));
    c = usual;
    c.memory_bytes = 0;
    assert_int_equal(br_dev_create(&c, &dev, &err), BR_EINVAL);
    c = usual;
    c.link_bytes_per_s = -1;
    assert_int_equal(br_dev_create(&c, &dev, &err), BR_EINVAL);
}

static void weights_come_in_chunks_then_it_steps(void **state)
{
    static const uint64_t chunks[] = {400, 400, 200};
    uint64_t there = 0;
    (void)state;
    begin();
    slot_add(0, 1000, false);
    seq_add(0, 3, 40);
    for (int i = 0; i < 3; i++) {
        boundary();
        assert_null(find(BR_DO_STEP));
        assert_int_equal(find(BR_DO_LOAD)->bytes, chunks[i]);
        assert_true(did.wake_s > now_s);
        loaded(0, there += chunks[i], 1000);
    }
    boundary();
    assert_int_equal(find(BR_DO_STEP)->slot, 0);
    assert_int_equal(did.n_items, 1);
    assert_int_equal(did.items[0].seq, 3);
    assert_int_equal(did.items[0].tokens, 32); /* prefill_chunk */
    assert_false(did.items[0].last);
    step_ran();
    boundary();
    assert_int_equal(did.items[0].tokens, 8);
    assert_true(did.items[0].last);
}

/* A unit cannot be split: one of 700 bytes needs room for 700, and what is left is 300. */
static void load_asks_for_what_its_next_unit_needs(void **state)
{
    (void)state;
    begin();
    slot_add(0, 1000, false);
    happen((struct br_dev_event){BR_DEV_WEIGHTS, .slot = 0, .bytes_all = 1000, .bytes_next = 700});
    seq_add(0, 0, 8);
    boundary();
    assert_non_null(find(BR_DO_LOAD));
    assert_int_equal(find(BR_DO_LOAD)->bytes, 700);
    happen((struct br_dev_event){BR_DEV_WEIGHTS, .slot = 0, .bytes = 700, .bytes_all = 1000, .bytes_next = 100});
    happen((struct br_dev_event){BR_DEV_LOADED, .slot = 0});
    boundary();
    assert_non_null(find(BR_DO_LOAD));
    assert_int_equal(find(BR_DO_LOAD)->bytes, 300);
}

static void beside_a_step_only_loads_begin(void **state)
{
    (void)state;
    begin();
    slot_run(0, 1000, 0, 1);
    boundary();
    assert_non_null(find(BR_DO_STEP));
    slot_add(1, 1000, false);
    seq_add(1, 1, 20);
    happen((struct br_dev_event){.kind = BR_DEV_BESIDE});
    assert_null(find(BR_DO_STEP));
    assert_int_equal(find(BR_DO_LOAD)->slot, 1);
}

/* What brought nothing is asked for again later, and then for twice as much. */
static void load_that_brought_nothing_is_not_repeated_at_once(void **state)
{
    (void)state;
    begin();
    slot_add(0, 1000, false);
    seq_add(0, 0, 20);
    boundary();
    assert_int_equal(find(BR_DO_LOAD)->bytes, 400);
    loaded(0, 0, 1000);
    boundary();
    assert_null(find(BR_DO_LOAD));
    assert_true(did.wake_s > now_s && did.wake_s < now_s + .2);
    now_s = did.wake_s;
    boundary();
    assert_int_equal(find(BR_DO_LOAD)->bytes, 800);
}

static void sequence_that_was_pushed_out_comes_back_later(void **state)
{
    (void)state;
    begin();
    slot_run(0, 1000, 0, 2);
    kv(1, BR_DEV_KV_MOVING);
    kv(1, BR_DEV_KV_ON_HOST);
    boundary();
    assert_null(find(BR_DO_SWAP_IN));
    assert_int_equal(did.n_items, 1);
    assert_int_equal(did.items[0].seq, 0);
    now_s += .2;
    step_ran();
    boundary();
    assert_int_equal(find(BR_DO_SWAP_IN)->seq, 1);
    assert_int_equal(did.n_items, 1); /* the other goes on meanwhile */
    step_ran();
    kv(1, BR_DEV_KV_MOVING);
    kv(1, BR_DEV_KV_ON_DEVICE);
    boundary();
    assert_int_equal(did.n_items, 2);
}

static void paused_sequence_gets_no_rows(void **state)
{
    (void)state;
    begin();
    slot_run(0, 1000, 0, 2);
    happen((struct br_dev_event){BR_DEV_SEQ_PAUSE, .seq = 0});
    boundary();
    assert_int_equal(did.n_items, 1);
    assert_int_equal(did.items[0].seq, 1);
    step_ran();
    happen((struct br_dev_event){BR_DEV_SEQ_RESUME, .seq = 0});
    boundary();
    assert_int_equal(did.n_items, 2);
}

static void step_that_found_no_room_lets_others_go_first(void **state)
{
    (void)state;
    begin();
    slot_run(0, 1000, 0, 1);
    slot_run(1, 1000, 1, 1);
    boundary();
    uint32_t first = find(BR_DO_STEP)->slot;
    boundary(); /* nothing of it ran */
    assert_int_equal(find(BR_DO_STEP)->slot, 1 - first);
}

static void victims_are_what_is_needed_latest(void **state)
{
    (void)state;
    begin();
    slot_run(0, 500, 0, 2);
    slot_run(1, 500, 2, 2);
    slot_add(2, 500, false);
    weights(2, 500, 500);
    boundary(); /* a step of one of the two runs */
    uint32_t stepping = find(BR_DO_STEP)->slot, other = 1 - stepping;
    assert_int_equal(br_dev_weights_victim(dev, 3), 2); /* no sequences, no rate known: never needed */
    assert_int_equal(br_dev_weights_victim(dev, 2), other);
    assert_int_equal(br_dev_kv_victim(dev, stepping, 0), 2 * other + 1); /* the youngest of the other */
    assert_int_equal(br_dev_next_slot(dev), other);
}

static void pinned_weights_are_no_victims(void **state)
{
    (void)state;
    begin();
    slot_add(0, 500, true);
    weights(0, 500, 500);
    assert_int_equal(br_dev_weights_victim(dev, 1), -1);
}

/* 2900 of 3000 bytes are weights, a sequence of 200 tokens never fits. */
static void sequence_too_large_for_the_device_fails(void **state)
{
    int failed = -1;
    (void)state;
    begin();
    slot_add(0, 2600, false); /* with the 300 tokens that a model needs beside its weights it is served */
    weights(0, 2600, 2600);
    seq_add(0, 5, 500);
    for (int i = 0; i < 200 && failed < 0; i++) {
        boundary();
        if (find(BR_DO_FAIL))
            failed = (int)find(BR_DO_FAIL)->seq;
        else if (find(BR_DO_STEP))
            step_ran();
        else
            now_s = did.wake_s;
    }
    assert_int_equal(failed, 5);
    happen((struct br_dev_event){BR_DEV_SEQ_END, .seq = 5});
}

/* 100 tokens in chunks of 32, of which 48 turn out to be known before the first step: 52 rows are asked for. */
static void what_is_found_is_not_asked_for(void **state)
{
    uint32_t rows = 0;
    (void)state;
    begin();
    slot_add(0, 400, false);
    weights(0, 400, 400);
    seq_add(0, 0, 100);
    happen((struct br_dev_event){BR_DEV_SEQ_FOUND, .seq = 0, .tokens = 48});
    for (bool last = false; !last;) {
        boundary();
        assert_non_null(find(BR_DO_STEP));
        rows += did.items[0].tokens;
        last = did.items[0].last;
        step_ran();
    }
    assert_int_equal(rows, 52);
}

/* They turn out to be known, all but 4, when the first step is made up, which then is the last one of the prompt. */
static void found_while_its_step_is_made_up(void **state)
{
    (void)state;
    begin();
    slot_add(0, 400, false);
    weights(0, 400, 400);
    seq_add(0, 0, 100);
    boundary();
    assert_int_equal(did.items[0].tokens, 32);
    assert_false(did.items[0].last);
    happen((struct br_dev_event){BR_DEV_SEQ_FOUND, .seq = 0, .tokens = 96});
    now_s += .01;
    happen((struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = 0, .tokens = 4, .emitted = 1});
    happen((struct br_dev_event){BR_DEV_STEP_DONE, .slot = 0, .step_s = .01});
    boundary();
    assert_int_equal(did.n_items, 1);
    assert_int_equal(did.items[0].tokens, 1);
    assert_true(did.items[0].last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test_teardown(weights_come_in_chunks_then_it_steps, end),
        cmocka_unit_test_teardown(load_asks_for_what_its_next_unit_needs, end),
        cmocka_unit_test_teardown(beside_a_step_only_loads_begin, end),
        cmocka_unit_test_teardown(load_that_brought_nothing_is_not_repeated_at_once, end),
        cmocka_unit_test_teardown(sequence_that_was_pushed_out_comes_back_later, end),
        cmocka_unit_test_teardown(paused_sequence_gets_no_rows, end),
        cmocka_unit_test_teardown(step_that_found_no_room_lets_others_go_first, end),
        cmocka_unit_test_teardown(victims_are_what_is_needed_latest, end),
        cmocka_unit_test_teardown(pinned_weights_are_no_victims, end),
        cmocka_unit_test_teardown(sequence_too_large_for_the_device_fails, end),
        cmocka_unit_test_teardown(what_is_found_is_not_asked_for, end),
        cmocka_unit_test_teardown(found_while_its_step_is_made_up, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
