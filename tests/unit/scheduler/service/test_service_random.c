/* Devices that work, pause, lose their connection, die and come back at random, clients that stop reading or leave:
 * every request that is not given up by its client ends well, with each token once. */
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/cmocka.h"
#include "tests/unit/scheduler/service/service_fixture.h"

enum { ROBOTS = 3, CLIENTS = 48, REQUESTS = 3000, MOST = 128, TOKENS = FIX_TOKENS };

struct robot {
    struct fix_device device; /* first */
    struct fix_assign runs[MOST];
    bool paused[MOST], done[MOST];
    uint32_t n;
    uint64_t incarnation;
    int64_t back_ns; /* while it is away */
};

static struct fixture g_fixture;
static struct robot g_robots[ROBOTS];
static struct fix_client g_clients[CLIENTS];
static bool g_left[CLIENTS];
static uint32_t g_leaves_at[CLIENTS]; /* after so many tokens */
static struct br_rng g_rng;
static uint32_t g_deaths, g_breaks, g_forgotten, g_adopted;

static uint32_t draw(uint32_t n)
{
    return (uint32_t)(br_rng_next(&g_rng) * n);
}

/* ---- a device ---- */

static uint32_t run_find(const struct robot *r, uint64_t seq)
{
    uint32_t i = 0;
    while (i < r->n && r->runs[i].seq != seq)
        i++;
    return i;
}

static void run_drop(struct robot *r, uint32_t i)
{
    r->n--;
    r->runs[i] = r->runs[r->n];
    r->paused[i] = r->paused[r->n];
    r->done[i] = r->done[r->n];
}

static void on_assign(struct robot *r, const Briareus__Assign *a)
{
    uint32_t i = run_find(r, a->spec->id);
    for (uint32_t k = r->n; r->n == MOST && k-- > 0;) /* what has long ended is forgotten */
        if (r->done[k])
            run_drop(r, k);
    i = run_find(r, a->spec->id);
    assert_true(i < MOST);
    if (i == r->n)
        r->n++;
    else
        assert_true(a->fence > r->runs[i].fence); /* nobody is given what he has */
    r->runs[i] = (struct fix_assign){
        .seq = a->spec->id, .fence = a->fence, .tokens = a->tokens ? (uint32_t)a->tokens->n_tokens : 0};
    r->paused[i] = r->done[i] = false;
}

/* Keeps what is adopted, from where the scheduler has it. */
static void on_welcome(struct robot *r, const Briareus__Welcome *w)
{
    for (uint32_t i = r->n; i-- > 0;) {
        const Briareus__Adopt *adopt = NULL;
        for (size_t k = 0; k < w->n_adopted; k++)
            if (w->adopted[k]->seq == r->runs[i].seq)
                adopt = w->adopted[k];
        if (!adopt) {
            run_drop(r, i);
            continue;
        }
        g_adopted++;
        r->runs[i].fence = adopt->fence;
        r->runs[i].tokens = adopt->acknowledged;
        r->paused[i] = adopt->paused;
        r->done[i] = false;
    }
}

static void on_heard(struct fix_device *device, const Briareus__Frame *frame)
{
    struct robot *r = (struct robot *)device;
    if (frame->body_case == BRIAREUS__FRAME__BODY_ASSIGN)
        on_assign(r, frame->assign);
    else if (frame->body_case == BRIAREUS__FRAME__BODY_WELCOME)
        on_welcome(r, frame->welcome);
    else if (frame->body_case == BRIAREUS__FRAME__BODY_CANCEL) {
        uint32_t i = run_find(r, frame->cancel->seq);
        g_forgotten += frame->cancel->forget;
        if (i < r->n && r->runs[i].fence <= frame->cancel->fence)
            run_drop(r, i);
    } else if (frame->body_case == BRIAREUS__FRAME__BODY_PAUSE || frame->body_case == BRIAREUS__FRAME__BODY_RESUME) {
        bool pause = frame->body_case == BRIAREUS__FRAME__BODY_PAUSE;
        uint32_t i = run_find(r, pause ? frame->pause->seq : frame->resume->seq);
        if (i < r->n)
            r->paused[i] = pause;
    }
}

static void robot_work(struct robot *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        uint32_t n = 1 + draw(3), at = r->runs[i].tokens;
        if (r->paused[i] || r->done[i] || draw(16))
            continue;
        n = at + n < TOKENS ? n : TOKENS - at;
        r->done[i] = at + n == TOKENS; /* it keeps it: the end may have to be told again */
        device_tokens(&r->device, r->runs[i].seq, r->runs[i].fence, at, n, r->done[i] ? BR_END_LENGTH : BR_END_NONE);
        r->runs[i].tokens = at + n;
    }
}

static void robot_turn(struct robot *r)
{
    if (!r->device.link) {
        if (br_now_ns() < r->back_ns)
            return;
        r->device.runs = r->runs;
        r->device.n_runs = r->n;
        device_connect(&g_fixture, &r->device, (uint32_t)(r - g_robots), r->incarnation);
    } else if (draw(200) == 0) {
        device_leave(&r->device);
        r->back_ns = br_now_ns() + (draw(8) ? draw(20) : 400) * (BR_NS_PER_S / 1000); /* too late to adopt, or not */
        if (draw(4) == 0) { /* it dies, else its connection alone does */
            r->n = 0;
            r->incarnation++;
            g_deaths++;
        } else
            g_breaks++;
    } else
        robot_work(r);
}

/* ---- clients ---- */

static void pace_random(void)
{
    const struct robot *r = &g_robots[draw(ROBOTS)];
    struct br_gateway_backend backend = br_service_backend(g_fixture.service);
    if (r->n)
        backend.pace(backend.ctx, r->runs[draw(r->n)].seq, draw(3) == 0);
}

/* Nobody stays paused for ever: the last thing each hears is that it goes on. */
static void pace_all(void)
{
    struct br_gateway_backend backend = br_service_backend(g_fixture.service);
    for (uint32_t k = 0; k < ROBOTS; k++)
        for (uint32_t i = 0; i < g_robots[k].n; i++)
            backend.pace(backend.ctx, g_robots[k].runs[i].seq, false);
}

static void client_check(uint32_t i)
{
    const struct fix_client *c = &g_clients[i];
    if (!g_left[i] && !(c->ok && c->tokens == TOKENS))
        fail_msg("client %u: %u tokens, %s", i, c->tokens, c->why);
}

static void ask(struct fix_client *c)
{
    client_ask_with(&g_fixture, c, draw(2) ? "m" : "m2", "");
}

/* True while something is to be done. */
static bool clients_turn(uint32_t *asked)
{
    bool busy = false;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct fix_client *c = &g_clients[i];
        bool idle = !c->client && (c->done || c->why[0] == 0);
        if (c->client && c->tokens >= g_leaves_at[i] && !g_left[i]) {
            g_left[i] = true;
            http_client_abort(c->client, "leaving");
        }
        if (idle && c->done)
            client_check(i);
        if (idle && *asked < REQUESTS) {
            g_left[i] = false;
            g_leaves_at[i] = draw(10) ? TOKENS + 1 : draw(TOKENS);
            ++*asked;
            ask(c);
        }
        busy |= c->client != NULL;
    }
    return busy;
}

static void nothing_is_lost(void **state)
{
    uint32_t asked = 0;
    (void)state;
    g_rng.seed = 5;
    fixture_open(&g_fixture, 0.2, 64);
    for (uint32_t i = 0; i < ROBOTS; i++) {
        g_robots[i].device.heard = on_heard;
        g_robots[i].device.step_s = 0.03;
        g_robots[i].incarnation = 1;
    }
    fixture_arm(&g_fixture);
    while (clients_turn(&asked)) {
        uv_run(&g_fixture.loop, UV_RUN_NOWAIT);
        for (uint32_t i = 0; i < ROBOTS; i++)
            robot_turn(&g_robots[i]);
        if (draw(20) == 0)
            pace_random();
        if (draw(200) == 0)
            pace_all();
        if (g_fixture.late)
            fail_msg("a request does not come to its end");
        if (asked % 50 == 0)
            fixture_arm(&g_fixture);
    }
    assert_true(g_deaths > 3 && g_breaks > 3 && g_adopted > 0);
    for (uint32_t i = 0; i < ROBOTS; i++)
        if (g_robots[i].device.link)
            device_leave(&g_robots[i].device);
    fixture_close(&g_fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
