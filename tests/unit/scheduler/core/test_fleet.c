#include <string.h>

#include "base/rng.h"
#include "scheduler/core/fleet.h"
#include "tests/cmocka.h"

static struct br_fleet *fleet;
static struct br_fleet_actions did;
static double now_s;

static void begin(uint32_t devices, uint32_t models, uint32_t seqs, uint32_t unfinished)
{
    struct br_fleet_config config = {devices, models, seqs, unfinished};
    struct br_err err;
    now_s = 10;
    assert_int_equal(br_fleet_create(&config, &fleet, &err), 0);
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
    happen((struct br_fleet_event){kind, .device = d});
}

static void model_on(uint32_t d, uint32_t m, double step_s)
{
    happen((struct br_fleet_event){BR_FLEET_MODEL_ON, .device = d, .model = m, .step_s = step_s, .load_s = 1});
}

static void arrive(uint32_t seq, uint32_t m)
{
    happen((struct br_fleet_event){BR_FLEET_ARRIVE, .seq = seq, .model = m, .tokens = 100});
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

static void active_device_first_then_least_loaded(void **state)
{
    (void)state;
    begin(3, 4, 100, 100);
    devices_up(3, 4, 0.02);
    for (uint32_t i = 0; i < 20; i++)
        arrive(i, 0); /* one batch, though the others idle */
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(br_fleet_device_of(fleet, i), 0);
    arrive(20, 1);
    assert_int_equal(br_fleet_device_of(fleet, 20), 1);
    arrive(21, 2);
    assert_int_equal(br_fleet_device_of(fleet, 21), 2);
    arrive(22, 3); /* 1 and 2 are equal; 0 has the larger batch */
    assert_int_equal(br_fleet_device_of(fleet, 22), 1);
}

static void back_to_where_it_was(void **state)
{
    (void)state;
    begin(2, 3, 10, 10);
    devices_up(2, 3, 0.01);
    arrive(0, 0);
    arrive(1, 1);
    assert_int_equal(br_fleet_device_of(fleet, 1), 1);
    seq_end(1);
    seq_end(0);
    arrive(2, 2);
    assert_int_equal(br_fleet_device_of(fleet, 2), 0);
    arrive(1, 0); /* a load of 0.1 on device 0 is less than a reload */
    assert_int_equal(br_fleet_device_of(fleet, 1), 0);
}

static void waits_for_a_device_that_serves_it(void **state)
{
    (void)state;
    begin(2, 2, 10, 10);
    arrive(3, 1);
    arrive(1, 1);
    device(BR_FLEET_DEVICE_UP, 0);
    model_on(0, 0, 0.02);
    assert_int_equal(did.n, 0);
    assert_int_equal(br_fleet_waiting(fleet), 2);
    model_on(0, 1, 0.02);
    assert_int_equal(did.n, 2);
    assert_int_equal(did.actions[0].seq, 3); /* first come */
    assert_int_equal(did.actions[1].seq, 1);
    assert_int_equal(br_fleet_waiting(fleet), 0);
}

static void down_reassigns_oldest_first(void **state)
{
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
    for (uint32_t i = 0, n = 0; i < 12; i++) {
        assert_int_equal(br_fleet_device_of(fleet, 31 - i), i % 3 == 1 ? -1 : 1);
        if (i % 3 != 1)
            assert_int_equal(did.actions[n++].seq, 31 - i);
    }
    assert_int_equal(br_fleet_waiting(fleet), 4);
}

static void drain_gets_nothing_new(void **state)
{
    (void)state;
    begin(2, 1, 10, 10);
    devices_up(2, 1, 0.02);
    arrive(0, 0);
    assert_int_equal(br_fleet_device_of(fleet, 0), 0);
    device(BR_FLEET_DEVICE_DRAIN, 0);
    assert_int_equal(br_fleet_device_of(fleet, 0), 0); /* runs on */
    arrive(1, 0);
    assert_int_equal(br_fleet_device_of(fleet, 1), 1);
    device(BR_FLEET_DEVICE_DRAIN, 1);
    arrive(2, 0);
    assert_int_equal(br_fleet_device_of(fleet, 2), -1);
    device(BR_FLEET_DEVICE_UP, 0);
    assert_int_equal(br_fleet_device_of(fleet, 2), 0);
}

static void refuses_beyond_the_bound(void **state)
{
    (void)state;
    begin(1, 1, 10, 3);
    assert_true(br_fleet_admits(fleet, 3));
    assert_false(br_fleet_admits(fleet, 4));
    for (uint32_t i = 0; i < 3; i++)
        arrive(i, 0);
    arrive(3, 0);
    assert_int_equal(did.n, 1);
    assert_int_equal(did.actions[0].kind, BR_FLEET_REFUSE);
    assert_true(did.actions[0].retry_s >= 1 && did.actions[0].retry_s <= 60);
    happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = 4}); /* accepted once: never refused */
    assert_int_equal(did.n, 0);
    assert_int_equal(br_fleet_waiting(fleet), 4);
    assert_false(br_fleet_admits(fleet, 1));
    seq_end(0);
    seq_end(1);
    arrive(3, 0);
    assert_int_equal(did.n, 0);
    seq_end(9); /* unknown */
}

static void adoption(void **state)
{
    (void)state;
    begin(3, 2, 10, 10);
    happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = 0, .model = 1, .tokens = 50});
    devices_up(3, 0, 0);
    happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = 0, .device = 1});
    assert_int_equal(did.n, 0);
    assert_int_equal(br_fleet_device_of(fleet, 0), 1);
    happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = 5, .device = 2, .model = 1, .tokens = 50});
    assert_int_equal(br_fleet_device_of(fleet, 5), 2);
    happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = 0, .device = 2}); /* assigned already */
    assert_int_equal(br_fleet_device_of(fleet, 0), 1);
    happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = 0, .model = 1, .tokens = 50}); /* known */
    assert_int_equal(br_fleet_device_of(fleet, 0), 1);
    model_on(0, 1, 0.02);
    happen((struct br_fleet_event){BR_FLEET_MODEL_OFF, .device = 1, .model = 1});
    assert_int_equal(br_fleet_device_of(fleet, 0), 0);
}

/* More to assign than actions fit: ticks bring the rest, oldest first. */
static void more_than_fits(void **state)
{
    const uint32_t n = 2 * BR_FLEET_MAX_ACTIONS + 100;
    uint32_t next = 0;
    (void)state;
    begin(1, 2, n, n);
    for (uint32_t i = 0; i < n; i++)
        br_fleet_step(fleet, now_s, &(struct br_fleet_event){BR_FLEET_ARRIVE, .seq = i, .model = i % 2}, &did);
    device(BR_FLEET_DEVICE_UP, 0);
    model_on(0, 0, 0.02);
    assert_int_equal(did.n, BR_FLEET_MAX_ACTIONS);
    assert_true(did.more);
    device(BR_FLEET_DEVICE_DOWN, 0);
    device(BR_FLEET_DEVICE_UP, 0);
    device(BR_FLEET_DEVICE_DRAIN, 0);
    model_on(0, 0, 0.02);
    model_on(0, 1, 0.02);
    assert_int_equal(br_fleet_waiting(fleet), n);
    for (device(BR_FLEET_DEVICE_UP, 0);; device(BR_FLEET_TICK, 0)) {
        for (uint32_t i = 0; i < did.n; i++)
            assert_int_equal(did.actions[i].seq, next++);
        if (!did.more)
            break;
    }
    assert_int_equal(next, n);
}

/* ---- random events against a naive model ---- */

enum { DEVICES = 6, MODELS = 9, SEQS = 60, BOUND = 45, EVENTS = 100000 };

struct model {
    bool up[DEVICES], draining[DEVICES], on[DEVICES][MODELS];
    bool used[SEQS];
    uint32_t model[SEQS];
    int32_t device[SEQS];
    uint64_t serial[SEQS], arrivals;
    struct br_rng rng;
};

static uint32_t draw(struct model *m, uint32_t n)
{
    return (uint32_t)(br_rng_next(&m->rng) * n);
}

static bool takes(const struct model *m, uint32_t d, uint32_t model)
{
    return m->up[d] && !m->draining[d] && m->on[d][model];
}

static bool served(const struct model *m, uint32_t model)
{
    bool any = false;
    for (uint32_t d = 0; d < DEVICES; d++)
        any |= takes(m, d, model);
    return any;
}

static bool active(const struct model *m, uint32_t d, uint32_t model)
{
    for (uint32_t i = 0; i < SEQS; i++)
        if (m->used[i] && m->device[i] == (int32_t)d && m->model[i] == model)
            return true;
    return false;
}

/* Every assignment: of the oldest that can go anywhere, to a device that may, one where the model runs if any. */
static void assignments_verify(struct model *m)
{
    for (uint32_t a = 0; a < did.n; a++) {
        uint32_t seq = did.actions[a].seq, d = did.actions[a].device;
        if (did.actions[a].kind != BR_FLEET_ASSIGN)
            continue;
        assert_true(m->used[seq] && m->device[seq] < 0 && takes(m, d, m->model[seq]));
        for (uint32_t i = 0; i < SEQS; i++)
            assert_false(m->used[i] && m->device[i] < 0 && m->serial[i] < m->serial[seq] && served(m, m->model[i]));
        for (uint32_t other = 0; other < DEVICES; other++)
            if (takes(m, other, m->model[seq]) && active(m, other, m->model[seq]))
                assert_true(active(m, d, m->model[seq]));
        m->device[seq] = (int32_t)d;
    }
    for (uint32_t i = 0; i < SEQS; i++) {
        assert_false(m->used[i] && m->device[i] < 0 && served(m, m->model[i])); /* nobody waits in vain */
        assert_int_equal(br_fleet_device_of(fleet, i), m->used[i] ? m->device[i] : -1);
    }
}

static void seq_begin(struct model *m, uint32_t seq, uint32_t model, int32_t d)
{
    m->used[seq] = true;
    m->model[seq] = model;
    m->device[seq] = d;
    m->serial[seq] = ++m->arrivals;
}

static void back(struct model *m, uint32_t d, int32_t model)
{
    for (uint32_t i = 0; i < SEQS; i++)
        if (m->used[i] && m->device[i] == (int32_t)d && (model < 0 || m->model[i] == (uint32_t)model))
            m->device[i] = -1;
}

static void random_device_event(struct model *m)
{
    uint32_t d = draw(m, DEVICES), model = draw(m, MODELS), what = draw(m, 20);
    if (what < 6) {
        device(BR_FLEET_DEVICE_UP, d);
        m->up[d] = true;
        m->draining[d] = false;
    } else if (what < 8) {
        device(BR_FLEET_DEVICE_DOWN, d);
        m->up[d] = m->draining[d] = false;
        memset(m->on[d], 0, sizeof m->on[d]);
        back(m, d, -1);
    } else if (what < 9) {
        device(BR_FLEET_DEVICE_DRAIN, d);
        m->draining[d] = m->up[d];
    } else if (what < 18) {
        model_on(d, model, 0.05 * br_rng_next(&m->rng));
        m->on[d][model] |= m->up[d];
    } else {
        happen((struct br_fleet_event){BR_FLEET_MODEL_OFF, .device = d, .model = model});
        m->on[d][model] = false;
        back(m, d, (int32_t)model);
    }
}

static void random_seq_event(struct model *m)
{
    uint32_t seq = draw(m, SEQS), model = draw(m, MODELS), d = draw(m, DEVICES), n = 0;
    for (uint32_t i = 0; i < SEQS; i++)
        n += m->used[i];
    if (m->used[seq]) {
        if (draw(m, 2)) {
            seq_end(seq);
            m->used[seq] = false;
        } else {
            happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = seq, .device = d});
            if (m->device[seq] < 0 && m->up[d])
                m->device[seq] = (int32_t)d;
        }
    } else if (draw(m, 6) == 0 && m->up[d]) {
        happen((struct br_fleet_event){BR_FLEET_ADOPT, .seq = seq, .device = d, .model = model, .tokens = 9});
        seq_begin(m, seq, model, (int32_t)d);
    } else if (draw(m, 4) == 0) {
        seq_begin(m, seq, model, -1);
        happen((struct br_fleet_event){BR_FLEET_RECOVER, .seq = seq, .model = model, .tokens = draw(m, 500)});
    } else {
        assert_int_equal(br_fleet_admits(fleet, 1), n < BOUND);
        if (n < BOUND)
            seq_begin(m, seq, model, -1);
        arrive(seq, model);
        assert_true(n < BOUND || (did.n == 1 && did.actions[0].kind == BR_FLEET_REFUSE));
    }
}

static void random_events(void **state)
{
    static struct model m;
    (void)state;
    memset(&m, 0, sizeof m);
    m.rng.seed = 77;
    begin(DEVICES, MODELS, SEQS, BOUND);
    for (int i = 0; i < EVENTS; i++) {
        now_s += br_rng_next(&m.rng);
        if (draw(&m, 4) == 0)
            random_device_event(&m);
        else
            random_seq_event(&m);
        assignments_verify(&m);
        assert_false(did.more);
    }
}

static void bad_config(void **state)
{
    struct br_fleet_config none = {0, 1, 1, 1}, bound = {1, 1, 1, 2};
    struct br_err err;
    (void)state;
    assert_int_equal(br_fleet_create(&none, &fleet, &err), BR_EINVAL);
    assert_int_equal(br_fleet_create(&bound, &fleet, &err), BR_EINVAL);
    assert_null(fleet);
}

int main(void)
{
#define T(f) cmocka_unit_test_teardown(f, end)
    const struct CMUnitTest tests[] = {
        T(active_device_first_then_least_loaded),
        T(back_to_where_it_was),
        T(waits_for_a_device_that_serves_it),
        T(down_reassigns_oldest_first),
        T(drain_gets_nothing_new),
        T(refuses_beyond_the_bound),
        T(adoption),
        T(more_than_fits),
        T(random_events),
        T(bad_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
