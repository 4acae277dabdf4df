#include "tests/unit/worker/node/node_rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/convert.h"
#include "tests/cmocka.h"

enum { TIMEOUT_MS = 30000 };

static void model_errors(struct rig_device *d, const Briareus__Register *hello)
{
    for (size_t i = 0; i < hello->n_models; i++)
        if (hello->models[i]->error[0] && !d->error[0])
            snprintf(d->error, sizeof d->error, "%s", hello->models[i]->error);
}

static void on_up(void *ctx, struct br_link_peer *peer, const Briareus__Register *hello)
{
    struct rig *r = ctx;
    struct rig_device *d = &r->devices[hello->device];
    Briareus__Welcome welcome = BRIAREUS__WELCOME__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    assert_true(hello->device < RIG_DEVICES);
    d->peer = peer;
    d->registers++;
    model_errors(d, hello);
    br_link_peer_set_data(peer, d);
    welcome.version = BR_LINK_VERSION;
    frame.body_case = BRIAREUS__FRAME__BODY_WELCOME;
    frame.welcome = &welcome;
    assert_int_equal(br_link_send(peer, &frame), 0);
    uv_stop(&r->loop);
}

static void take_tokens(struct rig *r, const Briareus__Tokens *msg)
{
    struct br_token *tokens;
    struct br_err err;
    uint32_t first, n, i = 0;
    while (i < RIG_SEQS && (r->results[i].seq != msg->seq || r->fences[i] != msg->fence))
        i++;
    if (i == RIG_SEQS)
        return; /* of the device that no longer has it */
    struct fx_result *got = &r->results[i];
    assert_int_equal(br_tokens_from_pb(msg->run, &first, &tokens, &n, &err), 0);
    assert_true(n == 0 || first <= got->n);
    assert_true(first + n <= sizeof got->tokens / sizeof *got->tokens);
    for (uint32_t k = 0; k < n; k++)
        got->tokens[first + k] = tokens[k];
    got->n = n && first + n > got->n ? first + n : got->n;
    got->end = (enum br_end)msg->end;
    snprintf(got->error, sizeof got->error, "%s", msg->error);
    free(tokens);
}

static void on_frame(void *ctx, struct br_link_peer *peer, const Briareus__Frame *frame)
{
    struct rig *r = ctx;
    struct rig_device *d = br_link_peer_data(peer);
    if (frame->body_case == BRIAREUS__FRAME__BODY_TOKENS)
        take_tokens(r, frame->tokens);
    if (frame->body_case == BRIAREUS__FRAME__BODY_REPORT) {
        br_transfers_from_pb(frame->report, &d->transfers);
        d->reports++;
    }
    uv_stop(&r->loop);
}

static void on_down(void *ctx, struct br_link_peer *peer)
{
    struct rig *r = ctx;
    struct rig_device *d = br_link_peer_data(peer);
    if (d && d->peer == peer)
        d->peer = NULL;
    uv_stop(&r->loop);
}

static void on_timeout(uv_timer_t *timer)
{
    struct rig *r = timer->data;
    for (uint32_t i = 0; i < RIG_SEQS; i++)
        if (r->results[i].seq)
            fprintf(stderr, "timed out: seq=%lu n=%u end=%d\n", (unsigned long)r->results[i].seq, r->results[i].n,
                    r->results[i].end);
    kill(r->worker, SIGKILL);
    abort();
}

void rig_turn(struct rig *r)
{
    uv_timer_start(&r->timeout, on_timeout, TIMEOUT_MS, 0);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_timer_stop(&r->timeout);
}

void rig_config(struct rig *r, struct br_worker_config *c)
{
    *r = (struct rig){.dir = "/tmp/briareus-rig-XXXXXX"};
    assert_non_null(mkdtemp(r->dir));
    snprintf(r->address, sizeof r->address, "unix:%s/link", r->dir);
    snprintf(r->cache, sizeof r->cache, "%s/cache", r->dir);
    br_worker_config_init(c);
    c->node = "rig";
    c->scheduler = r->address;
    c->cache_dir = r->cache;
    c->max_context = 256;
    c->log_level = BR_ERROR;
}

static bool all_here(const struct rig *r, uint32_t devices)
{
    bool here = true;
    for (uint32_t i = 0; i < devices; i++)
        here = here && r->devices[i].peer;
    return here;
}

/* The worker is started before the loop is made: a forked loop must not be used. */
void rig_open(struct rig *r, const struct br_worker_config *config)
{
    struct br_link_limits limits = {.max_peers = 4, .max_out_bytes = 1 << 20, .register_ms = 2000, .silence_ms = 20000};
    struct br_link_server_cb cb = {r, on_up, on_frame, on_down};
    struct br_err err;
    r->worker = fork();
    if (r->worker == 0) {
        int rc;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing behind */
        rc = br_worker_run(config, &err);
        if (rc)
            fprintf(stderr, "worker: %s\n", err.msg);
        _exit(rc ? 1 : 0);
    }
    uv_loop_init(&r->loop);
    uv_timer_init(&r->loop, &r->timeout);
    r->timeout.data = r;
    if (br_link_server_start(&r->loop, r->address, &limits, &cb, &r->server, &err))
        fail_msg("%s", err.msg);
    RIG_UNTIL(r, all_here(r, config->devices));
}

static void close_open(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void rig_close(struct rig *r)
{
    int status;
    kill(r->worker, SIGTERM);
    br_link_server_stop(r->server);
    assert_int_equal(waitpid(r->worker, &status, 0), r->worker);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    uv_walk(&r->loop, close_open, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&r->loop), 0);
    rmdir(r->dir);
}

void rig_frame(struct rig *r, uint32_t device, const Briareus__Frame *frame)
{
    assert_int_equal(br_link_send(r->devices[device].peer, frame), 0);
}

void rig_assign(struct rig *r, uint32_t i, const struct br_seq_spec *spec, uint32_t device, uint32_t kv_from)
{
    struct br_seq_spec_pb pb;
    Briareus__Assign assign = BRIAREUS__ASSIGN__INIT;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    if (!r->results[i].seq) {
        r->results[i].seq = spec->id;
        r->fences[i] = 1;
    }
    br_seq_spec_to_pb(spec, &pb);
    assign.spec = &pb.msg;
    assign.fence = r->fences[i];
    assign.kv_from = kv_from;
    assign.tokens = br_tokens_to_pb(0, r->results[i].tokens, r->results[i].n);
    frame.body_case = BRIAREUS__FRAME__BODY_ASSIGN;
    frame.assign = &assign;
    rig_frame(r, device, &frame);
    free(assign.tokens);
}

void rig_reported(struct rig *r, uint32_t device)
{
    uint32_t before = r->devices[device].reports;
    RIG_UNTIL(r, r->devices[device].reports >= before + 2);
}
