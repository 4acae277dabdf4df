#include <math.h>
#include <string.h>

#include "scheduler/core/fleet.h"
#include "tests/cmocka.h"

/* Costs here are a reading time alone: a slot with a sequence needs step / TBT (.1 s) of its device, and while a prompt
 * is to be computed step / TTFT (10 s) more. */
static struct br_fleet *fleet;
static struct br_fleet_actions did;
static double now_s;

static void begin_with(const struct br_fleet_config *config)
{
    struct br_err err;
    now_s = 10;
    if (br_fleet_create(config, &fleet, &err))
        fail_msg("%s", err.msg);
}

static void begin(uint32_t devices, uint32_t models, uint32_t seqs, uint32_t unfinished)
{
    begin_with(&(struct br_fleet_config){
        .max_devices = devices, .max_models = models, .max_seqs = seqs, .max_unfinished = unfinished});
}

static int end(void **state)
{
    (void)state;
    br_fleet_destroy(fleet);
    fleet = NULL;
    return 0;
}

static void happen(struct br_fleet_event event)
{
    struct br_err err = {0};
    br_fleet_step(fleet, now_s, &event, &did);
    if (br_fleet_check(fleet, &err))
        fail_msg("%s", err.msg);
}

static void device(enum br_fleet_event_kind kind, uint32_t d)
{
    happen((struct br_fleet_event){kind, .device = d, .memory_bytes = 1 << 20, .link_bytes_per_s = 1 << 20});
}

static void model_on(uint32_t d, uint32_t m, double step_s)
{
    happen((struct br_fleet_event){BR_FLEET_MODEL_ON, .device = d, .model = m, .weights_bytes = 1000,
                                   .kv_token_bytes = 1, .shape = {.read_s = step_s}});
}

static void arrive(uint32_t seq, uint32_t m)
{
    happen((struct br_fleet_event){BR_FLEET_ARRIVE, .seq = seq, .model = m, .prompt = 100});
}

static void seq_end(uint32_t seq)
{
    happen((struct br_fleet_event){BR_FLEET_END, .seq = seq});
}

static void devices_up(uint32_t n, uint32_t models, double step_s)
{
    for (uint32_t d = 0; d < n; d++) {
        device(BR_FLEET_DEVICE_UP, d);
        for (uint32_t m = 0; m < models; m++)
            model_on(d, m, step_s);
    }
}

static void where(uint32_t seq, int32_t d)
{
    assert_int_equal(br_fleet_device_of(fleet, seq), d);
}

/* ---- placement ---- */

static void active_device_first_then_least_utilised(void **state)
{
    (void)state;
    begin(3, 5, 100, 100);
    devices_up(3, 5, 0.02);
    for (uint32_t i = 0; i < 20; i++)
        arrive(i, 0); /* one batch, though the others idle */
    for (uint32_t i = 0; i < 20; i++)
        where(i, br_fleet_device_of(fleet, 0));
    arrive(20, 1);
    arrive(21, 2);
    assert_int_not_equal(br_fleet_device_of(fleet, 20), br_fleet_device_of(fleet, 0));
    assert_int_not_equal(br_fleet_device_of(fleet, 21), br_fleet_device_of(fleet, 0));
    assert_int_not_equal(br_fleet_device_of(fleet, 21), br_fleet_device_of(fleet, 20));
}

/* Resident weights are worth .3 of a device: .2 of load on it are less, .4 are more. */
static void back_to_where_its_weights_are(void **state)
{
    (void)state;
    begin(2, 4, 10, 10);
    devices_up(2, 4, 0.02);
    happen((struct br_fleet_event){BR_FLEET_RESIDENT, .device = 1, .model = 0, .bytes = 1000});
    happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = 1, .model = 1, .device = 1, .prompt = 1});
    arrive(0, 0);
    where(0, 1);
    seq_end(0);
    happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = 2, .model = 2, .device = 1, .prompt = 1});
    arrive(0, 0);
    where(0, 0);
}

static void waits_for_a_device_that_serves_it(void **state)
{
    (void)state;
    begin(2, 2, 10, 10);
    arrive(3, 1);
    now_s++;
    arrive(1, 1);
    device(BR_FLEET_DEVICE_UP, 0);
    model_on(0, 0, 0.02);
    assert_int_equal(did.n, 0);
    assert_int_equal(br_fleet_waiting(fleet), 2);
    model_on(0, 1, 0.02);
    assert_int_equal(did.n, 2);
    assert_int_equal(did.actions[0].seq, 3); /* first come */
    assert_int_equal(did.actions[1].seq, 1);
    assert_int_equal(did.actions[0].kind, BR_FLEET_ASSIGN);
    assert_int_equal(br_fleet_waiting(fleet), 0);
}

static void down_reassigns(void **state)
{
    uint32_t seen = 0;
    (void)state;
    begin(2, 3, 32, 32);
    devices_up(1, 3, 0.02);
    for (uint32_t i = 0; i < 12; i++)
        arrive(31 - i, i % 3);
    device(BR_FLEET_DEVICE_UP, 1);
    model_on(1, 0, 0.02);
    model_on(1, 2, 0.02);
    device(BR_FLEET_DEVICE_DOWN, 0);
    assert_int_equal(did.n, 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(did.actions[i].kind, BR_FLEET_ASSIGN); /* nothing is left there to be released */
        assert_int_equal(did.actions[i].device, 1);
        seen |= 1u << did.actions[i].seq;
    }
    for (uint32_t i = 0; i < 12; i++) {
        where(31 - i, i % 3 == 1 ? -1 : 1);
        assert_int_equal(seen >> (31 - i) & 1, i % 3 != 1);
    }
    assert_int_equal(br_fleet_waiting(fleet), 4);
}

static void drain_gets_nothing_new(void **state)
{
    (void)state;
    begin(2, 1, 10, 10);
    devices_up(1, 1, 0.02);
    arrive(0, 0);
    device(BR_FLEET_DEVICE_UP, 1);
    model_on(1, 0, .02);
    device(BR_FLEET_DEVICE_DRAIN, 0);
    where(0, 0); /* runs on */
    arrive(1, 0);
    where(1, 1);
    device(BR_FLEET_DEVICE_DRAIN, 1);
    arrive(2, 0);
    where(2, -1);
    device(BR_FLEET_DEVICE_UP, 0);
    where(2, 0);
}

static void a_model_that_a_device_no_longer_serves(void **state)
{
    (void)state;
    begin(2, 1, 10, 10);
    devices_up(1, 1, 0.02);
    arrive(0, 0);
    device(BR_FLEET_DEVICE_UP, 1);
    model_on(1, 0, .02);
    happen((struct br_fleet_event){BR_FLEET_MODEL_OFF, .device = 0, .model = 0});
    assert_int_equal(did.n, 1);
    assert_true(did.actions[0].kind == BR_FLEET_MOVE && did.actions[0].from == 0 && did.actions[0].device == 1);
    happen((struct br_fleet_event){BR_FLEET_MODEL_OFF, .device = 1, .model = 0});
    assert_int_equal(did.n, 1);
    assert_true(did.actions[0].kind == BR_FLEET_UNASSIGN && did.actions[0].from == 1);
    where(0, -1);
    assert_int_equal(br_fleet_waiting(fleet), 1);
}

static void a_model_that_is_gone_and_comes_back(void **state)
{
    (void)state;
    begin(1, 2, 10, 10);
    devices_up(1, 2, 0.02);
    arrive(0, 0);
    arrive(1, 1);
    happen((struct br_fleet_event){BR_FLEET_MODEL_GONE, .model = 0});
    while (did.more) {
        assert_int_equal(did.n, 0);
        device(BR_FLEET_TICK, 0);
    }
    assert_int_equal(did.n, 1);
    assert_true(did.actions[0].kind == BR_FLEET_FAIL && did.actions[0].seq == 0);
    where(1, 0);
    model_on(0, 0, 0.02);
    arrive(2, 0);
    where(2, 0);
}

static void adopt(uint32_t seq, uint32_t d, uint32_t m)
{
    happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = seq, .device = d, .model = m, .prompt = 50});
}

static void adoption(void **state)
{
    (void)state;
    begin(3, 2, 10, 10);
    devices_up(3, 1, 0.02);
    happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = 0, .model = 1, .prompt = 50});
    where(0, -1);
    adopt(5, 2, 0);
    assert_int_equal(did.n, 0);
    where(5, 2);
    adopt(5, 1, 0); /* assigned already */
    where(5, 2);
    happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = 5, .model = 0, .prompt = 50}); /* known */
    where(5, 2);
    adopt(6, 1, 1); /* the device does not say that it serves the model */
    assert_true(did.n == 1 && did.actions[0].kind == BR_FLEET_UNASSIGN && did.actions[0].from == 1);
    where(6, -1);
    model_on(0, 1, 0.02);
    assert_int_equal(did.n, 2);
    where(0, 0);
    where(6, 0);
}

/* More to assign than actions fit: ticks bring the rest. */
static void more_than_fits(void **state)
{
    const uint32_t n = 2 * BR_FLEET_MAX_ACTIONS + 100;
    static bool seen[2 * BR_FLEET_MAX_ACTIONS + 100];
    uint32_t total = 0;
    (void)state;
    begin(1, 2, n, n);
    for (uint32_t i = 0; i < n; i++)
        br_fleet_step(fleet, now_s, &(struct br_fleet_event){BR_FLEET_ARRIVE, .seq = i, .model = i % 2, .prompt = 1},
                      &did);
    memset(seen, 0, sizeof seen);
    device(BR_FLEET_DEVICE_UP, 0);
    model_on(0, 0, 0.02);
    assert_true(did.more);
    device(BR_FLEET_DEVICE_DOWN, 0); /* in the middle of it */
    while (did.more)
        device(BR_FLEET_TICK, 0);
    assert_int_equal(br_fleet_waiting(fleet), n);
    device(BR_FLEET_DEVICE_UP, 0);
    for (uint32_t m = 0; m < 2; m++) {
        model_on(0, m, 0.02);
        for (;; device(BR_FLEET_TICK, 0)) {
            for (uint32_t i = 0; i < did.n; i++, total++) {
                assert_true(did.actions[i].kind == BR_FLEET_ASSIGN && !seen[did.actions[i].seq]);
                seen[did.actions[i].seq] = true;
            }
            if (!did.more)
                break;
        }
    }
    assert_int_equal(total, n);
    assert_int_equal(br_fleet_waiting(fleet), 0);
}

/* ---- who is refused ---- */

static struct br_fleet_answer admits_n(uint32_t model, uint32_t n)
{
    return br_fleet_admits(fleet, now_s, &(struct br_fleet_request){.model = model, .n_seqs = n, .prompt = 1});
}

static struct br_fleet_answer admits(uint32_t model, uint64_t key)
{
    struct br_fleet_request request = {.model = model, .n_seqs = 1, .prompt = 1, .key = key};
    return br_fleet_admits(fleet, now_s, &request);
}

static void refuses_beyond_the_bound(void **state)
{
    struct br_fleet_answer answer;
    (void)state;
    begin(1, 1, 10, 3);
    assert_int_equal(admits_n(0, 3).verdict, BR_FLEET_ADMIT);
    assert_int_equal(admits_n(0, 4).verdict, BR_FLEET_FULL);
    for (uint32_t i = 0; i < 3; i++)
        arrive(i, 0);
    answer = admits_n(0, 1);
    assert_int_equal(answer.verdict, BR_FLEET_FULL);
    assert_true(answer.retry_s >= 1 && answer.retry_s <= 60);
    happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = 4, .prompt = 1}); /* accepted once: never refused */
    assert_int_equal(br_fleet_waiting(fleet), 4);
    assert_int_equal(admits_n(0, 1).verdict, BR_FLEET_FULL);
    seq_end(0);
    seq_end(1);
    assert_int_equal(admits_n(0, 1).verdict, BR_FLEET_ADMIT);
    seq_end(9); /* unknown */
}

/* Each model needs .505 of the device, of which .75 is reckoned with. Two need 1.347: each token takes as much longer
 * as its TBT, and a sequence may use up how early it is, less 2 s. Answers of 64 tokens end before that, longer ones
 * not.
 */
static void refuses_what_would_be_late(void **state)
{
    struct br_fleet_config config = {
        .max_devices = 1, .max_models = 5, .max_seqs = 20, .max_unfinished = 20, .admission = true};
    struct br_fleet_answer answer;
    double u = 2 * .505 / .75, early_s = (10 - .05 - 2) + (10 - 2);
    (void)state;
    begin_with(&config);
    assert_int_equal(admits(0, 1).verdict, BR_FLEET_ADMIT); /* no device: it waits for one */
    devices_up(1, 5, 0.05);
    assert_int_equal(admits(0, 1).verdict, BR_FLEET_ADMIT);
    arrive(0, 0);
    answer = admits(1, 1); /* 256 tokens, since nothing is known */
    assert_int_equal(answer.verdict, BR_FLEET_LATE);
    assert_float_equal(answer.utilisation, (float)u, 1e-3);
    assert_float_equal(answer.attainment, (float)(early_s / ((u - 1) * .1) / 512), 1e-3);
    seq_end(0);
    happen((struct br_fleet_event){BR_FLEET_ARRIVE, .seq = 0, .model = 0, .prompt = 1, .most = 64});
    answer =
        br_fleet_admits(fleet, now_s, &(struct br_fleet_request){.model = 1, .n_seqs = 1, .prompt = 1, .most = 64});
    assert_int_equal(answer.verdict, BR_FLEET_ADMIT);
    assert_float_equal(answer.utilisation, (float)u, 1e-3);
    arrive(3, 3); /* accepted all the same */
    where(3, 0);
}

/* Costs that are thought three times too high: 3 sequences that get a token every 50 ms each show that the device keeps
 * up twice over. */
static void believes_what_a_device_has_shown(void **state)
{
    struct br_fleet_config config = {
        .max_devices = 1, .max_models = 5, .max_seqs = 20, .max_unfinished = 20, .admission = true};
    (void)state;
    begin_with(&config);
    devices_up(1, 5, 0.15);
    for (uint32_t m = 0; m < 3; m++)
        arrive(m, m);
    assert_int_equal(admits(3, 1).verdict, BR_FLEET_LATE);
    for (uint32_t k = 1; k <= 200; k++) {
        now_s += .05;
        for (uint32_t m = 0; m < 3; m++)
            happen((struct br_fleet_event){BR_FLEET_TOKENS, .seq = m, .delivered = k});
    }
    struct br_fleet_answer answer = admits(3, 1);
    assert_int_equal(answer.verdict, BR_FLEET_ADMIT);
    assert_float_equal(answer.utilisation, .889f, .02);
}

/* The two need 1.347, half each of 256 tokens at 100 ms: one ends every 1.347 / 2 * 25.6 s. Places are 2.5 times as far
 * apart. */
static void says_when_to_try_again(void **state)
{
    struct br_fleet_config config = {
        .max_devices = 1, .max_models = 5, .max_seqs = 20, .max_unfinished = 20, .admission = true};
    double gap_s = 2.5 * 1.347 / 2 * 25.6;
    (void)state;
    begin_with(&config);
    devices_up(1, 5, 0.05);
    arrive(0, 0);
    assert_float_equal(admits(1, 101).retry_s, (float)gap_s, .1);
    assert_float_equal(admits(2, 102).retry_s, (float)(2 * gap_s), .2);
    now_s += gap_s - 10;
    assert_float_equal(admits(1, 101).retry_s, 10, .1); /* too early: its place is still there */
    now_s += 10.1;
    seq_end(0);
    arrive(1, 0);
    assert_int_equal(admits(3, 103).verdict, BR_FLEET_LATE);  /* .89 as above: too bad for one that comes now */
    assert_int_equal(admits(1, 101).verdict, BR_FLEET_ADMIT); /* it comes when it was told */
    arrive(2, 1);
    assert_int_equal(admits(1, 101).verdict, BR_FLEET_LATE); /* once */
    config.admission = false;
    br_fleet_destroy(fleet);
    begin_with(&config);
    devices_up(1, 5, 0.05);
    for (uint32_t m = 0; m < 5; m++)
        arrive(m, m);
    assert_int_equal(admits(4, 1).verdict, BR_FLEET_ADMIT); /* off */
}

/* Three models of 1000 bytes where 1500 fit, each brought twice in its TTFT of 10 s. */
static void refuses_what_the_link_cannot_bring(void **state)
{
    struct br_fleet_config config = {
        .max_devices = 1, .max_models = 3, .max_seqs = 20, .max_unfinished = 20, .admission = true};
    (void)state;
    begin_with(&config);
    happen((struct br_fleet_event){BR_FLEET_DEVICE_UP, .device = 0, .memory_bytes = 1500, .link_bytes_per_s = 250});
    for (uint32_t m = 0; m < 3; m++)
        model_on(0, m, 0.001);
    arrive(0, 0);
    struct br_fleet_answer answer = admits(1, 1); /* 2 * 2000 / (250 * 10) and what they compute */
    assert_float_equal(answer.utilisation, (float)(1.6 + 2 * .0101 / .75), 1e-3);
    assert_int_equal(answer.verdict, BR_FLEET_LATE);
    answer = admits(0, 1); /* it is there: nothing is brought */
    assert_int_equal(answer.verdict, BR_FLEET_ADMIT);
    happen((struct br_fleet_event){BR_FLEET_LINK, .device = 0, .link_bytes_per_s = 800}); /* measured */
    answer = admits(1, 2);
    assert_float_equal(answer.utilisation, (float)(.5 + 2 * .0101 / .75), 1e-3);
    assert_int_equal(answer.verdict, BR_FLEET_ADMIT);
}

/* ---- moves ---- */

static void a_new_device_takes_a_slot_over(void **state)
{
    (void)state;
    begin(2, 2, 10, 10);
    devices_up(1, 2, 0.03);
    arrive(0, 0);
    arrive(1, 1);
    device(BR_FLEET_TICK, 0);
    assert_int_equal(did.n, 0);
    device(BR_FLEET_DEVICE_UP, 1);
    model_on(1, 0, .03);
    model_on(1, 1, .03);
    device(BR_FLEET_TICK, 0);
    assert_int_equal(did.n, 1);
    assert_true(did.actions[0].kind == BR_FLEET_MOVE && did.actions[0].from == 0 && did.actions[0].device == 1);
    where(did.actions[0].seq, 1);
    device(BR_FLEET_TICK, 0); /* even now */
    assert_int_equal(did.n, 0);
}

/* Running sequences are computed again where they go: 100 rows of 1 ms are .01 of the TTFT, less than a tenth of the
 * difference of .6 between the devices; of 10 ms they are more. */
static void moves_if_computing_again_is_cheap(double row_s, bool moves)
{
    struct br_fleet_event on = {BR_FLEET_MODEL_ON, .weights_bytes = 1000, .kv_token_bytes = 1,
                                .shape = {.read_s = 0.03, .row_s = row_s}};
    begin(2, 2, 10, 10);
    device(BR_FLEET_DEVICE_UP, 0);
    for (on.model = 0; on.model < 2; on.model++)
        happen(on);
    for (uint32_t i = 0; i < 2; i++) {
        arrive(i, i);
        happen((struct br_fleet_event){BR_FLEET_TOKENS, .seq = i, .delivered = 1});
    }
    device(BR_FLEET_DEVICE_UP, 1);
    on.device = 1;
    for (on.model = 0; on.model < 2; on.model++)
        happen(on);
    device(BR_FLEET_TICK, 0);
    assert_int_equal(did.n, moves);
    br_fleet_destroy(fleet);
    fleet = NULL;
}

static void recomputing_is_weighed(void **state)
{
    (void)state;
    moves_if_computing_again_is_cheap(.001, true);
    moves_if_computing_again_is_cheap(.01, false);
}

static void the_running_slot_stays(void **state)
{
    (void)state;
    begin(2, 2, 10, 10);
    devices_up(1, 2, 0.03);
    arrive(0, 0);
    arrive(1, 1);
    happen((struct br_fleet_event){BR_FLEET_RESIDENT, .device = 0, .model = 0, .bytes = 1000, .running = true});
    device(BR_FLEET_DEVICE_UP, 1);
    model_on(1, 0, .03);
    model_on(1, 1, .03);
    device(BR_FLEET_TICK, 0);
    assert_int_equal(did.n, 1);
    assert_int_equal(did.actions[0].seq, 1);
}

static void spread_never_moves(void **state)
{
    struct br_fleet_config config = {
        .max_devices = 2, .max_models = 2, .max_seqs = 10, .max_unfinished = 10, .policy = "spread"};
    (void)state;
    begin_with(&config);
    devices_up(1, 2, 0.03);
    arrive(0, 0);
    arrive(1, 1);
    device(BR_FLEET_DEVICE_UP, 1);
    model_on(1, 0, .03);
    model_on(1, 1, .03);
    device(BR_FLEET_TICK, 0);
    assert_int_equal(did.n, 0);
    arrive(2, 0);
    where(2, 0); /* where it is active */
    seq_end(0);
    seq_end(2);
    arrive(2, 0);
    where(2, 1); /* else the least utilised */
}

/* ---- pauses and rates ---- */

static void a_paused_sequence_needs_nothing(void **state)
{
    (void)state;
    begin(1, 1, 4, 4);
    devices_up(1, 1, 0.03);
    arrive(0, 0);
    happen((struct br_fleet_event){BR_FLEET_TOKENS, .seq = 0, .delivered = 1});
    assert_float_equal(br_fleet_utilisation(fleet, 0), .3, 1e-6);
    happen((struct br_fleet_event){BR_FLEET_PAUSE, .seq = 0});
    assert_float_equal(br_fleet_utilisation(fleet, 0), 0, 1e-6);
    happen((struct br_fleet_event){BR_FLEET_RESUME, .seq = 0});
    assert_float_equal(br_fleet_utilisation(fleet, 0), .3, 1e-6);
    happen((struct br_fleet_event){BR_FLEET_PAUSE, .seq = 3}); /* unknown */
}

/* One request every 4 s is .25/s, whether seen for a minute or an hour; what was accepted before counts for nothing. */
static void rates(void **state)
{
    (void)state;
    begin(1, 2, 4, 4);
    assert_float_equal(br_fleet_rate(fleet, 0, now_s), 0, 0);
    for (uint32_t i = 1; i <= 900; i++) {
        arrive(0, 0);
        seq_end(0);
        happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = 1, .model = 1, .prompt = 1});
        seq_end(1);
        now_s += 4;
        if (i == 15 || i == 900)
            assert_float_equal(br_fleet_rate(fleet, 0, now_s), .25, .02);
    }
    assert_float_equal(br_fleet_rate(fleet, 1, now_s), 0, 0);
    now_s += 300 * log(2);
    assert_float_equal(br_fleet_rate(fleet, 0, now_s), .125, .01); /* nothing more comes */
}

static void bad_config(void **state)
{
    struct br_fleet_config none = {.max_devices = 0, .max_models = 1, .max_seqs = 1, .max_unfinished = 1}, bound,
                           policy;
    struct br_err err;
    (void)state;
    bound = policy = none;
    bound.max_devices = policy.max_devices = 1;
    bound.max_unfinished = 2;
    policy.policy = "best";
    assert_int_equal(br_fleet_create(&none, &fleet, &err), BR_EINVAL);
    assert_int_equal(br_fleet_create(&bound, &fleet, &err), BR_EINVAL);
    assert_int_equal(br_fleet_create(&policy, &fleet, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "slack"));
    policy.policy = "aegaeon"; /* hands KV from device to device */
    assert_int_equal(br_fleet_create(&policy, &fleet, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "aegaeon"));
    assert_null(fleet);
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, end)
    const struct CMUnitTest tests[] = {
        T(active_device_first_then_least_utilised),
        T(back_to_where_its_weights_are),
        T(waits_for_a_device_that_serves_it),
        T(down_reassigns),
        T(drain_gets_nothing_new),
        T(a_model_that_a_device_no_longer_serves),
        T(a_model_that_is_gone_and_comes_back),
        T(adoption),
        T(more_than_fits),
        T(refuses_beyond_the_bound),
        T(refuses_what_would_be_late),
        T(refuses_what_the_link_cannot_bring),
        T(believes_what_a_device_has_shown),
        T(says_when_to_try_again),
        T(a_new_device_takes_a_slot_over),
        T(recomputing_is_weighed),
        T(the_running_slot_stays),
        T(spread_never_moves),
        T(a_paused_sequence_needs_nothing),
        T(rates),
        T(bad_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
