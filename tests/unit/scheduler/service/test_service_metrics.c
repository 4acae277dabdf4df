/* GET /metrics of a whole scheduler: what a scripted device reports and what clients wait for. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tests/cmocka.h"
#include "tests/unit/base/prom_check.h"
#include "tests/unit/scheduler/service/service_fixture.h"

/* The body of GET /metrics, freed by the caller. */
static struct br_buf metrics(struct fixture *f)
{
    static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)br_gateway_port(f->gateway))};
    struct br_buf text = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char data[65536];
    ssize_t n;
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
    assert_int_equal(write(fd, ask, sizeof ask - 1), (ssize_t)sizeof ask - 1);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fixture_arm(f);
    while ((n = read(fd, data, sizeof data)) != 0 && !f->late) {
        br_buf_add(&text, data, n > 0 ? (size_t)n : 0);
        uv_run(&f->loop, UV_RUN_NOWAIT);
    }
    close(fd);
    assert_false(f->late);
    br_buf_consume(&text, (size_t)(strstr(text.data, "\r\n\r\n") + 4 - text.data));
    return text;
}

static double value(const struct br_buf *text, const char *sample)
{
    return prom_value(text->data, sample);
}

static void report(struct fix_device *d)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__StepReport r = BRIAREUS__STEP_REPORT__INIT;
    Briareus__Transfers transfers = BRIAREUS__TRANSFERS__INIT;
    Briareus__SlotLoad slot = BRIAREUS__SLOT_LOAD__INIT, *slots[] = {&slot};
    r.steps = 1000;
    r.switches = 17;
    r.loaded_bytes = 1ull << 40;
    r.compute_s = 2.5;
    r.stalled_s = .75;
    r.wall_s = 10;
    transfers.stalled_weights_s = .5;
    transfers.stalled_kv_s = .25;
    transfers.device_weight_bytes = 640;
    transfers.device_kv_bytes = ((1 << 20) - 640) / 4;
    r.transfers = &transfers;
    slot.model = (char *)"m2";
    slot.resident_bytes = 640;
    slot.running = 3;
    r.slots = slots;
    r.n_slots = 1;
    frame.body_case = BRIAREUS__FRAME__BODY_REPORT;
    frame.report = &r;
    assert_int_equal(br_link_client_send(d->link, &frame), 0);
}

static void devices_and_residency(void **state)
{
    struct fixture f;
    struct fix_device d = {.memory_bytes = 1 << 20};
    struct br_buf text = {0};
    double until_s = br_now_s() + 10;
    (void)state;
    fixture_open(&f, 3, 16);
    device_connect(&f, &d, 0, 1);
    FIX_UNTIL(&f, d.n_welcomes == 1);
    report(&d);
    do {
        br_buf_free(&text);
        text = metrics(&f);
    } while (br_now_s() < until_s && value(&text, "briareus_steps_total{node=\"n\",device=\"0\"}") < 1000);
    prom_check(text.data);
    assert_true(value(&text, "briareus_steps_total{node=\"n\",device=\"0\"}") == 1000);
    assert_true(value(&text, "briareus_switches_total{node=\"n\",device=\"0\"}") == 17);
    assert_true(value(&text, "briareus_compute_seconds_total{node=\"n\",device=\"0\"}") == 2.5);
    assert_true(value(&text, "briareus_weights_loaded_bytes_total{node=\"n\",device=\"0\"}") == 0x1p40);
    assert_true(value(&text, "briareus_stall_seconds_total{node=\"n\",device=\"0\",cause=\"weights\"}") == .5);
    assert_true(value(&text, "briareus_stall_seconds_total{node=\"n\",device=\"0\",cause=\"kv\"}") == .25);
    assert_true(value(&text, "briareus_resident_weights_bytes{node=\"n\",device=\"0\",model_name=\"m2\"}") == 640);
    assert_true(value(&text, "briareus_slot_running{node=\"n\",device=\"0\",model_name=\"m2\"}") == 3);
    assert_true(value(&text, "vllm:kv_cache_usage_perc{model_name=\"m2\"}") == .25);
    assert_true(value(&text, "vllm:kv_cache_usage_perc{model_name=\"m\"}") == 0);
    assert_true(value(&text, "briareus_device_up{node=\"n\",device=\"0\"}") == 1);
    assert_true(value(&text, "briareus_queue_up") == 1);
    br_buf_free(&text);
    device_leave(&d);
    fixture_close(&f);
}

/* One request of m waits, one of m2 runs and is then through. */
static void queue_by_model(void **state)
{
    struct fixture f;
    struct fix_device d = {0};
    struct fix_client a = {0}, b = {0};
    struct br_buf text;
    (void)state;
    fixture_open(&f, 3, 16);
    device_connect(&f, &d, 0, 1);
    FIX_UNTIL(&f, d.n_welcomes == 1);
    client_ask_with(&f, &b, "m2", "");
    FIX_UNTIL(&f, d.n_assigns == 1);
    client_ask(&f, &a, FIX_TOKENS);
    FIX_UNTIL(&f, d.n_assigns == 2);
    device_tokens(&d, d.assigns[0].seq, d.assigns[0].fence, 0, 2, BR_END_NONE);
    FIX_UNTIL(&f, b.tokens == 2);
    text = metrics(&f);
    prom_check(text.data);
    assert_true(value(&text, "vllm:num_requests_running{model_name=\"m2\"}") == 1);
    assert_true(value(&text, "vllm:num_requests_waiting{model_name=\"m2\"}") == 0);
    assert_true(value(&text, "vllm:num_requests_running{model_name=\"m\"}") == 0);
    assert_true(value(&text, "vllm:num_requests_waiting{model_name=\"m\"}") == 1);
    assert_true(value(&text, "briareus_unfinished_sequences") == 2);
    assert_true(value(&text, "briareus_unfinished_limit") == 16);
    br_buf_free(&text);
    device_tokens(&d, d.assigns[1].seq, d.assigns[1].fence, 0, FIX_TOKENS, BR_END_LENGTH);
    device_tokens(&d, d.assigns[0].seq, d.assigns[0].fence, 2, FIX_TOKENS - 2, BR_END_LENGTH);
    FIX_UNTIL(&f, a.done && b.done);
    text = metrics(&f);
    assert_true(value(&text, "briareus_unfinished_sequences") == 0);
    assert_true(value(&text, "vllm:generation_tokens_total{model_name=\"m\"}") == FIX_TOKENS);
    assert_true(value(&text, "vllm:request_success_total{model_name=\"m2\",finished_reason=\"length\"}") == 1);
    br_buf_free(&text);
    device_leave(&d);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_and_residency),
        cmocka_unit_test(queue_by_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
