/* Random events: devices come, go and drain, models come, go and change, sequences arrive, progress, pause, end, are
 * adopted. After each: the books hold, actions are legal by a naive model, nobody is lost or waits in vain; and a twin
 * that hears the same says the same, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "scheduler/core/fleet.h"
#include "tests/cmocka.h"

enum { DEVICES = 6, MODELS = 9, SEQS = 60, EVENTS = 100000 };

struct naive {
    struct br_fleet *fleet, *twin;
    struct br_fleet_actions did, twin_did;
    double now_s;
    bool up[DEVICES], draining[DEVICES], on[DEVICES][MODELS], gone[MODELS];
    bool used[SEQS];
    uint32_t model[SEQS], delivered[SEQS];
    int32_t device[SEQS];
    uint32_t moves, unassigned, failed, assigned;
    struct br_rng rng;
};

static uint32_t draw(struct naive *m, uint32_t n)
{
    return (uint32_t)(br_rng_next(&m->rng) * n);
}

static bool takes(const struct naive *m, uint32_t d, uint32_t model)
{
    return m->up[d] && !m->draining[d] && m->on[d][model];
}

static bool served(const struct naive *m, uint32_t model)
{
    for (uint32_t d = 0; d < DEVICES; d++)
        if (takes(m, d, model))
            return true;
    return false;
}

static void action_apply(struct naive *m, const struct br_fleet_action *a)
{
    assert_true(m->used[a->seq]);
    switch (a->kind) {
    case BR_FLEET_ASSIGN:
        assert_true(m->device[a->seq] < 0 && takes(m, a->device, m->model[a->seq]));
        m->assigned++;
        break;
    case BR_FLEET_MOVE:
        assert_true(m->device[a->seq] == (int32_t)a->from && a->from != a->device);
        assert_true(m->up[a->from] && takes(m, a->device, m->model[a->seq]));
        m->moves++;
        break;
    case BR_FLEET_UNASSIGN:
        assert_true(m->device[a->seq] == (int32_t)a->from);
        m->device[a->seq] = -1;
        m->unassigned++;
        return;
    case BR_FLEET_FAIL:
        assert_true(m->gone[m->model[a->seq]]);
        m->used[a->seq] = false;
        m->failed++;
        return;
    }
    m->device[a->seq] = (int32_t)a->device;
}

static void happen(struct naive *m, struct br_fleet_event event)
{
    struct br_err err = {0};
    memset(&m->did, 0, sizeof m->did);
    memset(&m->twin_did, 0, sizeof m->twin_did);
    do {
        br_fleet_step(m->fleet, m->now_s, &event, &m->did);
        br_fleet_step(m->twin, m->now_s, &event, &m->twin_did);
        assert_int_equal(m->did.n, m->twin_did.n);
        assert_memory_equal(m->did.actions, m->twin_did.actions, m->did.n * sizeof m->did.actions[0]);
        for (uint32_t i = 0; i < m->did.n; i++)
            action_apply(m, &m->did.actions[i]);
        event = (struct br_fleet_event){.kind = BR_FLEET_TICK};
    } while (m->did.more);
    if (br_fleet_check(m->fleet, &err))
        fail_msg("%s", err.msg);
}

static void verify(const struct naive *m)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < SEQS; i++) {
        assert_int_equal(br_fleet_device_of(m->fleet, i), m->used[i] ? m->device[i] : -1);
        assert_false(m->used[i] && m->device[i] < 0 && served(m, m->model[i]));
        waiting += m->used[i] && m->device[i] < 0;
    }
    assert_int_equal(br_fleet_waiting(m->fleet), waiting);
}

static void back(struct naive *m, uint32_t d)
{
    for (uint32_t i = 0; i < SEQS; i++)
        if (m->used[i] && m->device[i] == (int32_t)d)
            m->device[i] = -1;
}

static void device_event(struct naive *m)
{
    uint32_t d = draw(m, DEVICES), what = draw(m, 10);
    struct br_fleet_event e = {.device = d, .memory_bytes = 1 << 20, .link_bytes_per_s = 1e4, .node = d / 2};
    if (what < 6) {
        e.kind = BR_FLEET_DEVICE_UP;
        m->up[d] = true;
        m->draining[d] = false;
    } else if (what < 8) {
        e.kind = BR_FLEET_DEVICE_DOWN;
        m->up[d] = m->draining[d] = false;
        memset(m->on[d], 0, sizeof m->on[d]);
        back(m, d);
    } else {
        e.kind = BR_FLEET_DEVICE_DRAIN;
        m->draining[d] = m->up[d];
    }
    happen(m, e);
}

static void place_event(struct naive *m)
{
    uint32_t d = draw(m, DEVICES), model = draw(m, MODELS), what = draw(m, 12);
    struct br_fleet_event e = {.device = d, .model = model};
    if (what < 8) {
        e.kind = BR_FLEET_MODEL_ON;
        e.weights_bytes = 1000 + 100 * model;
        e.kv_token_bytes = 1 + model % 3;
        e.shape = (struct br_step_shape){.001, .03 * br_rng_next(&m->rng), 1e-7, 1e-4 * br_rng_next(&m->rng)};
        m->on[d][model] |= m->up[d];
        m->gone[model] = false;
    } else if (what < 9) {
        e.kind = BR_FLEET_MODEL_OFF;
        m->on[d][model] = false;
    } else if (what < 11) {
        e.kind = BR_FLEET_RESIDENT;
        e.bytes = m->on[d][model] ? draw(m, 1000 + 100 * model) : 0;
        e.running = m->on[d][model] && draw(m, 2);
    } else if (draw(m, 4) == 0) {
        e.kind = BR_FLEET_MODEL_GONE;
        m->gone[model] = true;
        for (uint32_t i = 0; i < DEVICES; i++)
            m->on[i][model] = false;
    } else {
        e.kind = BR_FLEET_MODEL_SET;
        e.ttft_s = 1 + 10 * br_rng_next(&m->rng);
        e.tbt_s = .02 + .2 * br_rng_next(&m->rng);
        e.weight = .5 + br_rng_next(&m->rng);
    }
    happen(m, e);
}

static void seq_begin(struct naive *m, uint32_t seq)
{
    struct br_fleet_event e = {.kind = draw(m, 3) ? BR_FLEET_ARRIVE : BR_FLEET_RECOVER,
                               .seq = seq,
                               .model = draw(m, MODELS),
                               .device = draw(m, DEVICES),
                               .prompt = 1 + draw(m, 500),
                               .weight = draw(m, 2)};
    e.delivered = e.kind == BR_FLEET_RECOVER ? draw(m, 50) : 0;
    e.age_s = e.delivered * .1;
    if (draw(m, 6) == 0 && m->up[e.device]) {
        e.kind = BR_FLEET_ADOPT;
        if (!m->on[e.device][e.model])
            return; /* it has said that it serves the model before it says what it runs */
    }
    m->used[seq] = true;
    m->model[seq] = e.model;
    m->delivered[seq] = e.delivered;
    m->device[seq] = e.kind == BR_FLEET_ADOPT ? (int32_t)e.device : -1;
    happen(m, e);
}

static void seq_event(struct naive *m)
{
    uint32_t seq = draw(m, SEQS), what = draw(m, 10);
    struct br_fleet_event e = {.seq = seq, .model = m->model[seq], .prompt = 1};
    if (!m->used[seq]) {
        seq_begin(m, seq);
        return;
    }
    if (what < 3) {
        e.kind = BR_FLEET_END;
        m->used[seq] = false;
    } else if (what < 8) {
        e.kind = BR_FLEET_TOKENS;
        m->delivered[seq] += m->device[seq] >= 0;
        e.delivered = m->delivered[seq];
    } else
        e.kind = what == 8 ? BR_FLEET_PAUSE : BR_FLEET_RESUME;
    happen(m, e);
}

static void random_events(const char *policy, uint64_t seed)
{
    struct br_fleet_config config = {.max_devices = DEVICES,
                                     .max_models = MODELS,
                                     .max_seqs = SEQS,
                                     .max_unfinished = SEQS,
                                     .max_nodes = DEVICES / 2,
                                     .policy = policy,
                                     .admission = true};
    struct naive *m = calloc(1, sizeof *m);
    struct br_err err;
    m->rng.seed = seed;
    assert_int_equal(br_fleet_create(&config, &m->fleet, &err), 0);
    assert_int_equal(br_fleet_create(&config, &m->twin, &err), 0);
    for (int i = 0; i < EVENTS; i++) {
        uint32_t what = draw(m, 40);
        m->now_s += .1 * br_rng_next(&m->rng);
        if (what < 1)
            device_event(m);
        else if (what < 6)
            place_event(m);
        else if (what < 10)
            happen(m, (struct br_fleet_event){.kind = BR_FLEET_TICK});
        else
            seq_event(m);
        verify(m);
        br_fleet_admits(m->fleet, m->now_s,
                        &(struct br_fleet_request){.model = draw(m, MODELS), .n_seqs = 1, .prompt = 9});
        /* that changes nothing but who was told what: the twin is not asked */
    }
    assert_true(m->assigned > 1000 && m->unassigned > 10 && m->failed > 10);
    assert_true(m->moves > 10);
    br_fleet_destroy(m->fleet);
    br_fleet_destroy(m->twin);
    free(m);
}

static void slack_random(void **state)
{
    (void)state;
    random_events("slack", 1);
}

static void spread_random(void **state)
{
    (void)state;
    random_events("spread", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(slack_random), cmocka_unit_test(spread_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
