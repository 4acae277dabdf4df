/* Keys, limits, operators' paths and metrics as clients see them. */
#include "base/clock.h"
#include "net.h"
#include "scheduler/gateway/auth.h"
#include "tests/unit/base/prom_check.h"

/* SHA-256 of "abc", of "" and of the 56-byte text of FIPS 180-2. */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define LONG "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
#define LONG_KEY "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
#define ONCE "{\"model\":\"stories260K\",\"prompt\":[1,5,6],\"max_tokens\":4}"

static struct net *net;
static struct client c;

static void open_with(const char *keys, bool admin)
{
    struct br_gateway_config config = net_config;
    struct br_key_list list;
    struct br_err err;
    if (admin)
        config.admin_listen = "127.0.0.1:0";
    net = net_open(&config);
    if (keys) {
        if (br_keys_parse(keys, strlen(keys), "keys", &list, &err))
            fail_msg("%s", err.msg);
        br_gateway_set_keys(net->gateway, &list);
    }
    client_open(&c, net);
}

static int teardown(void **state)
{
    (void)state;
    client_close(&c);
    net_close(net);
    return 0;
}

static void send_with(const char *method, const char *path, const char *header, const char *body)
{
    struct br_buf text = {0};
    br_buf_clear(&c.in);
    br_buf_printf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %zu\r\n\r\n%s", method, path, header,
                  *header ? "\r\n" : "", strlen(body), body);
    client_send(&c, text.data, text.len);
    br_buf_free(&text);
}

static void get(const char *path, const char *header, int status)
{
    send_with("GET", path, header, "");
    client_answer(&c, status);
}

/* Asks, and has the backend finish it with n tokens. */
static void complete(const char *header, uint32_t n)
{
    static const int32_t ids[] = {100, 101, 102, 103};
    uint32_t before = net->n_submitted;
    send_with("POST", "/v1/completions", header, ONCE);
    net_await_submits(&c, before + 1);
    net_accept(net);
    net_tokens(net, 0, ids, n, BR_END_LENGTH);
    client_await(&c, 0, "\"usage\"");
}

static void without_a_key(void **state)
{
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC "}\n", false);
    send_with("POST", "/v1/completions", "", ONCE);
    client_await(&c, 0, "WWW-Authenticate: Bearer\r\n");
    client_answer(&c, 401);
    client_has(&c, "\"type\":\"authentication_error\"");
    client_has(&c, "\"code\":\"missing_api_key\"");
    send_with("POST", "/v1/completions", "Authorization: Bearer abd", ONCE);
    client_answer(&c, 401);
    client_has(&c, "\"code\":\"invalid_api_key\"");
    get("/v1/models", "", 401);
    get("/v1/models", "Authorization: Basic abc", 401);
    get("/v1/models", "Authorization: Bearer abc\r\nAuthorization: Bearer abc", 401);
    get("/health", "", 200);
    assert_int_equal(net->n_submitted, 0);
}

static void with_a_key(void **state)
{
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC "}\n", false);
    get("/v1/models", "Authorization: Bearer abc", 200);
    get("/v1/models", "authorization: bearer abc", 200);
    get("/v1/models", "x-api-key: abc", 200);
    get("/nowhere", "Authorization: Bearer abc", 404);
}

static void operators(void **state)
{
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC "}\n- {name: op, hash: " LONG ", admin: true}\n", false);
    get("/metrics", "", 401);
    get("/metrics", "Authorization: Bearer abc", 403);
    client_has(&c, "\"type\":\"permission_error\"");
    get("/metrics", "Authorization: Bearer " LONG_KEY, 200);
    client_has_not(&c, LONG_KEY);
    client_has_not(&c, LONG);
}

static void operators_listener(void **state)
{
    struct client op = {.net = net};
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC "}\n- {name: op, hash: " LONG ", admin: true}\n", true);
    get("/metrics", "Authorization: Bearer " LONG_KEY, 404);
    get("/v1/models", "Authorization: Bearer abc", 200);
    client_open_port(&op, net, br_gateway_admin_port(net->gateway));
    client_puts(&op, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    client_answer(&op, 200);
    br_buf_clear(&op.in);
    client_puts(&op, "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer abc\r\n\r\n");
    client_answer(&op, 404);
    br_buf_clear(&op.in);
    client_puts(&op, "POST /models/load HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    client_answer(&op, 401);
    br_buf_clear(&op.in);
    client_puts(&op, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    client_answer(&op, 200);
    client_close(&op);
}

static void a_model_that_is_not_allowed(void **state)
{
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC ", models: [tiny-qwen2]}\n", false);
    send_with("POST", "/v1/completions", "Authorization: Bearer abc", ONCE);
    client_answer(&c, 403);
    client_has(&c, "\"code\":\"model_not_allowed\"");
    client_has(&c, "\"param\":\"model\"");
    assert_int_equal(net->n_submitted, 0);
}

/* Two a minute: the third is told to come back in half a minute, or a little less. */
static void limits(void **state)
{
    const char *after;
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC ", requests: 2, tokens: 1000}\n", false);
    complete("Authorization: Bearer abc", 4);
    client_has(&c, "x-ratelimit-limit-requests: 2\r\n");
    client_has(&c, "x-ratelimit-remaining-requests: 1\r\n");
    client_has(&c, "x-ratelimit-limit-tokens: 1000\r\n");
    client_has(&c, "x-ratelimit-remaining-tokens: 993\r\n"); /* 3 of prompt, 4 of answer */
    complete("Authorization: Bearer abc", 1);
    send_with("POST", "/v1/completions", "Authorization: Bearer abc", ONCE);
    client_await(&c, 0, "\"code\":\"rate_limit_exceeded\"");
    client_has(&c, "HTTP/1.1 429 ");
    client_has(&c, "x-ratelimit-remaining-requests: 0\r\n");
    after = strstr(c.in.data, "Retry-After: ");
    assert_non_null(after);
    assert_in_range(strtoul(after + 13, NULL, 10), 20, 30);
    assert_int_equal(net->n_submitted, 2);
}

static void one_at_a_time(void **state)
{
    struct client second = {.net = net};
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC ", concurrency: 1}\n", false);
    send_with("POST", "/v1/completions", "x-api-key: abc", ONCE);
    net_await_submits(&c, 1);
    client_open(&second, net);
    client_puts(&second, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nx-api-key: abc\r\nContent-Length: 2\r\n\r\n{}");
    client_answer(&second, 429);
    client_close(&second);
    client_close(&c); /* leaves: the place is free again */
    c = (struct client){.net = net, .fd = -1};
    net_await_cancels(&c, 1);
    client_open(&c, net);
    complete("x-api-key: abc", 1);
}

/* What a call's sequences get of its key: weight, and a salt that its tenant shares. */
static void weight_and_salt(void **state)
{
    uint64_t salt;
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC ", weight: 4, tenant: t}\n- {name: b, hash: " LONG ", tenant: t}\n",
              false);
    complete("x-api-key: abc", 1);
    assert_true(net->specs[0].weight == 4);
    salt = net->specs[0].salt;
    assert_true(salt != 0);
    complete("x-api-key: " LONG_KEY, 1);
    assert_true(net->specs[0].weight == 1 && net->specs[0].salt == salt);
}

static double value(const char *sample)
{
    return prom_value(c.in.data, sample);
}

/* Two requests with five tokens, one refused by the backend, one that its client left. */
static void metrics_of_a_scripted_run(void **state)
{
    double began_s = br_now_s(), sum_s;
    (void)state;
    open_with(NULL, false);
    complete("", 4);
    complete("", 1);
    net->refuse = 429;
    send_with("POST", "/v1/completions", "", ONCE);
    client_answer(&c, 429);
    net->refuse = 0;
    send_with("POST", "/v1/completions", "", ONCE);
    net_await_submits(&c, 4);
    net_accept(net);
    client_close(&c);
    c = (struct client){.net = net, .fd = -1};
    net_await_cancels(&c, 1);
    client_open(&c, net);
    get("/metrics", "", 200);
    prom_check(c.in.data);
    assert_true(value("vllm:prompt_tokens_total{model_name=\"stories260K\"}") == 9);
    assert_true(value("vllm:generation_tokens_total{model_name=\"stories260K\"}") == 5);
    assert_true(value("vllm:request_success_total{model_name=\"stories260K\",finished_reason=\"length\"}") == 2);
    assert_true(value("vllm:request_success_total{model_name=\"stories260K\",finished_reason=\"abort\"}") == 1);
    assert_true(value("briareus_requests_refused_total{model_name=\"stories260K\"}") == 1);
    assert_true(value("vllm:time_to_first_token_seconds_count{model_name=\"stories260K\"}") == 2);
    assert_true(value("vllm:inter_token_latency_seconds_count{model_name=\"stories260K\"}") == 3);
    assert_true(value("vllm:e2e_request_latency_seconds_count{model_name=\"stories260K\"}") == 3);
    assert_true(value("vllm:request_generation_tokens_bucket{model_name=\"stories260K\",le=\"1.0\"}") == 2);
    assert_true(value("vllm:request_generation_tokens_bucket{model_name=\"stories260K\",le=\"5.0\"}") == 3);
    assert_true(value("vllm:request_params_max_tokens_sum{model_name=\"stories260K\"}") == 12);
    assert_true(value("vllm:prefix_cache_queries_total{model_name=\"stories260K\"}") == 9);
    assert_true(value("vllm:prefix_cache_hits_total{model_name=\"stories260K\"}") == 0);
    assert_true(value("briareus_tokens_on_time_total{model_name=\"stories260K\"}") == 5); /* within 10 s */
    assert_true(value("briareus_slo_attainment_ratio{model_name=\"stories260K\"}") == 1);
    assert_true(value("briareus_http_answers_total{code=\"2xx\"}") == 2);
    assert_true(value("briareus_http_answers_total{code=\"4xx\"}") == 1);
    sum_s = value("vllm:e2e_request_latency_seconds_sum{model_name=\"stories260K\"}");
    assert_true(sum_s > 0 && sum_s < br_now_s() - began_s);
}

/* A failed sequence owes what it was asked for: one of four tokens came, three are late. */
static void what_fails_is_late(void **state)
{
    static const int32_t id = 100;
    (void)state;
    open_with(NULL, false);
    send_with("POST", "/v1/completions", "", ONCE);
    net_await_submits(&c, 1);
    net_accept(net);
    net_tokens(net, 0, &id, 1, BR_END_NONE);
    net_tokens(net, 0, NULL, 0, BR_END_FAILED);
    client_answer(&c, 500);
    get("/metrics", "", 200);
    assert_true(value("briareus_tokens_late_total{model_name=\"stories260K\"}") == 3);
    assert_true(value("briareus_slo_attainment_ratio{model_name=\"stories260K\"}") == .25);
    assert_true(value("vllm:request_success_total{model_name=\"stories260K\",finished_reason=\"error\"}") == 1);
}

static void metrics_by_key(void **state)
{
    (void)state;
    open_with("keys:\n- {name: a, hash: " ABC ", admin: true}\n", false);
    complete("x-api-key: abc", 4);
    get("/metrics", "x-api-key: abc", 200);
    prom_check(c.in.data);
    assert_true(value("briareus_key_tokens_total{key=\"a\",kind=\"prompt\"}") == 3);
    assert_true(value("briareus_key_tokens_total{key=\"a\",kind=\"generated\"}") == 4);
    assert_true(value("briareus_key_requests_total{key=\"a\"}") == 1);
    assert_true(value("briareus_key_open_requests{key=\"a\"}") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(without_a_key, teardown),
        cmocka_unit_test_teardown(with_a_key, teardown),
        cmocka_unit_test_teardown(operators, teardown),
        cmocka_unit_test_teardown(operators_listener, teardown),
        cmocka_unit_test_teardown(a_model_that_is_not_allowed, teardown),
        cmocka_unit_test_teardown(limits, teardown),
        cmocka_unit_test_teardown(one_at_a_time, teardown),
        cmocka_unit_test_teardown(weight_and_salt, teardown),
        cmocka_unit_test_teardown(metrics_of_a_scripted_run, teardown),
        cmocka_unit_test_teardown(what_fails_is_late, teardown),
        cmocka_unit_test_teardown(metrics_by_key, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
