/* A whole worker against a scheduler's end of the link: processes that die, connections that break, models that are
 * missing. Tokens are held against a turn of the test's own. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "proto/convert.h"
#include "proto/transfers.h"
#include "scheduler/link/link.h"
#include "tests/unit/worker/turn/fixture.h"
#include "worker/node/worker.h"

enum { N_MODELS = 3, TIMEOUT_MS = 20000 };

static struct fx_models models;

struct sched {
    uv_loop_t loop;
    uv_timer_t timeout;
    struct br_link_server *server;
    struct br_link_peer *peer; /* NULL: none is connected */
    char address[128], cache[128], dir[64];
    pid_t worker;
    /* of the last Register */
    uint64_t incarnation;
    uint32_t registers, device_n_models, n_running, running_tokens;
    char errors[8][512], profile[64];
    /* of the one sequence of the test */
    struct br_token tokens[160];
    uint32_t n, frames, reports;
    uint64_t fence;
    struct br_transfers transfers; /* of the last report */
    enum br_end end;
    uint32_t stop_at; /* tokens at which the loop returns to the test; or at the end */
    bool gone;
};

/* ---- the scheduler's end ---- */

static void on_up(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello)
{
    struct sched *s = ctx;
    s->peer = peer;
    s->registers++;
    s->incarnation = hello->incarnation;
    s->device_n_models = (uint32_t)hello->n_models;
    for (size_t i = 0; i < hello->n_models && i < 8; i++)
        snprintf(s->errors[i], sizeof s->errors[i], "%s", hello->models[i]->error);
    snprintf(s->profile, sizeof s->profile, "%s", hello->numeric_profile);
    s->n_running = (uint32_t)hello->n_running;
    s->running_tokens = hello->n_running ? hello->running[0]->tokens : 0;
    uv_stop(&s->loop);
}

static void take_tokens(struct sched *s, const Briareus__Tokens *frame)
{
    struct br_token *tokens;
    struct br_err err;
    uint32_t first, n;
    assert_int_equal(frame->fence, s->fence);
    assert_int_equal(br_tokens_from_pb(frame->run, &first, &tokens, &n, &err), 0);
    assert_true(first <= s->n && s->end == BR_END_NONE); /* none is missing; some may come again */
    for (uint32_t i = 0; i < n; i++)
        s->tokens[first + i] = tokens[i];
    s->n = first + n > s->n ? first + n : s->n;
    s->end = (enum br_end)frame->end;
    s->frames++;
    free(tokens);
    if (s->n >= s->stop_at || s->end != BR_END_NONE)
        uv_stop(&s->loop);
}

static void on_frame(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame)
{
    struct sched *s = ctx;
    (void)peer;
    if (frame->body_case == BRIAREUS__FRAME__BODY_TOKENS)
        take_tokens(s, frame->tokens);
    else if (frame->body_case == BRIAREUS__FRAME__BODY_REPORT) {
        s->reports++;
        br_transfers_from_pb(frame->report, &s->transfers);
        uv_stop(&s->loop);
    }
}

static void on_down(void *ctx, struct br_link_peer *peer)
{
    struct sched *s = ctx;
    (void)peer;
    s->peer = NULL;
    s->gone = true;
    uv_stop(&s->loop);
}

static void on_timeout(uv_timer_t *timer)
{
    struct sched *s = timer->data;
    fprintf(stderr, "timed out: registers=%u n=%u end=%d\n", s->registers, s->n, s->end);
    kill(s->worker, SIGKILL);
    abort();
}

static void send_welcome(struct sched *s, uint64_t seq, uint32_t acknowledged)
{
    Briareus__Welcome welcome = BRIAREUS__WELCOME__INIT;
    Briareus__Adopt adopt = BRIAREUS__ADOPT__INIT, *list[1] = {&adopt};
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    welcome.version = BR_LINK_VERSION;
    adopt.seq = seq;
    adopt.fence = s->fence;
    adopt.acknowledged = acknowledged;
    welcome.n_adopted = seq ? 1 : 0;
    welcome.adopted = list;
    frame.body_case = BRIAREUS__FRAME__BODY_WELCOME;
    frame.welcome = &welcome;
    assert_int_equal(br_link_send(s->peer, &frame), 0);
}

static void send_assign(struct sched *s, const struct br_seq_spec *spec, uint32_t given)
{
    struct br_seq_spec_pb pb;
    Briareus__Assign assign = BRIAREUS__ASSIGN__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    br_seq_spec_to_pb(spec, &pb);
    assign.spec = &pb.msg;
    assign.fence = s->fence;
    assign.tokens = br_tokens_to_pb(0, s->tokens, given);
    frame.body_case = BRIAREUS__FRAME__BODY_ASSIGN;
    frame.assign = &assign;
    assert_int_equal(br_link_send(s->peer, &frame), 0);
    free(assign.tokens);
}

static void send_empty(struct sched *s, Briareus__Frame__BodyCase kind, uint64_t seq)
{
    Briareus__Drain drain = BRIAREUS__DRAIN__INIT;
    Briareus__Cancel cancel = BRIAREUS__CANCEL__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    cancel.seq = seq;
    cancel.fence = s->fence;
    frame.body_case = kind;
    if (kind == BRIAREUS__FRAME__BODY_DRAIN)
        frame.drain = &drain;
    else
        frame.cancel = &cancel;
    assert_int_equal(br_link_send(s->peer, &frame), 0);
}

/* Runs the loop until one of the callbacks stops it. */
static void wait_event(struct sched *s)
{
    uv_timer_start(&s->timeout, on_timeout, TIMEOUT_MS, 0);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_timer_stop(&s->timeout);
}

static void wait_register(struct sched *s)
{
    uint32_t before = s->registers;
    while (s->registers == before)
        wait_event(s);
}

static void wait_tokens(struct sched *s, uint32_t n)
{
    s->stop_at = n;
    while (s->n < n && s->end == BR_END_NONE)
        wait_event(s);
}

static void wait_end(struct sched *s)
{
    wait_tokens(s, UINT32_MAX);
}

static void wait_gone(struct sched *s)
{
    while (!s->gone)
        wait_event(s);
    s->gone = false;
}

/* ---- the worker ---- */

static void worker_config(struct sched *s, struct br_worker_config *c, const struct br_worker_model *list, uint32_t n)
{
    br_worker_config_init(c);
    c->node = "test";
    c->scheduler = s->address;
    c->token = "secret";
    c->cache_dir = s->cache;
    c->models = list;
    c->n_models = n;
    c->kv_bytes = 4 << 20;
    c->host_kv_bytes = 4 << 20;
    c->max_context = 256;
}

/* Started before the loop is made: a forked loop must not be used. The last model does not exist. */
static void worker_start(struct sched *s, uint64_t link_bytes_per_s)
{
    struct br_worker_model list[N_MODELS] = {{.name = "stories", .dir = models.folder[3]},
                                             {.name = "tiny-qwen2", .dir = models.folder[4]},
                                             {.name = "lost/model", .dir = "/nonexistent"}};
    struct br_worker_config c;
    struct br_err err;
    worker_config(s, &c, list, N_MODELS);
    c.link_bytes_per_s = link_bytes_per_s;
    s->worker = fork();
    if (s->worker == 0) {
        int rc;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind */
        rc = br_worker_run(&c, &err);
        if (rc)
            fprintf(stderr, "worker: %s\n", err.msg);
        _exit(rc ? 1 : 0);
    }
}

static void server_start(struct sched *s)
{
    struct br_link_limits limits = {.max_peers = 4, .max_out_bytes = 1 << 20, .register_ms = 2000, .silence_ms = 20000};
    struct br_link_server_cb cb = {s, on_up, on_frame, on_down};
    struct br_err err;
    limits.token = "secret";
    if (br_link_server_start(&s->loop, s->address, &limits, &cb, &s->server, &err))
        fail_msg("%s", err.msg);
}

static void sched_open(struct sched *s, uint64_t link_bytes_per_s)
{
    *s = (struct sched){.dir = "/tmp/briareus-node-XXXXXX", .fence = 1, .stop_at = UINT32_MAX};
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->address, sizeof s->address, "unix:%s/link", s->dir);
    snprintf(s->cache, sizeof s->cache, "%s/cache", s->dir);
    worker_start(s, link_bytes_per_s);
    uv_loop_init(&s->loop);
    uv_timer_init(&s->loop, &s->timeout);
    s->timeout.data = s;
    server_start(s);
}

static void close_open(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void sched_close(struct sched *s, int signum, bool clean)
{
    int status;
    if (signum)
        kill(s->worker, signum);
    if (s->server)
        br_link_server_stop(s->server);
    assert_int_equal(waitpid(s->worker, &status, 0), s->worker);
    if (clean) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_not_equal(access(s->cache, F_OK), 0); /* the cache is gone */
    }
    uv_walk(&s->loop, close_open, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
    if (clean)
        rmdir(s->dir);
}

/* The device process: the worker's only child. */
static pid_t device_pid(const struct sched *s)
{
    char path[128];
    struct br_buf text = {0};
    pid_t pid;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", s->worker, s->worker);
    assert_int_equal(br_buf_read_file(&text, path, 4096), 0);
    pid = (pid_t)atoi(text.data);
    assert_true(pid > 0);
    br_buf_free(&text);
    return pid;
}

/* ---- tests ---- */

static struct fx_result want; /* of the sequence below */

/* Long enough that things can happen while it runs. */
static void long_spec(struct br_seq_spec *spec)
{
    fx_spec(&models, 3, 1, spec);
    spec->max_tokens = 140;
    spec->ignore_eos = true;
}

static void reference(void)
{
    static struct fx_run run;
    struct br_turn_config config;
    struct br_seq_spec spec;
    fx_config(&models, &config);
    fx_start(&run, &config, &models, FX_MODELS);
    long_spec(&spec);
    fx_add(&run, &spec, NULL, 0);
    fx_wait(&run);
    want = run.results[0];
    br_seq_spec_free(&spec);
    fx_stop(&run);
    assert_int_equal(want.n, 140);
}

/* Before any thread runs here: workers are forked from this process. */
static int setup(void **state)
{
    (void)state;
    fx_models_open(&models);
    reference();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fx_models_close(&models);
    return 0;
}

static void check_result(const struct sched *s)
{
    struct fx_result got = {.seq = want.seq, .n = s->n, .end = s->end};
    memcpy(got.tokens, s->tokens, sizeof got.tokens);
    fx_same(&want, &got, 0);
}

static void first_welcome(struct sched *s)
{
    wait_register(s);
    send_welcome(s, 0, 0);
}

/* The supervisor read two models and cached them; the device took one from there. */
static void check_transfers(struct sched *s)
{
    const struct br_transfers *t = &s->transfers;
    uint64_t stories = br_layout_total_bytes(&models.image[3]->layout),
             tiny = br_layout_total_bytes(&models.image[4]->layout);
    for (uint32_t before = s->reports; s->reports < before + 2;) /* the second is of later than now */
        wait_event(s);
    assert_int_equal(t->cache_filled_bytes, stories + tiny);
    assert_true(t->cache_bytes >= stories + tiny && t->cache_bytes <= t->cache_limit_bytes);
    assert_true(t->disk_bytes > 0 && t->disk_s > 0);
    assert_int_equal(t->cache_misses, 0);
    assert_true(t->loaded_bytes >= stories && t->cache_hit_bytes >= stories);
    assert_true(t->device_weight_bytes >= stories);
    assert_int_equal(t->host_kv_limit_bytes, 4 << 20);
    assert_int_equal(t->drops + t->cache_repaired + t->cache_failures, 0);
}

static void test_serves(void **state)
{
    static struct sched s;
    struct br_seq_spec spec;
    (void)state;
    sched_open(&s, 0);
    first_welcome(&s);
    assert_int_equal(s.device_n_models, N_MODELS);
    assert_string_equal(s.errors[0], "");
    assert_string_equal(s.errors[1], "");
    assert_non_null(strstr(s.errors[2], "/nonexistent"));
    assert_non_null(strstr(s.profile, "cpu"));
    long_spec(&spec);
    send_assign(&s, &spec, 0);
    wait_end(&s);
    check_result(&s);
    check_transfers(&s);
    assert_true(s.frames > 1); /* as they come, not all at the end */
    br_seq_spec_free(&spec);
    sched_close(&s, SIGTERM, true);
}

static void test_device_killed(void **state)
{
    static struct sched s;
    struct br_seq_spec spec;
    uint64_t incarnation;
    (void)state;
    sched_open(&s, 0);
    first_welcome(&s);
    incarnation = s.incarnation;
    long_spec(&spec);
    send_assign(&s, &spec, 0);
    wait_tokens(&s, 5);
    kill(device_pid(&s), SIGKILL);
    wait_register(&s);
    assert_int_not_equal(s.incarnation, incarnation);
    assert_int_equal(s.n_running, 0);
    s.fence = 2;
    send_welcome(&s, 0, 0);
    send_assign(&s, &spec, s.n);
    wait_end(&s);
    check_result(&s);
    br_seq_spec_free(&spec);
    sched_close(&s, SIGTERM, true);
}

static void test_connection_broken(void **state)
{
    static struct sched s;
    struct br_seq_spec spec;
    uint64_t incarnation;
    (void)state;
    sched_open(&s, 0);
    first_welcome(&s);
    incarnation = s.incarnation;
    long_spec(&spec);
    send_assign(&s, &spec, 0);
    wait_tokens(&s, 7);
    br_link_peer_close(s.peer, "test");
    wait_register(&s);
    assert_int_equal(s.incarnation, incarnation);
    assert_int_equal(s.n_running, 1);
    assert_true(s.running_tokens >= s.n);
    s.fence = 9;
    s.n = 3;
    memset(s.tokens + 3, 0, sizeof s.tokens - 3 * sizeof *s.tokens);
    send_welcome(&s, spec.id, 3);
    wait_end(&s);
    check_result(&s);
    br_seq_spec_free(&spec);
    sched_close(&s, SIGTERM, true);
}

/* It ends while the scheduler is away; all of it is sent when it is back. */
static void test_ended_while_away(void **state)
{
    static struct sched s;
    struct br_seq_spec spec;
    (void)state;
    sched_open(&s, 0);
    first_welcome(&s);
    long_spec(&spec);
    send_assign(&s, &spec, 0);
    wait_tokens(&s, 4);
    br_link_peer_close(s.peer, "test");
    do { /* not adopted until it is complete */
        wait_register(&s);
        assert_int_equal(s.n_running, 1);
        if (s.running_tokens < 140)
            br_link_peer_close(s.peer, "test");
    } while (s.running_tokens < 140);
    s.fence = 5;
    send_welcome(&s, spec.id, s.n);
    wait_end(&s);
    check_result(&s);
    br_link_peer_close(s.peer, "test"); /* the last frame may have been lost: adopted again, it is sent again */
    wait_register(&s);
    assert_int_equal(s.n_running, 1);
    s.end = BR_END_NONE;
    s.fence = 6;
    send_welcome(&s, spec.id, 140);
    wait_end(&s);
    check_result(&s);
    br_link_peer_close(s.peer, "test");
    wait_register(&s);
    send_welcome(&s, 0, 0); /* not adopted: forgotten */
    br_link_peer_close(s.peer, "test");
    wait_register(&s);
    br_seq_spec_free(&spec);
    sched_close(&s, SIGINT, true);
}

static void test_cancelled(void **state)
{
    static struct sched s;
    struct br_seq_spec spec;
    (void)state;
    sched_open(&s, 0);
    first_welcome(&s);
    long_spec(&spec);
    spec.max_tokens = 100000;
    send_assign(&s, &spec, 0);
    wait_tokens(&s, 5);
    send_empty(&s, BRIAREUS__FRAME__BODY_CANCEL, spec.id);
    wait_end(&s);
    assert_true(s.end == BR_END_CANCELLED || s.end == BR_END_LENGTH);
    br_seq_spec_free(&spec);
    sched_close(&s, SIGTERM, true);
}

/* What is running is finished and sent; then the worker ends by itself. */
static void test_drained(void **state)
{
    static struct sched s;
    struct br_seq_spec spec;
    (void)state;
    sched_open(&s, 0);
    first_welcome(&s);
    long_spec(&spec);
    send_assign(&s, &spec, 0);
    send_empty(&s, BRIAREUS__FRAME__BODY_DRAIN, 0);
    wait_end(&s);
    check_result(&s);
    wait_gone(&s);
    br_seq_spec_free(&spec);
    sched_close(&s, 0, true);
}

/* Nothing is orphaned: the device process dies with its supervisor. */
static void test_supervisor_killed(void **state)
{
    static struct sched s;
    char command[200];
    (void)state;
    sched_open(&s, 0);
    first_welcome(&s);
    kill(s.worker, SIGKILL);
    wait_gone(&s);
    sched_close(&s, 0, false);
    snprintf(command, sizeof command, "rm -rf '%s'", s.dir);
    assert_int_equal(system(command), 0);
}

static void test_wrong_configuration(void **state)
{
    struct sched s = {.address = "unix:/tmp/none", .cache = "/tmp/briareus-test-cache-none"};
    struct br_worker_model twice[2] = {{.name = "a", .dir = "/x"}, {.name = "a", .dir = "/y"}};
    struct br_worker_model lost[1] = {{.name = "a", .dir = "/nonexistent"}};
    struct br_worker_config c;
    struct br_err err;
    (void)state;
    worker_config(&s, &c, twice, 2);
    assert_int_equal(br_worker_run(&c, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "two models are called a"));
    worker_config(&s, &c, lost, 1);
    c.device_kind = "tpu";
    assert_int_equal(br_worker_run(&c, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "device: 'tpu'"));
    c.device_kind = "cpu";
    c.policy = "none";
    assert_int_equal(br_worker_run(&c, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "policy: 'none' is not known; there are: quota-rr, "));
    assert_non_null(strstr(err.msg, "slack"));
    c.policy = "slack";
    c.scheduler = "nowhere";
    assert_int_equal(br_worker_run(&c, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "scheduler-address: 'nowhere'"));
    c.scheduler = s.address;
    assert_int_equal(br_worker_run(&c, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "none of 1 models can be served"));
    assert_int_not_equal(access(s.cache, F_OK), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serves),
        cmocka_unit_test(test_device_killed),
        cmocka_unit_test(test_connection_broken),
        cmocka_unit_test(test_ended_while_away),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_drained),
        cmocka_unit_test(test_supervisor_killed),
        cmocka_unit_test(test_wrong_configuration),
    };
    if (argc > 1 && strcmp(argv[1], BR_WORKER_DEVICE_PROCESS) == 0)
        return br_worker_device_process(argc, argv);
    return cmocka_run_group_tests(tests, setup, teardown);
}
