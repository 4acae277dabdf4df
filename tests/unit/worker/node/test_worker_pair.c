/* A worker with two device processes: a sequence moves from one to the other, and either dies in between. The tokens
 * are those of a turn of the test's own. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/cmocka.h"
#include "tests/unit/worker/node/node_rig.h"

enum { ANSWER = 150, PROMPT = 60, MOVE_AT = 5 };

static struct fx_models models;
static struct fx_result want;
static struct br_seq_spec spec;

static void spec_make(void)
{
    fx_spec(&models, 3, 1, &spec);
    free(spec.prompt);
    spec.n_prompt = PROMPT;
    spec.prompt = br_calloc(PROMPT, sizeof *spec.prompt);
    for (int32_t i = 0; i < PROMPT; i++)
        spec.prompt[i] = (i * 37 + 5) % 500;
    spec.max_tokens = ANSWER;
    spec.ignore_eos = true;
}

static void pair_open(struct rig *r)
{
    struct br_worker_model list[] = {{.name = "stories", .dir = models.folder[3]}};
    struct br_worker_config c;
    rig_config(r, &c);
    c.models = list;
    c.n_models = 1;
    c.devices = 2;
    c.kv_bytes = 4 << 20;
    c.host_kv_bytes = 16 << 20;
    rig_open(r, &c);
}

static void hand_over(struct rig *r)
{
    Briareus__Cancel cancel = BRIAREUS__CANCEL__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    cancel.seq = want.seq;
    cancel.fence = r->fences[0]++;
    cancel.forget = cancel.hand_over = true;
    frame.body_case = BRIAREUS__FRAME__BODY_CANCEL;
    frame.cancel = &cancel;
    rig_frame(r, 0, &frame);
}

/* The first child is device 0, as long as none has died. */
static void device_pids(const struct rig *r, pid_t pids[2])
{
    char path[128];
    struct br_buf text = {0};
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", r->worker, r->worker);
    assert_int_equal(br_buf_read_file(&text, path, 4096), 0);
    assert_int_equal(sscanf(text.data, "%d %d", &pids[0], &pids[1]), 2);
    br_buf_free(&text);
}

static void device_kill(struct rig *r, uint32_t device, pid_t pid)
{
    uint32_t before = r->devices[device].registers;
    kill(pid, SIGKILL);
    RIG_UNTIL(r, r->devices[device].registers > before && r->devices[device].peer);
}

/* Up to the move; false: it was over before. */
static bool begin(struct rig *r)
{
    rig_assign(r, 0, &spec, 0, 0);
    RIG_UNTIL(r, r->results[0].n >= MOVE_AT || r->results[0].end != BR_END_NONE);
    if (r->results[0].end != BR_END_NONE)
        return false;
    hand_over(r);
    return true;
}

enum death { NOBODY, GIVER, TAKER };

static void go_on(struct rig *r, enum death death, const pid_t pids[2])
{
    if (death == GIVER)
        device_kill(r, 0, pids[0]);
    rig_assign(r, 0, &spec, 1, 1);
    if (death == TAKER) {
        device_kill(r, 1, pids[1]);
        r->fences[0]++;
        rig_assign(r, 0, &spec, 1, 0); /* its leader has forgotten by now where it came from */
    }
    RIG_UNTIL(r, r->results[0].end != BR_END_NONE);
    fx_same(&want, &r->results[0], 0);
    rig_reported(r, 1);
}

/* False: the sequence was over before it was told to move; to be tried again. */
static bool moves(enum death death)
{
    static struct rig r;
    pid_t pids[2];
    bool begun;
    pair_open(&r);
    device_pids(&r, pids);
    begun = begin(&r);
    if (begun)
        go_on(&r, death, pids);
    if (death == NOBODY)
        begun = begun && r.devices[1].transfers.handed_tokens >= PROMPT;
    rig_close(&r);
    return begun;
}

static void kv_goes_with_the_sequence(void **state)
{
    int tries = 0;
    (void)state;
    while (!moves(NOBODY))
        assert_true(++tries < 20);
}

static void the_giver_dies(void **state)
{
    (void)state;
    while (!moves(GIVER))
        ;
}

static void the_taker_dies(void **state)
{
    (void)state;
    while (!moves(TAKER))
        ;
}

/* Before any thread runs here: workers are forked from this process. */
static int setup(void **state)
{
    static struct fx_run run;
    struct br_turn_config config;
    (void)state;
    fx_models_open(&models);
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    spec_make();
    fx_add(&run, &spec, NULL, 0);
    fx_wait(&run);
    want = run.results[0];
    fx_stop(&run);
    assert_int_equal(want.n, ANSWER);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    br_seq_spec_free(&spec);
    fx_models_close(&models);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kv_goes_with_the_sequence), cmocka_unit_test(the_giver_dies),
                                       cmocka_unit_test(the_taker_dies)};
    if (argc > 1 && strcmp(argv[1], BR_WORKER_DEVICE_PROCESS) == 0)
        return br_worker_device_process(argc, argv);
    return cmocka_run_group_tests(tests, setup, teardown);
}
