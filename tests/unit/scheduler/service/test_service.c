#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/scheduler/service/service_fixture.h"

static const double g_adopt_s = 0.3;

/* One request all the way: stored, assigned with fence 1, tokens delivered, ended. */
static void a_request_is_served(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c;
    (void)state;
    fixture_open(&f, g_adopt_s, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 5);
    FIX_UNTIL(&f, d.n_assigns == 1);
    assert_int_equal(d.assigns[0].fence, 1);
    assert_int_equal(d.assigns[0].tokens, 0);
    device_tokens(&d, d.assigns[0].seq, 1, 0, 3, BR_END_NONE);
    FIX_UNTIL(&f, c.tokens == 3);
    device_tokens(&d, d.assigns[0].seq, 1, 3, 2, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok);
    assert_int_equal(c.tokens, 5);
    device_leave(&d);
    fixture_close(&f);
}

/* Requests that come before any device wait for one. */
static void a_request_waits_for_a_device(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c;
    (void)state;
    fixture_open(&f, g_adopt_s, 16);
    client_ask(&f, &c, 1);
    for (int i = 0; i < 20; i++)
        uv_run(&f.loop, UV_RUN_NOWAIT);
    device_connect(&f, &d, 0, 1);
    FIX_UNTIL(&f, d.n_assigns == 1);
    device_tokens(&d, d.assigns[0].seq, d.assigns[0].fence, 0, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok);
    device_leave(&d);
    fixture_close(&f);
}

/* A connection that breaks and comes back: the device goes on under its fence, tokens sent twice count once. */
static void a_reconnected_device_is_adopted(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c;
    uint64_t seq;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 8);
    FIX_UNTIL(&f, d.n_assigns == 1);
    seq = d.assigns[0].seq;
    device_tokens(&d, seq, 1, 0, 3, BR_END_NONE);
    FIX_UNTIL(&f, c.tokens == 3);
    device_leave(&d);
    d.running_seq = seq;
    d.running_fence = 1;
    d.running_tokens = 6;
    device_connect(&f, &d, 0, 1);
    assert_int_equal(d.n_adopted, 1);
    assert_int_equal(d.acknowledged, 3);
    device_tokens(&d, seq, 1, 2, 4, BR_END_NONE);
    device_tokens(&d, seq, 1, 6, 2, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok);
    assert_int_equal(c.tokens, 8);
    assert_int_equal(d.n_assigns, 1);
    device_leave(&d);
    fixture_close(&f);
}

/* A device process that died comes back empty: the sequence is assigned again behind its tokens, under a new fence, and
 * the old fence is worth nothing. */
static void a_restarted_device_begins_again(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c;
    uint64_t seq;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 6);
    FIX_UNTIL(&f, d.n_assigns == 1);
    seq = d.assigns[0].seq;
    device_tokens(&d, seq, 1, 0, 4, BR_END_NONE);
    FIX_UNTIL(&f, c.tokens == 4);
    device_leave(&d);
    device_connect(&f, &d, 0, 2);
    assert_int_equal(d.n_adopted, 0);
    FIX_UNTIL(&f, d.n_assigns == 2);
    assert_true(d.assigns[1].seq == seq && d.assigns[1].fence == 2);
    assert_int_equal(d.assigns[1].tokens, 4);
    device_tokens(&d, seq, 1, 4, 1, BR_END_NONE); /* a ghost */
    FIX_UNTIL(&f, d.n_cancels == 1);
    device_tokens(&d, seq, 2, 4, 2, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok);
    assert_int_equal(c.tokens, 6);
    device_leave(&d);
    fixture_close(&f);
}

/* A device that does not come back in time is lost: another one goes on. */
static void a_lost_device_is_replaced(void **state)
{
    struct fixture f;
    struct fix_device a = {0}, b = {0};
    struct fix_client c;
    (void)state;
    fixture_open(&f, g_adopt_s, 16);
    device_connect(&f, &a, 0, 1);
    client_ask(&f, &c, 4);
    FIX_UNTIL(&f, a.n_assigns == 1);
    device_tokens(&a, a.assigns[0].seq, 1, 0, 2, BR_END_NONE);
    FIX_UNTIL(&f, c.tokens == 2);
    device_connect(&f, &b, 1, 7);
    device_leave(&a);
    FIX_UNTIL(&f, b.n_assigns == 1);
    assert_true(b.assigns[0].seq == a.assigns[0].seq && b.assigns[0].fence == 2);
    assert_int_equal(b.assigns[0].tokens, 2);
    device_tokens(&b, b.assigns[0].seq, 2, 2, 2, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok && c.tokens == 4);
    device_leave(&b);
    fixture_close(&f);
}

static void a_client_that_leaves_cancels(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c;
    (void)state;
    fixture_open(&f, g_adopt_s, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 100);
    FIX_UNTIL(&f, d.n_assigns == 1);
    device_tokens(&d, d.assigns[0].seq, 1, 0, 1, BR_END_NONE);
    FIX_UNTIL(&f, c.tokens == 1);
    http_client_abort(c.client, "leaving");
    FIX_UNTIL(&f, d.n_cancels == 1);
    assert_true(d.cancelled == d.assigns[0].seq);
    device_leave(&d);
    fixture_close(&f);
}

/* The bound holds, with 429; a place that becomes free is given away again. */
static void a_full_house_refuses(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c[3];
    (void)state;
    fixture_open(&f, g_adopt_s, 2);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c[0], 1);
    client_ask(&f, &c[1], 1);
    FIX_UNTIL(&f, d.n_assigns == 2);
    client_ask(&f, &c[2], 1);
    FIX_UNTIL(&f, c[2].done);
    assert_non_null(strstr(c[2].why, "HTTP 429"));
    device_tokens(&d, d.assigns[0].seq, 1, 0, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, c[0].done || c[1].done); /* which of the two came first is not said */
    client_ask(&f, &c[2], 1);
    FIX_UNTIL(&f, d.n_assigns == 3);
    device_tokens(&d, d.assigns[1].seq, 1, 0, 1, BR_END_LENGTH);
    device_tokens(&d, d.assigns[2].seq, 1, 0, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, c[0].done && c[1].done && c[2].done);
    assert_true(c[0].ok && c[1].ok && c[2].ok);
    device_leave(&d);
    fixture_close(&f);
}

/* A worker that breaks the contract (a gap in the tokens) is cut off; its sequence goes on elsewhere or again. */
static void a_gap_in_the_tokens_is_not_believed(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c;
    (void)state;
    fixture_open(&f, g_adopt_s, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 3);
    FIX_UNTIL(&f, d.n_assigns == 1);
    device_tokens(&d, d.assigns[0].seq, 1, 2, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, d.n_assigns == 2); /* the link client connected again by itself */
    assert_int_equal(d.assigns[1].tokens, 0);
    device_tokens(&d, d.assigns[1].seq, d.assigns[1].fence, 0, 3, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    assert_true(c.ok && c.tokens == 3);
    device_leave(&d);
    fixture_close(&f);
}

/* A sequence that kills every device it is given to ends, with a reason, and others are served. */
static void a_sequence_that_kills_devices_is_given_up(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client c, other;
    uint64_t incarnation = 1;
    (void)state;
    fixture_open(&f, 5, 16);
    device_connect(&f, &d, 0, incarnation);
    client_ask(&f, &c, 5);
    while (!c.done) {
        FIX_UNTIL(&f, c.done || d.n_assigns > 0);
        d.n_assigns = 0;
        if (c.done)
            break;
        device_leave(&d);
        device_connect(&f, &d, 0, ++incarnation);
        assert_true(incarnation < 100);
    }
    assert_false(c.ok);
    assert_non_null(strstr(c.why, "given up"));
    d.n_assigns = 0;
    client_ask(&f, &other, 1);
    FIX_UNTIL(&f, d.n_assigns == 1);
    device_tokens(&d, d.assigns[0].seq, d.assigns[0].fence, 0, 1, BR_END_LENGTH);
    FIX_UNTIL(&f, other.done);
    assert_true(other.ok);
    device_leave(&d);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_served),
        cmocka_unit_test(a_request_waits_for_a_device),
        cmocka_unit_test(a_reconnected_device_is_adopted),
        cmocka_unit_test(a_restarted_device_begins_again),
        cmocka_unit_test(a_lost_device_is_replaced),
        cmocka_unit_test(a_client_that_leaves_cancels),
        cmocka_unit_test(a_full_house_refuses),
        cmocka_unit_test(a_sequence_that_kills_devices_is_given_up),
        cmocka_unit_test(a_gap_in_the_tokens_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
