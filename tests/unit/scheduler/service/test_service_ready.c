/* Readiness: what a load balancer is told of queue and devices, and what runs. */
#include <string.h>

#include "tests/cmocka.h"
#include "tests/unit/scheduler/service/service_fixture.h"

static const char *unready(struct fixture *f)
{
    return br_service_backend(f->service).unready(f->service);
}

static void without_a_device_it_is_not_ready(void **state)
{
    struct fixture f = {0};
    struct fix_device d = {0};
    (void)state;
    fixture_open(&f, 5, 16);
    assert_non_null(strstr(unready(&f), "no device"));
    device_connect(&f, &d, 0, 1);
    assert_null(unready(&f));
    device_leave(&d);
    FIX_UNTIL(&f, unready(&f) != NULL);
    fixture_close(&f);
}

/* ollama#17408: loads that hang while the health check stays green. The device answers pings and reports all the time,
 * but what it has counted stands still. */
static void a_hung_device_is_seen(void **state)
{
    struct fixture f = {.hung_s = 0.1};
    struct fix_device d = {0};
    struct fix_client c;
    (void)state;
    fixture_open_with(&f, 5, 16);
    device_connect(&f, &d, 0, 1);
    client_ask(&f, &c, 5);
    FIX_UNTIL(&f, d.n_assigns == 1);
    device_reports(&d, 7, 1);
    FIX_UNTIL(&f, unready(&f) != NULL);
    assert_non_null(strstr(unready(&f), "1 of 1 devices have work and make no progress"));
    device_reports(&d, 8, 1); /* it moves again */
    FIX_UNTIL(&f, unready(&f) == NULL);
    FIX_UNTIL(&f, unready(&f) != NULL);
    device_tokens(&d, d.assigns[0].seq, 1, 0, 5, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done); /* nothing is owed any more */
    assert_null(unready(&f));
    device_leave(&d);
    fixture_close(&f);
}

static void another_device_that_works_is_enough(void **state)
{
    struct fixture f = {.hung_s = 0.05};
    struct fix_device d[2] = {{0}};
    struct fix_client c;
    (void)state;
    fixture_open_with(&f, 5, 16);
    device_connect(&f, &d[0], 0, 1);
    client_ask(&f, &c, 5);
    FIX_UNTIL(&f, d[0].n_assigns == 1);
    FIX_UNTIL(&f, unready(&f) != NULL);
    device_connect(&f, &d[1], 1, 2);
    assert_null(unready(&f));
    device_tokens(&d[0], d[0].assigns[0].seq, 1, 0, 5, BR_END_LENGTH);
    FIX_UNTIL(&f, c.done);
    device_leave(&d[0]);
    device_leave(&d[1]);
    fixture_close(&f);
}

static void running_models_are_listed(void **state)
{
    struct fixture f = {0};
    struct fix_device d = {0};
    struct br_buf out = {0};
    struct br_gateway_backend backend;
    (void)state;
    fixture_open(&f, 5, 16);
    backend = br_service_backend(f.service);
    device_connect(&f, &d, 0, 1);
    backend.running(f.service, &out);
    assert_string_equal(out.data, "[]");
    device_reports(&d, 1, 2);
    FIX_UNTIL(&f, (br_buf_clear(&out), backend.running(f.service, &out), strcmp(out.data, "[]") != 0));
    assert_string_equal(out.data, "[{\"model\":\"m\",\"state\":\"ready\",\"devices\":1,\"resident_bytes\":1000,"
                                  "\"waiting\":0,\"running\":2}]");
    br_buf_free(&out);
    device_leave(&d);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_device_it_is_not_ready),
        cmocka_unit_test(a_hung_device_is_seen),
        cmocka_unit_test(another_device_that_works_is_enough),
        cmocka_unit_test(running_models_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
