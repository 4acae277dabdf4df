#include <math.h>
#include <string.h>

#include "scheduler/core/device.h"
#include "tests/cmocka.h"

static struct br_dev *dev;
static struct br_dev_actions did;
static double now_s;

static const struct br_dev_config usual = {
    .policy = "quota-rr",
    .max_slots = 8,
    .max_seqs = 64,
    .max_batch = 8,
    .max_step_tokens = 64,
    .prefill_chunk = 32,
    .quota_max_s = 4,
};

static void begin(struct br_dev_config config)
{
    struct br_err err;
    now_s = 100;
    assert_int_equal(br_dev_create(&config, &dev, &err), 0);
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

static void slot_add(uint32_t slot, double step_s, double load_s)
{
    happen((struct br_dev_event){BR_DEV_SLOT_ADD, .slot = slot, .step_s = step_s, .load_s = load_s, .tbt_s = 0.1});
}

static void seq_add(uint32_t slot, uint32_t seq, uint32_t tokens)
{
    happen((struct br_dev_event){BR_DEV_SEQ_ADD, .slot = slot, .seq = seq, .tokens = tokens, .ttft_s = 10});
}

static void seq_end(uint32_t seq)
{
    happen((struct br_dev_event){BR_DEV_SEQ_END, .seq = seq});
}

static void kv(uint32_t seq, enum br_dev_kv where)
{
    happen((struct br_dev_event){BR_DEV_KV, .seq = seq, .kv = where});
}

static void weights(uint32_t slot, uint64_t bytes)
{
    happen((struct br_dev_event){BR_DEV_WEIGHTS, .slot = slot, .bytes = bytes, .bytes_all = 100});
}

static void boundary(void)
{
    happen((struct br_dev_event){.kind = BR_DEV_BOUNDARY});
}

static uint32_t count(enum br_dev_action_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < did.n_actions; i++)
        n += did.actions[i].kind == kind;
    return n;
}

static const struct br_dev_action *find(enum br_dev_action_kind kind, uint32_t nth)
{
    for (uint32_t i = 0; i < did.n_actions; i++)
        if (did.actions[i].kind == kind && nth-- == 0)
            return &did.actions[i];
    fail_msg("action %d was not asked for", (int)kind);
    return NULL;
}

static int32_t stepping(void)
{
    return count(BR_DO_STEP) ? (int32_t)find(BR_DO_STEP, 0)->slot : -1;
}

/* Runs the step that was decided: it takes step_s, and every last row gives a token. */
static void step_ran(double took_s, double step_s)
{
    struct br_dev_actions step = did;
    uint32_t slot = find(BR_DO_STEP, 0)->slot;
    now_s += took_s;
    for (uint32_t i = 0; i < step.n_items; i++)
        happen((struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = step.items[i].seq, .tokens = step.items[i].tokens,
                                     .emitted = step.items[i].last});
    happen((struct br_dev_event){BR_DEV_STEP_DONE, .slot = slot, .step_s = step_s});
}

static int32_t step_one(double step_s)
{
    int32_t slot;
    boundary();
    slot = stepping();
    step_ran(step_s, step_s);
    return slot;
}

/* Aegaeon 4.3: 3 batches, d = .1, t = .025, c = 3 (1 s each), Q_MAX = 3 -> q = 3 s, 120 tokens a turn, a round of
 * 12 s. The device holds the weights of one model. */
static void worked_example(void **state)
{
    struct br_dev_config config = usual;
    double turn_began = 0, round_began = -1;
    int32_t was = -1;
    int tokens = 0, turns = 0;
    (void)state;
    config.quota_max_s = 3;
    begin(config);
    for (uint32_t i = 0; i < 3; i++) {
        slot_add(i, 0.025, 1);
        weights(i, 0);
        seq_add(i, i, 1);
    }
    while (turns < 20) {
        int32_t slot;
        boundary();
        slot = stepping();
        if (slot != was) {
            struct br_dev_actions kept = did;
            assert_int_equal(find(BR_DO_LOAD, 0)->slot, slot);
            assert_int_equal(find(BR_DO_LOAD, 1)->slot, (slot + 1) % 3);
            if (turns++ > 0) {
                assert_int_equal(slot, (was + 1) % 3);
                assert_int_equal(tokens, 120);
                assert_true(fabs(now_s - turn_began - 4) < 1e-6);
                assert_true(fabs(br_dev_quota_s(dev, (uint32_t)was) - 3) < 1e-6);
            }
            if (slot == 0) {
                assert_true(round_began < 0 || fabs(now_s - round_began - 12) < 1e-6);
                round_began = now_s;
            }
            turn_began = now_s;
            tokens = 0;
            if (was >= 0)
                weights((uint32_t)was, 0);
            now_s += 1;
            weights((uint32_t)slot, 100);
            did = kept;
        }
        tokens += (int)did.n_items;
        was = slot;
        step_ran(0.025, 0.025);
    }
}

static void alone_until_the_list_changes(void **state)
{
    (void)state;
    begin(usual);
    slot_add(0, 0.02, 1);
    slot_add(1, 0.02, 1);
    seq_add(0, 0, 10);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(step_one(0.02), 0);
    assert_true(isinf(br_dev_quota_s(dev, 0)));
    assert_int_equal(br_dev_next_slot(dev), -1);
    seq_add(1, 1, 10);
    assert_int_equal(br_dev_next_slot(dev), 1);
    assert_int_equal(step_one(0.02), 1); /* 20 s are more than any quota */
    assert_true(br_dev_quota_s(dev, 1) <= 4);
}

/* c = 0: turns cost nothing, so one step each. */
static void resident_slots_alternate(void **state)
{
    (void)state;
    begin(usual);
    for (uint32_t i = 0; i < 3; i++) {
        slot_add(i, 0.02, 1);
        weights(i, 100);
        seq_add(i, i, 1);
    }
    for (int i = 0; i < 30; i++) {
        assert_int_equal(step_one(0.02), i % 3);
        assert_int_equal(count(BR_DO_LOAD), 0);
    }
}

/* One wild step moves the estimate by a factor of 1.6 at most; with c = 0 the quota is the estimate. */
static void estimate_is_robust(void **state)
{
    double q;
    (void)state;
    begin(usual);
    for (uint32_t i = 0; i < 2; i++) {
        slot_add(i, 0.02, 1);
        weights(i, 100);
        seq_add(i, i, 1);
    }
    for (int i = 0; i < 10; i++)
        step_one(0.02);
    boundary();
    step_ran(100, 100);
    for (int i = 0; i < 3; i++)
        step_one(0.02);
    q = fmax(br_dev_quota_s(dev, 0), br_dev_quota_s(dev, 1));
    assert_true(q > 0.02 && q <= 0.02 * 1.6 + 1e-12);
    for (int i = 0; i < 200; i++)
        step_one(0.03);
    assert_true(fabs(br_dev_quota_s(dev, 0) - 0.03) < 1e-6);
}

static void prompts_first_come_first_served(void **state)
{
    (void)state;
    begin(usual);
    slot_add(0, 0.02, 0);
    seq_add(0, 5, 1);
    seq_add(0, 6, 1);
    step_one(0.02); /* two decodes from now on */
    seq_add(0, 9, 50);
    seq_add(0, 3, 40);
    happen((struct br_dev_event){BR_DEV_SEQ_ADD, .seq = 7, .tokens = 20, .age_s = 5}); /* came before the others */
    boundary();
    assert_int_equal(did.n_items, 5);
    assert_int_equal(did.items[0].seq, 5);
    assert_true(did.items[0].tokens == 1 && did.items[0].last);
    assert_int_equal(did.items[1].seq, 6);
    assert_int_equal(did.items[2].seq, 7); /* 20 of 20 */
    assert_true(did.items[2].tokens == 20 && did.items[2].last);
    assert_int_equal(did.items[3].seq, 9); /* one chunk of 32 */
    assert_true(did.items[3].tokens == 32 && !did.items[3].last);
    assert_int_equal(did.items[4].seq, 3); /* what is left of 64 rows */
    assert_true(did.items[4].tokens == 64 - 2 - 20 - 32 && !did.items[4].last);
    step_ran(0.02, 0.02);
    boundary();
    assert_int_equal(did.items[3].seq, 9);
    assert_true(did.items[3].tokens == 18 && did.items[3].last);
    assert_int_equal(did.items[4].seq, 3);
    assert_true(did.items[4].tokens == 30 && did.items[4].last);
}

static void batch_and_rows_are_bounded(void **state)
{
    struct br_dev_config config = usual;
    (void)state;
    config.max_step_tokens = 4;
    begin(config);
    slot_add(0, 0.02, 0);
    for (uint32_t i = 0; i < 20; i++)
        seq_add(0, i, 3);
    for (int i = 0; i < 60; i++) {
        uint32_t rows = 0;
        boundary();
        for (uint32_t k = 0; k < did.n_items; k++)
            rows += did.items[k].tokens;
        assert_true(did.n_items <= 8 && rows <= 4 && rows > 0);
        step_ran(0.02, 0.02);
        if (i % 3 == 2)
            seq_end((uint32_t)i / 3); /* the oldest always runs */
    }
}

/* Asked once; the slot starts with the ones that are in. */
static void starts_with_the_ones_that_are_in(void **state)
{
    (void)state;
    begin(usual);
    slot_add(0, 0.02, 0);
    for (uint32_t i = 0; i < 3; i++)
        seq_add(0, i, 1);
    step_one(0.02);
    for (uint32_t i = 0; i < 3; i++) {
        kv(i, BR_DEV_KV_MOVING);
        kv(i, BR_DEV_KV_ON_HOST);
    }
    now_s += 2; /* the shortage is over */
    boundary();
    assert_int_equal(stepping(), -1);
    assert_int_equal(count(BR_DO_SWAP_IN), 3);
    assert_int_equal(find(BR_DO_SWAP_IN, 0)->seq, 0);
    assert_true(did.wake_s > now_s);
    for (uint32_t i = 0; i < 3; i++)
        kv(i, BR_DEV_KV_MOVING);
    boundary();
    assert_int_equal(count(BR_DO_SWAP_IN) + count(BR_DO_STEP), 0);
    kv(1, BR_DEV_KV_ON_DEVICE);
    boundary();
    assert_int_equal(count(BR_DO_SWAP_IN), 0);
    assert_int_equal(stepping(), 0);
    assert_int_equal(did.n_items, 1);
    assert_int_equal(did.items[0].seq, 1);
    step_ran(0.02, 0.02);
    kv(0, BR_DEV_KV_ON_DEVICE);
    kv(2, BR_DEV_KV_ON_DEVICE);
    boundary();
    assert_int_equal(did.n_items, 3);
}

/* A refused swap-in gives the turn to a slot that can run, and is asked again when room may be free. */
static void refused_swap_in_does_not_block(void **state)
{
    (void)state;
    begin(usual);
    for (uint32_t i = 0; i < 2; i++) {
        slot_add(i, 0.02, 1);
        weights(i, 100);
        seq_add(i, i, 1);
    }
    step_one(0.02);
    step_one(0.02);
    kv(0, BR_DEV_KV_MOVING);
    kv(0, BR_DEV_KV_ON_HOST);
    boundary();
    assert_int_equal(find(BR_DO_SWAP_IN, 0)->seq, 0);
    assert_int_equal(stepping(), -1);
    kv(0, BR_DEV_KV_ON_HOST); /* refused */
    boundary();
    assert_int_equal(count(BR_DO_SWAP_IN), 0);
    assert_int_equal(stepping(), 1);
    step_ran(0.02, 0.02);
    seq_end(1);
    boundary();
    assert_int_equal(find(BR_DO_SWAP_IN, 0)->seq, 0);
    kv(0, BR_DEV_KV_ON_HOST);
    boundary(); /* nothing else can run: again at the retry time, not before */
    assert_int_equal(count(BR_DO_SWAP_IN), 0);
    now_s = did.wake_s;
    boundary();
    assert_int_equal(find(BR_DO_SWAP_IN, 0)->seq, 0);
}

/* While one slot computes the next one's KV comes in, asked for once a turn; it is not the next one's turn before that.
 */
static void next_slots_kv_comes_in_ahead(void **state)
{
    (void)state;
    begin(usual);
    for (uint32_t i = 0; i < 2; i++) {
        slot_add(i, 0.02, 1);
        weights(i, 0);
    }
    seq_add(0, 0, 1);
    seq_add(1, 1, 1);
    seq_add(1, 2, 1);
    while (step_one(0.02) != 1)
        ;
    while (step_one(0.02) != 0) /* slot 1 was left with KV: it goes out */
        ;
    for (uint32_t i = 1; i < 3; i++) {
        kv(i, BR_DEV_KV_MOVING);
        kv(i, BR_DEV_KV_ON_HOST);
    }
    now_s += 2;
    boundary();
    if (stepping() == 1)
        fail_msg("slot 1 runs without its KV");
    assert_int_equal(stepping(), 0);
    assert_int_equal(count(BR_DO_SWAP_IN_AHEAD), 2);
    assert_int_equal(find(BR_DO_SWAP_IN_AHEAD, 0)->seq, 1);
    assert_int_equal(find(BR_DO_SWAP_IN_AHEAD, 0)->slot, 1);
    step_ran(0.001, 0.001);
    boundary();
    if (stepping() == 0)
        assert_int_equal(count(BR_DO_SWAP_IN_AHEAD), 0);
}

static void a_turn_ends_with_the_work(void **state)
{
    (void)state;
    begin(usual);
    for (uint32_t i = 0; i < 3; i++) {
        slot_add(i, 0.02, 1);
        seq_add(i, i, 1);
    }
    assert_int_equal(step_one(0.02), 0);
    seq_end(0);
    assert_int_equal(step_one(0.02), 1);
    seq_add(1, 9, 5); /* joins the running turn */
    boundary();
    assert_int_equal(stepping(), 1);
    assert_int_equal(did.n_items, 2);
    step_ran(0.02, 0.02);
    seq_add(0, 0, 1); /* had its turn: waits for the next round, behind slot 2 */
    assert_int_equal(br_dev_next_slot(dev), 2);
    seq_end(1);
    seq_end(9);
    assert_int_equal(step_one(0.02), 2);
    assert_int_equal(br_dev_next_slot(dev), 0);
}

/* Two slots that come back at once after each of their turns do not shut out the third. */
static void comers_back_do_not_starve_others(void **state)
{
    int last = 0;
    (void)state;
    begin(usual);
    for (uint32_t i = 0; i < 3; i++) {
        slot_add(i, 0.02, 1);
        seq_add(i, i, 1);
    }
    for (int i = 0; i < 3000; i++) {
        int32_t slot = step_one(0.02);
        if (slot == 0)
            last = i;
        else {
            seq_end((uint32_t)slot);
            seq_add((uint32_t)slot, (uint32_t)slot, 1);
        }
        assert_true(i - last < 10);
    }
}

static void reset_prefills_again(void **state)
{
    (void)state;
    begin(usual);
    slot_add(0, 0.02, 1);
    seq_add(0, 0, 10);
    for (int i = 0; i < 5; i++)
        step_one(0.02);
    happen((struct br_dev_event){BR_DEV_SEQ_RESET, .seq = 0, .tokens = 15});
    boundary();
    assert_true(did.items[0].tokens == 15 && did.items[0].last);
    step_ran(0.02, 0.02);
    boundary();
    assert_true(did.items[0].tokens == 1 && did.items[0].last);
}

static void weights_victims(void **state)
{
    (void)state;
    begin(usual);
    for (uint32_t i = 0; i < 6; i++) {
        slot_add(i, 0.02, 1);
        weights(i, 100);
    }
    seq_add(4, 4, 1);
    step_one(0.02);
    seq_end(4);
    for (uint32_t i = 0; i < 3; i++)
        seq_add(i, i, 1);
    boundary(); /* slot 0 runs; 1 and 2 follow; 3 and 5 never ran, 4 did */
    assert_int_equal(stepping(), 0);
    assert_int_equal(br_dev_weights_victim(dev, 1), 3);
    weights(3, 0);
    assert_int_equal(br_dev_weights_victim(dev, 1), 5);
    weights(5, 0);
    assert_int_equal(br_dev_weights_victim(dev, 1), 4);
    weights(4, 0);
    assert_int_equal(br_dev_weights_victim(dev, 1), 2);
    weights(2, 0);
    assert_int_equal(br_dev_weights_victim(dev, 1), -1); /* never the running one nor the target */
    assert_int_equal(br_dev_weights_victim(dev, 0), 1);
}

static void kv_victims(void **state)
{
    struct br_dev_config config = usual;
    (void)state;
    begin(config);
    for (uint32_t i = 0; i < 3; i++) {
        slot_add(i, 0.02, 1);
        weights(i, 100);
        seq_add(i, 10 * i, 1);
        seq_add(i, 10 * i + 1, 1);
    }
    for (int i = 0; i < 3; i++)
        step_one(0.02);
    boundary(); /* slot 0 runs, then 1, then 2 */
    assert_int_equal(stepping(), 0);
    assert_int_equal(br_dev_kv_victim(dev, 0, 0), 21);
    kv(21, BR_DEV_KV_MOVING);
    assert_int_equal(br_dev_kv_victim(dev, 0, 0), 20);
    kv(20, BR_DEV_KV_ON_HOST);
    assert_int_equal(br_dev_kv_victim(dev, 0, 0), 11);
    seq_end(10);
    seq_end(11);
    assert_int_equal(br_dev_kv_victim(dev, 0, 0), 1);
    assert_int_equal(br_dev_kv_victim(dev, 0, 1), 0); /* 1 runs: it may push out the other */
    seq_add(0, 2, 1);
    assert_int_equal(br_dev_kv_victim(dev, 0, 2), -1); /* new and youngest: waits */
    kv(1, BR_DEV_KV_ON_HOST);
    kv(0, BR_DEV_KV_ON_HOST);
    assert_int_equal(br_dev_kv_victim(dev, 0, 0), -1);
    assert_int_equal(br_dev_kv_victim(dev, 7, 0), -1);
}

/* A slot that had to push out its own sequence does not ask for it back before one ends, or a second has passed. */
static void own_shortage_does_not_thrash(void **state)
{
    (void)state;
    begin(usual);
    slot_add(0, 0.02, 1);
    seq_add(0, 0, 1);
    seq_add(0, 1, 1);
    step_one(0.02);
    kv(1, BR_DEV_KV_MOVING);
    kv(1, BR_DEV_KV_ON_HOST);
    seq_add(0, 2, 5);
    for (int i = 0; i < 10; i++) {
        boundary();
        assert_int_equal(count(BR_DO_SWAP_IN), 0);
        assert_int_equal(did.n_items, 1); /* a new prompt does not start either */
        step_ran(0.02, 0.02);
    }
    seq_end(0);
    boundary();
    assert_int_equal(find(BR_DO_SWAP_IN, 0)->seq, 1);
    assert_int_equal(did.items[0].seq, 2);
}

/* Tests of exactness: another slot after every token, all KV out and in. */
static void switch_every_step(void **state)
{
    struct br_dev_config config = usual;
    (void)state;
    config.switch_every_step = true;
    begin(config);
    for (uint32_t i = 0; i < 2; i++) {
        slot_add(i, 0.02, 1);
        seq_add(i, 2 * i, 1);
        seq_add(i, 2 * i + 1, 1);
    }
    for (uint32_t k = 0; k < 40; k++) {
        uint32_t slot = k % 2;
        boundary();
        if (k > 0) {
            uint32_t left = 2 * (1 - slot);
            assert_int_equal(count(BR_DO_SWAP_OUT), 2);
            assert_int_equal(find(BR_DO_SWAP_OUT, 0)->seq, left);
            assert_int_equal(find(BR_DO_SWAP_OUT, 1)->seq, left + 1);
        }
        if (k > 1) {
            assert_int_equal(count(BR_DO_SWAP_IN), 2);
            assert_int_equal(stepping(), -1);
            kv(2 * slot, BR_DEV_KV_MOVING);
            kv(2 * slot + 1, BR_DEV_KV_MOVING);
            kv(2 * slot + 1, BR_DEV_KV_ON_DEVICE);
            boundary();
            assert_int_equal(stepping(), -1); /* all of them first */
            kv(2 * slot, BR_DEV_KV_ON_DEVICE);
        }
        if (k > 0) {
            kv(2 * (1 - slot), BR_DEV_KV_ON_HOST);
            kv(2 * (1 - slot) + 1, BR_DEV_KV_ON_HOST);
        }
        if (k > 0)
            boundary();
        assert_int_equal(stepping(), slot);
        assert_int_equal(did.n_items, 2);
        step_ran(0.02, 0.02);
    }
}

static void bad_config(void **state)
{
    struct br_dev_config config = usual;
    struct br_dev *none = NULL;
    struct br_err err;
    (void)state;
    config.policy = "quota";
    assert_int_equal(br_dev_create(&config, &none, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "quota-rr"));
    config = usual;
    config.max_batch = BR_DEV_MAX_ITEMS + 1;
    assert_int_equal(br_dev_create(&config, &none, &err), BR_EINVAL);
    config = usual;
    config.quota_max_s = 0;
    assert_int_equal(br_dev_create(&config, &none, &err), BR_EINVAL);
    assert_null(none);
}

static void slots_come_and_go(void **state)
{
    (void)state;
    begin(usual);
    boundary();
    assert_int_equal(did.n_actions, 0);
    assert_true(did.wake_s < 0);
    slot_add(2, 0.02, 1);
    seq_add(2, 0, 1);
    step_one(0.02);
    seq_end(0);
    happen((struct br_dev_event){BR_DEV_SLOT_REMOVE, .slot = 2});
    kv(0, BR_DEV_KV_ON_HOST); /* late news of what has ended */
    happen((struct br_dev_event){BR_DEV_SEQ_STEPPED, .seq = 0, .tokens = 1});
    happen((struct br_dev_event){BR_DEV_STEP_DONE, .slot = 2, .step_s = 0.02});
    boundary();
    assert_int_equal(did.n_actions, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, end)
    const struct CMUnitTest tests[] = {
        T(worked_example),
        T(alone_until_the_list_changes),
        T(resident_slots_alternate),
        T(estimate_is_robust),
        T(prompts_first_come_first_served),
        T(batch_and_rows_are_bounded),
        T(starts_with_the_ones_that_are_in),
        T(refused_swap_in_does_not_block),
        T(next_slots_kv_comes_in_ahead),
        T(a_turn_ends_with_the_work),
        T(comers_back_do_not_starve_others),
        T(reset_prefills_again),
        T(weights_victims),
        T(kv_victims),
        T(own_shortage_does_not_thrash),
        T(switch_every_step),
        T(bad_config),
        T(slots_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
