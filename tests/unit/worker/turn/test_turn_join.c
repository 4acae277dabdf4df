/* A slot steps with the sequences that are in, and takes up the others at the boundary after they have come. In the
 * place of scheduler/core/device: one that has one sequence swapped out and in again and always asks for both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buf.h"
#include "fixture.h"
#include "gate_device.h"
#include "scheduler/core/device.h"

enum { SEQS = 2, GOES = 1, EARLY = 2, ALONE = 40 };

static const uint32_t both[SEQS] = {0, 2};
static struct fx_models models;

/* ---- the core ---- */

struct br_dev {
    struct seq {
        bool used;
        uint32_t left, emitted;
        enum br_dev_kv kv;
        bool stepped; /* in the step that has been done last */
    } seqs[SEQS];
    uint64_t bytes_all;
    bool out, in;             /* has been asked for */
    uint32_t alone, together; /* steps while its KV moved; of both after it was back */
};
static struct br_dev g_dev;

int br_dev_create(const struct br_dev_config *config, struct br_dev **out, struct br_err *err)
{
    (void)config, (void)err;
    g_dev = (struct br_dev){0};
    *out = &g_dev;
    return 0;
}

void br_dev_destroy(struct br_dev *dev)
{
    (void)dev;
}

static void act(struct br_dev_actions *a, enum br_dev_action_kind kind, uint32_t seq, uint64_t bytes)
{
    a->actions[a->n_actions++] = (struct br_dev_action){.kind = kind, .seq = seq, .bytes = bytes};
}

static void boundary(struct br_dev *d, double now_s, struct br_dev_actions *a)
{
    struct seq *goes = &d->seqs[GOES];
    a->wake_s = now_s + .001;
    if (!d->out && d->seqs[0].emitted >= EARLY && goes->emitted >= EARLY) {
        act(a, BR_DO_SWAP_OUT, GOES, 0);
        d->out = true;
    } else if (d->out && !d->in && goes->kv == BR_DEV_KV_ON_HOST) {
        act(a, BR_DO_SWAP_IN, GOES, 0);
        d->in = true;
    }
    if (d->out && !d->in)
        return; /* the other one waits, so that it has enough to do later */
    for (uint32_t i = 0; i < SEQS; i++)
        if (d->seqs[i].used)
            a->items[a->n_items++] = (struct br_dev_item){i, d->seqs[i].left ? d->seqs[i].left : 1, true};
    act(a, BR_DO_LOAD, 0, 0);
    act(a, BR_DO_STEP, 0, 0);
}

static void step_done(struct br_dev *d)
{
    const struct seq *stays = &d->seqs[0], *goes = &d->seqs[GOES];
    d->alone += d->in && stays->stepped && goes->kv == BR_DEV_KV_MOVING;
    d->together += d->in && stays->stepped && goes->stepped;
    d->seqs[0].stepped = d->seqs[GOES].stepped = false;
}

void br_dev_step(struct br_dev *d, double now_s, const struct br_dev_event *e, struct br_dev_actions *a)
{
    struct seq *q = e->seq < SEQS ? &d->seqs[e->seq] : NULL;
    a->n_actions = a->n_items = 0;
    a->wake_s = -1;
    switch (e->kind) {
    case BR_DEV_SEQ_ADD:
        *q = (struct seq){.used = true, .left = e->tokens};
        break;
    case BR_DEV_SEQ_END:
        q->used = false;
        break;
    case BR_DEV_SEQ_STEPPED:
        q->left -= e->tokens < q->left ? e->tokens : q->left;
        q->emitted += e->emitted;
        q->stepped = true;
        q->kv = BR_DEV_KV_ON_DEVICE;
        break;
    case BR_DEV_STEP_DONE:
        step_done(d);
        break;
    case BR_DEV_KV:
        q->kv = e->kv;
        break;
    case BR_DEV_BOUNDARY:
        boundary(d, now_s, a);
        break;
    default:
        break;
    }
}

int32_t br_dev_weights_victim(const struct br_dev *d, uint32_t target)
{
    (void)d, (void)target;
    return -1;
}

int32_t br_dev_kv_victim(const struct br_dev *d, uint32_t target, uint32_t keep)
{
    (void)d, (void)target, (void)keep;
    return -1;
}

bool br_dev_shape(const struct br_dev *d, uint32_t slot, struct br_step_shape *shape)
{
    (void)d, (void)slot, (void)shape;
    return false;
}

int32_t br_dev_next_slot(const struct br_dev *d)
{
    (void)d;
    return -1;
}

int br_dev_check(const struct br_dev *d, struct br_err *err)
{
    (void)d, (void)err;
    return 0;
}

/* ---- the test ---- */

static void spec_make(uint32_t k, struct br_seq_spec *out)
{
    fx_spec(&models, 0, k, out);
    out->max_tokens = 100;
    out->ignore_eos = true;
}

static void test_joins_at_a_boundary(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct fx_result want[SEQS];
    struct br_seq_spec spec[SEQS];
    (void)state;
    gate_set(true);
    for (uint32_t i = 0; i < SEQS; i++) {
        spec_make(both[i], &spec[i]);
        fx_alone_spec(&models, 0, &spec[i], &want[i]);
    }
    fx_config(&models, &config);
    config.policy = "script";
    config.device_create = gate_device_create;
    gate_set(false);
    fx_start(&run, &config, &models, 1);
    for (uint32_t i = 0; i < SEQS; i++)
        fx_add(&run, &spec[i], NULL, 0);
    gate_wait(); /* its KV is on the host, and stands before the gate */
    fx_wait_tokens(&run, 0, ALONE);
    gate_set(true);
    fx_wait(&run);
    for (uint32_t i = 0; i < SEQS; i++) {
        fx_same(&want[i], &run.results[i], 0);
        br_seq_spec_free(&spec[i]);
    }
    fx_stop(&run);
    print_message("steps alone while the other's KV came in: %u; together afterwards: %u\n", g_dev.alone,
                  g_dev.together);
    assert_true(g_dev.alone >= ALONE - EARLY - 1); /* of these tokens, those before it went */
    assert_true(g_dev.together >= 1);
}

static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_models_close(&models);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_joins_at_a_boundary)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
