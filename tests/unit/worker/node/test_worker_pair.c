/* A worker with two device processes, against a scheduler's end of the link: a sequence moves from one to the other,
 * and either dies in between. The tokens are those of a turn of the test's own. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "proto/convert.h"
#include "proto/transfers.h"
#include "scheduler/link/link.h"
#include "tests/cmocka.h"
#include "tests/unit/worker/turn/fixture.h"
#include "worker/node/worker.h"

enum { TIMEOUT_MS = 30000, ANSWER = 150, PROMPT = 60, MOVE_AT = 5 };

static struct fx_models models;
static struct fx_result want;

struct device {
    struct br_link_peer *peer; /* NULL: away */
    uint32_t registers, reports;
    struct br_transfers transfers;
};

struct node {
    uv_loop_t loop;
    uv_timer_t timeout;
    struct br_link_server *server;
    struct device devices[2];
    char address[128], cache[128], dir[64];
    pid_t worker;
    struct br_token tokens[ANSWER];
    uint32_t n;
    uint64_t fence;
    enum br_end end;
};

static void on_up(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello)
{
    struct node *n = ctx;
    struct device *d = &n->devices[hello->device];
    Briareus__Welcome welcome = BRIAREUS__WELCOME__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    assert_true(hello->device < 2);
    d->peer = peer;
    d->registers++;
    br_link_peer_set_data(peer, d);
    welcome.version = BR_LINK_VERSION;
    frame.body_case = BRIAREUS__FRAME__BODY_WELCOME;
    frame.welcome = &welcome;
    assert_int_equal(br_link_send(peer, &frame), 0);
    uv_stop(&n->loop);
}

static void take_tokens(struct node *n, const Briareus__Tokens *msg)
{
    struct br_token *tokens;
    struct br_err err;
    uint32_t first, some;
    if (msg->fence != n->fence)
        return; /* of the device that no longer has it */
    assert_int_equal(br_tokens_from_pb(msg->run, &first, &tokens, &some, &err), 0);
    assert_true(first <= n->n && first + some <= ANSWER);
    memcpy(n->tokens + first, tokens, some * sizeof *tokens);
    n->n = first + some > n->n ? first + some : n->n;
    n->end = (enum br_end)msg->end;
    free(tokens);
}

static void on_frame(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame)
{
    struct node *n = ctx;
    struct device *d = br_link_peer_data(peer);
    if (frame->body_case == BRIAREUS__FRAME__BODY_TOKENS)
        take_tokens(n, frame->tokens);
    if (frame->body_case == BRIAREUS__FRAME__BODY_REPORT) {
        br_transfers_from_pb(frame->report, &d->transfers);
        d->reports++;
    }
    uv_stop(&n->loop);
}

static void on_down(void *ctx, struct br_link_peer *peer)
{
    struct node *n = ctx;
    struct device *d = br_link_peer_data(peer);
    if (d && d->peer == peer)
        d->peer = NULL;
    uv_stop(&n->loop);
}

static void on_timeout(uv_timer_t *timer)
{
    struct node *n = timer->data;
    fprintf(stderr, "timed out: n=%u end=%d\n", n->n, n->end);
    kill(n->worker, SIGKILL);
    abort();
}

static void turn_loop(struct node *n)
{
    uv_timer_start(&n->timeout, on_timeout, TIMEOUT_MS, 0);
    uv_run(&n->loop, UV_RUN_DEFAULT);
    uv_timer_stop(&n->timeout);
}

#define UNTIL(n, condition)                                                                                            \
    while (!(condition))                                                                                               \
    turn_loop(n)

static void worker_start(struct node *n)
{
    struct br_worker_model list[] = {{.name = "stories", .dir = models.folder[3]}};
    struct br_worker_config c;
    struct br_err err;
    br_worker_config_init(&c);
    c.node = "pair";
    c.scheduler = n->address;
    c.cache_dir = n->cache;
    c.models = list;
    c.n_models = 1;
    c.devices = 2;
    c.kv_bytes = 4 << 20;
    c.host_kv_bytes = 16 << 20;
    c.max_context = 256;
    c.log_level = BR_WARN;
    n->worker = fork();
    if (n->worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(br_worker_run(&c, &err) ? 1 : 0);
    }
}

static void node_open(struct node *n)
{
    struct br_link_limits limits = {.max_peers = 4, .max_out_bytes = 1 << 20, .register_ms = 2000, .silence_ms = 20000};
    struct br_link_server_cb cb = {n, on_up, on_frame, on_down};
    struct br_err err;
    *n = (struct node){.dir = "/tmp/briareus-pair-XXXXXX", .fence = 1};
    assert_non_null(mkdtemp(n->dir));
    snprintf(n->address, sizeof n->address, "unix:%s/link", n->dir);
    snprintf(n->cache, sizeof n->cache, "%s/cache", n->dir);
    worker_start(n);
    uv_loop_init(&n->loop);
    uv_timer_init(&n->loop, &n->timeout);
    n->timeout.data = n;
    if (br_link_server_start(&n->loop, n->address, &limits, &cb, &n->server, &err))
        fail_msg("%s", err.msg);
    UNTIL(n, n->devices[0].peer && n->devices[1].peer);
}

static void close_open(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void node_close(struct node *n)
{
    int status;
    kill(n->worker, SIGTERM);
    br_link_server_stop(n->server);
    assert_int_equal(waitpid(n->worker, &status, 0), n->worker);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    uv_walk(&n->loop, close_open, NULL);
    uv_run(&n->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&n->loop), 0);
    rmdir(n->dir);
}

static void spec_make(struct br_seq_spec *spec)
{
    fx_spec(&models, 3, 1, spec);
    free(spec->prompt);
    spec->n_prompt = PROMPT;
    spec->prompt = br_calloc(PROMPT, sizeof *spec->prompt);
    for (int32_t i = 0; i < PROMPT; i++)
        spec->prompt[i] = (i * 37 + 5) % 500;
    spec->max_tokens = ANSWER;
    spec->ignore_eos = true;
}

static void assign(struct node *n, uint32_t device, uint32_t kv_from)
{
    struct br_seq_spec spec;
    struct br_seq_spec_pb pb;
    Briareus__Assign assign = BRIAREUS__ASSIGN__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    spec_make(&spec);
    br_seq_spec_to_pb(&spec, &pb);
    assign.spec = &pb.msg;
    assign.fence = n->fence;
    assign.kv_from = kv_from;
    assign.tokens = br_tokens_to_pb(0, n->tokens, n->n);
    frame.body_case = BRIAREUS__FRAME__BODY_ASSIGN;
    frame.assign = &assign;
    assert_int_equal(br_link_send(n->devices[device].peer, &frame), 0);
    free(assign.tokens);
    br_seq_spec_free(&spec);
}

static void hand_over(struct node *n)
{
    Briareus__Cancel cancel = BRIAREUS__CANCEL__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    cancel.seq = want.seq;
    cancel.fence = n->fence++;
    cancel.forget = cancel.hand_over = true;
    frame.body_case = BRIAREUS__FRAME__BODY_CANCEL;
    frame.cancel = &cancel;
    assert_int_equal(br_link_send(n->devices[0].peer, &frame), 0);
}

/* The first child is device 0, as long as none has died. */
static pid_t device_pid(const struct node *n, uint32_t device)
{
    char path[128];
    struct br_buf text = {0};
    int pids[2] = {0};
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", n->worker, n->worker);
    assert_int_equal(br_buf_read_file(&text, path, 4096), 0);
    assert_int_equal(sscanf(text.data, "%d %d", &pids[0], &pids[1]), 2);
    br_buf_free(&text);
    return pids[device];
}

static void device_kill(struct node *n, uint32_t device, pid_t pid)
{
    uint32_t before = n->devices[device].registers;
    kill(pid, SIGKILL);
    UNTIL(n, n->devices[device].registers > before && n->devices[device].peer);
}

static void check_result(struct node *n)
{
    struct fx_result got = {.seq = want.seq, .n = n->n, .end = n->end};
    memcpy(got.tokens, n->tokens, sizeof n->tokens);
    fx_same(&want, &got, 0);
}

static void reported(struct node *n, uint32_t device)
{
    uint32_t before = n->devices[device].reports;
    UNTIL(n, n->devices[device].reports >= before + 2);
}

/* Up to the move; false: it was over before. */
static bool begin(struct node *n)
{
    assign(n, 0, 0);
    UNTIL(n, n->n >= MOVE_AT || n->end != BR_END_NONE);
    if (n->end != BR_END_NONE)
        return false;
    hand_over(n);
    return true;
}

enum death { NOBODY, GIVER, TAKER };

static bool moves(enum death death)
{
    static struct node n;
    pid_t pids[2];
    bool begun;
    node_open(&n);
    pids[0] = device_pid(&n, 0);
    pids[1] = device_pid(&n, 1);
    begun = begin(&n);
    if (begun && death == GIVER)
        device_kill(&n, 0, pids[0]);
    if (begun) {
        assign(&n, 1, 1);
        if (death == TAKER) {
            device_kill(&n, 1, pids[1]);
            n.fence++;
            assign(&n, 1, 0); /* its leader has forgotten by now where it came from */
        }
        UNTIL(&n, n.end != BR_END_NONE);
        check_result(&n);
        reported(&n, 1);
        assert_true(death != GIVER || n.devices[1].transfers.handed_tokens == 0 ||
                    n.devices[1].transfers.handed_tokens >= PROMPT); /* it may have been quicker than its death */
        if (death == NOBODY)
            begun = n.devices[1].transfers.handed_tokens >= PROMPT; /* or it had ended before it heard */
    }
    node_close(&n);
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
    struct br_seq_spec spec;
    (void)state;
    fx_models_open(&models);
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    spec_make(&spec);
    fx_add(&run, &spec, NULL, 0);
    fx_wait(&run);
    want = run.results[0];
    br_seq_spec_free(&spec);
    fx_stop(&run);
    assert_int_equal(want.n, ANSWER);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
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
