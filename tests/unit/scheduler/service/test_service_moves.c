/* What the service does for core/fleet and for slow clients: moves, pauses, trials, deadlines, admission, terms. */
#include <string.h>

#include "base/clock.h"
#include "scheduler/service_impl.h"
#include "tests/cmocka.h"
#include "tests/unit/scheduler/service/service_fixture.h"

static void turns(struct fixture *f, int n)
{
    for (int i = 0; i < n; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

/* Two models fill one device with .3 each; a second device takes one of them over, behind its tokens and under a new
 * fence. What the first still sends of it is worth nothing, and it may have it back. */
static void a_slot_moves_to_an_empty_device(void **state)
{
    struct fixture f;
    struct fix_device a = {.step_s = 0.03}, b = {.step_s = 0.03};
    struct fix_client c[2];
    struct fix_assign first;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &a, 0, 1);
    client_ask_with(&f, &c[0], "m", "");
    client_ask_with(&f, &c[1], "m2", "");
    FIX_UNTIL(&f, a.n_assigns == 2);
    device_connect(&f, &b, 1, 1);
    FIX_UNTIL(&f, b.n_assigns == 1 && a.n_cancels == 1);
    assert_int_equal(a.n_forgotten, 1);
    assert_true(a.cancelled == b.assigns[0].seq);
    assert_int_equal(b.assigns[0].fence, 2);
    first = a.assigns[a.assigns[1].seq == b.assigns[0].seq];
    device_tokens(&a, b.assigns[0].seq, 1, 0, 3, BR_END_NONE); /* a ghost: its tokens are not taken */
    FIX_UNTIL(&f, a.n_cancels == 2);
    assert_int_equal(c[0].tokens + c[1].tokens, 0);
    device_tokens(&b, b.assigns[0].seq, 2, 0, 8, BR_END_LENGTH);
    device_tokens(&a, a.assigns[a.assigns[0].seq == b.assigns[0].seq].seq, 1, 0, 8, BR_END_LENGTH);
    FIX_UNTIL(&f, c[0].done && c[1].done);
    assert_true(c[0].ok && c[1].ok && c[0].tokens == 8 && c[1].tokens == 8);
    assert_int_equal(first.fence, 1);
    device_leave(&a);
    device_leave(&b);
    fixture_close(&f);
}

/* Moved while it runs: the new device is told the tokens so far, the client gets each once. */
static void moves_behind_its_tokens(const char *other_node)
{
    struct fixture f;
    struct fix_device a = {.step_s = 0.03}, b = {.step_s = 0.03, .node = other_node};
    struct fix_client c[2];
    fixture_open(&f, 5, 16);
    device_connect(&f, &a, 0, 1);
    client_ask_with(&f, &c[0], "m", "");
    client_ask_with(&f, &c[1], "m2", "");
    FIX_UNTIL(&f, a.n_assigns == 2);
    device_tokens(&a, a.assigns[0].seq, 1, 0, 3, BR_END_NONE);
    device_tokens(&a, a.assigns[1].seq, 1, 0, 3, BR_END_NONE);
    FIX_UNTIL(&f, c[0].tokens == 3 && c[1].tokens == 3);
    device_connect(&f, &b, 1, 1);
    FIX_UNTIL(&f, b.n_assigns == 1);
    assert_int_equal(b.assigns[0].tokens, 3);
    assert_int_equal(a.n_handed, other_node ? 0 : 1);
    assert_int_equal(b.kv_from, other_node ? 0 : 1); /* device 0 */
    assert_int_equal(a.kv_from, 0);
    device_tokens(&b, b.assigns[0].seq, b.assigns[0].fence, 3, 5, BR_END_LENGTH);
    FIX_UNTIL(&f, c[0].done || c[1].done);
    assert_true((c[0].done ? c[0] : c[1]).tokens == 8 && (c[0].done ? c[0] : c[1]).ok);
    device_leave(&a);
    device_leave(&b);
    fixture_close(&f);
}

/* Within a node its KV is handed over, to another node it is computed again. */
static void a_running_sequence_moves_behind_its_tokens(void **state)
{
    (void)state;
    moves_behind_its_tokens(NULL);
    moves_behind_its_tokens("elsewhere");
}

/* The client leaves while the lease for the new device is under way: nothing of it is left to be recovered. */
static void cancelled_while_it_moves(void **state)
{
    struct fixture f;
    struct fix_device a = {.step_s = 0.03}, b = {.step_s = 0.03};
    struct fix_client c[2];
    struct br_gateway_backend backend;
    (void)state;
    fixture_open(&f, 5, 16);
    backend = br_service_backend(f.service);
    device_connect(&f, &a, 0, 1);
    client_ask_with(&f, &c[0], "m", "");
    client_ask_with(&f, &c[1], "m2", "");
    FIX_UNTIL(&f, a.n_assigns == 2);
    device_connect(&f, &b, 1, 1);
    while (a.n_forgotten == 0 && b.n_assigns == 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    http_client_abort(c[0].client, "leaving");
    http_client_abort(c[1].client, "leaving");
    FIX_UNTIL(&f, br_service_settled(f.service) && a.n_cancels >= 2);
    struct br_buf stats = {0};
    backend.stats(backend.ctx, &stats);
    assert_non_null(strstr(stats.data, "\"unfinished\":0"));
    br_buf_free(&stats);
    device_leave(&a);
    device_leave(&b);
    fixture_close(&f);
}

static void a_slow_client_pauses_its_sequence(void **state)
{
    struct fixture f;
    struct fix_device d = {0}, again = {0};
    struct fix_client c;
    struct br_gateway_backend backend;
    uint64_t seq;
    int64_t paused_ns;
    (void)state;
    fixture_open(&f, 5, 16);
    backend = br_service_backend(f.service);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 4);
    FIX_UNTIL(&f, d.n_assigns == 1);
    seq = d.assigns[0].seq;
    backend.pace(backend.ctx, seq, true);
    backend.pace(backend.ctx, seq, true); /* once is enough */
    FIX_UNTIL(&f, d.n_pauses == 1);
    paused_ns = br_now_ns();
    assert_true(d.paced == seq);
    backend.pace(backend.ctx, seq + 1, true); /* unknown */
    device_leave(&d); /* the device dies meanwhile: the next one is told too, and the clock stood still */
    while (br_now_ns() - paused_ns < BR_NS_PER_S / 5)
        uv_run(&f.loop, UV_RUN_ONCE);
    device_connect(&f, &again, 0, 2);
    FIX_UNTIL(&f, again.n_assigns == 1 && again.n_pauses == 1);
    assert_true(again.assigns[0].age_s < 0.2);
    backend.pace(backend.ctx, seq, false);
    FIX_UNTIL(&f, again.n_resumes == 1);
    device_tokens(&again, seq, again.assigns[0].fence, 0, 4, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok && c.tokens == 4);
    assert_int_equal(d.n_pauses, 1);
    device_leave(&again);
    fixture_close(&f);
}

/* Of three that were there when the device died twice, one does it each time: the others only wait for their turn. */
static void bystanders_of_a_killer_are_served(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c[3];
    uint64_t incarnation = 1, killer;
    uint32_t deaths = 0;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &d, 0, incarnation);
    for (int i = 0; i < 3; i++)
        client_ask(&f, &c[i], 1);
    FIX_UNTIL(&f, d.n_assigns == 3);
    killer = d.assigns[1].seq;
    while (!c[0].done || !c[1].done || !c[2].done) {
        bool dies = false;
        FIX_UNTIL(&f, d.n_assigns > 0 || (c[0].done && c[1].done && c[2].done));
        for (uint32_t i = 0; i < d.n_assigns; i++)
            dies |= d.assigns[i].seq == killer; /* in the same step as the others */
        for (uint32_t i = 0; i < d.n_assigns && !dies; i++)
            device_tokens(&d, d.assigns[i].seq, d.assigns[i].fence, 0, 1, BR_END_LENGTH);
        d.n_assigns = 0;
        if (!dies)
            continue;
        deaths++;
        device_leave(&d);
        device_connect(&f, &d, 0, ++incarnation);
    }
    assert_int_equal(deaths, 5); /* two to suspect it, three on trial */
    assert_int_equal(c[0].ok + c[1].ok + c[2].ok, 2);
    for (int i = 0; i < 3; i++)
        assert_true(c[i].ok || strstr(c[i].why, "given up"));
    device_leave(&d);
    fixture_close(&f);
}

/* It is not the sequence but the device that dies each time: it rests, and the sequence is served by another one. */
static void a_device_that_keeps_dying_rests(void **state)
{
    struct fixture f;
    struct fix_device bad = {0}, good = {0};
    struct fix_client c;
    uint64_t incarnation = 1;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &bad, 0, incarnation);
    client_ask(&f, &c, 1);
    FIX_UNTIL(&f, bad.n_assigns == 1);
    device_connect(&f, &good, 1, 1);
    while (good.n_assigns == 0) {
        uint32_t before = bad.n_assigns;
        assert_true(incarnation <= 2);
        device_leave(&bad);
        device_connect(&f, &bad, 0, ++incarnation);
        FIX_UNTIL(&f, good.n_assigns == 1 || bad.n_assigns > before);
    }
    device_tokens(&good, good.assigns[0].seq, good.assigns[0].fence, 0, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok);
    device_leave(&bad);
    device_leave(&good);
    fixture_close(&f);
}

/* A sequence that made a token is not blamed for what comes after. */
static void progress_clears_the_blame(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 20);
    for (uint32_t i = 0; i < 20; i++) {
        FIX_UNTIL(&f, d.n_assigns == i + 1);
        device_tokens(&d, d.assigns[i].seq, d.assigns[i].fence, i, 1, i == 19 ? BR_END_LENGTH : BR_END_NONE);
        FIX_UNTIL(&f, c.tokens == i + 1);
        if (i == 19)
            break;
        device_leave(&d);
        device_connect(&f, &d, 0, i + 2);
    }
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok);
    device_leave(&d);
    fixture_close(&f);
}

static void its_own_deadline_ends_it(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client late, other;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &d, 0, 1);
    client_ask_with(&f, &other, "m", "");
    client_ask_with(&f, &late, "m", ",\"slo\":{\"deadline\":0.2}");
    FIX_UNTIL(&f, late.done);
    assert_false(late.ok);
    assert_non_null(strstr(late.why, "deadline of 0.200 s"));
    FIX_UNTIL(&f, d.n_cancels == 1);
    assert_false(other.done);
    device_tokens(&d, d.assigns[d.assigns[0].seq == d.cancelled].seq, 1, 0, 8, BR_END_LENGTH);
    FIX_UNTIL(&f, other.done);
    assert_true(other.ok);
    device_leave(&d);
    fixture_close(&f);
}

/* A step of 170 ms against a TBT of 100: the first is taken, most of a second one's 400 tokens would be late. */
static void what_would_be_late_is_refused_before_it_is_stored(void **state)
{
    struct fixture f = {.admission = true};
    struct fix_device d = {.step_s = 0.17};
    struct fix_client c[2];
    (void)state;
    fixture_open_with(&f, 5, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c[0], 1);
    FIX_UNTIL(&f, d.n_assigns == 1);
    client_ask(&f, &c[1], 400);
    FIX_UNTIL(&f, c[1].done);
    assert_non_null(strstr(c[1].why, "HTTP 429"));
    assert_int_equal(d.n_assigns, 1);
    device_tokens(&d, d.assigns[0].seq, 1, 0, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, c[0].done);
    assert_true(c[0].ok);
    client_ask(&f, &c[1], 1);
    FIX_UNTIL(&f, d.n_assigns == 2);
    device_tokens(&d, d.assigns[1].seq, 1, 0, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, c[1].done);
    assert_true(c[1].ok);
    device_leave(&d);
    fixture_close(&f);
}

static void devices_hear_the_models_terms(void **state)
{
    struct fixture f = {.terms = "m2=ttft=2.5s, tbt=40ms, weight=3, pinned"};
    struct fix_device d = {0};
    (void)state;
    fixture_open_with(&f, 5, 16);
    device_connect(&f, &d, 0, 1);
    assert_int_equal(d.n_terms, 2);
    assert_true(d.ttft_s == 2.5 && d.weight == 3 && d.pinned);
    assert_true(br_models_at(f.models, 1)->tbt_s == 0.04 && br_models_at(f.models, 0)->ttft_s == 10);
    turns(&f, 3);
    device_leave(&d);
    fixture_close(&f);
}

/* A device that holds one model has m2, then m instead: both come in one report, m first. m goes where it is. */
static void a_request_goes_where_its_model_has_just_come(void **state)
{
    struct fixture f;
    struct fix_device a = {.memory_bytes = 1000}, b = {.memory_bytes = 1000};
    struct fix_client c;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &a, 0, 1);
    FIX_UNTIL(&f, a.n_welcomes == 1);
    device_connect(&f, &b, 1, 1);
    FIX_UNTIL(&f, b.n_welcomes == 1);
    device_holds(&b, 0, 1000);
    FIX_UNTIL(&f, f.service->devices[1].places[1].resident_bytes == 1000);
    device_holds(&b, 1000, 0);
    FIX_UNTIL(&f, f.service->devices[1].places[0].resident_bytes == 1000);
    client_ask_with(&f, &c, "m", "");
    FIX_UNTIL(&f, a.n_assigns + b.n_assigns == 1);
    assert_int_equal(b.n_assigns, 1);
    device_tokens(&b, b.assigns[0].seq, 1, 0, 8, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok);
    device_leave(&a);
    device_leave(&b);
    fixture_close(&f);
}

/* A device's report and the counters in it are what GET /stats says of it. */
static void stats_have_what_devices_counted(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct br_gateway_backend backend;
    struct br_buf text = {0};
    struct br_transfers counted = {.stalled_room_s = .5, .cache_hit_bytes = 1ull << 41, .kv_in_bytes = 77};
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__StepReport report = BRIAREUS__STEP_REPORT__INIT;
    Briareus__Transfers msg;
    (void)state;
    fixture_open(&f, 5, 16);
    backend = br_service_backend(f.service);
    device_connect(&f, &d, 0, 1);
    br_transfers_to_pb(&counted, &msg, &report);
    frame.body_case = BRIAREUS__FRAME__BODY_REPORT;
    frame.report = &report;
    assert_int_equal(br_link_client_send(d.link, &frame), 0);
    while (!text.data || !strstr(text.data, "\"kv_in_bytes\":77")) {
        uv_run(&f.loop, UV_RUN_ONCE);
        br_buf_free(&text);
        backend.stats(backend.ctx, &text);
    }
    assert_non_null(strstr(text.data, "\"stalled_room_s\":0.5"));
    assert_non_null(strstr(text.data, "\"cache_hit_bytes\":2199023255552"));
    br_buf_free(&text);
    device_leave(&d);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_moves_to_an_empty_device),
        cmocka_unit_test(a_running_sequence_moves_behind_its_tokens),
        cmocka_unit_test(cancelled_while_it_moves),
        cmocka_unit_test(a_slow_client_pauses_its_sequence),
        cmocka_unit_test(stats_have_what_devices_counted),
        cmocka_unit_test(bystanders_of_a_killer_are_served),
        cmocka_unit_test(a_device_that_keeps_dying_rests),
        cmocka_unit_test(progress_clears_the_blame),
        cmocka_unit_test(its_own_deadline_ends_it),
        cmocka_unit_test(what_would_be_late_is_refused_before_it_is_stored),
        cmocka_unit_test(devices_hear_the_models_terms),
        cmocka_unit_test(a_request_goes_where_its_model_has_just_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
