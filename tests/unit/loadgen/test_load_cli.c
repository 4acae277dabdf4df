/* The command as users run it: exit statuses and what it writes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loadgen/load.h"
#include "tests/cmocka.h"
#include "tests/unit/loadgen/drive.h"
#include "tests/unit/loadgen/stub.h"

static char g_dir[] = "/tmp/briareus-load-XXXXXX";

static const char *path(const char *name)
{
    static char out[16][256];
    static int next;
    next = (next + 1) % 16;
    snprintf(out[next], sizeof out[next], "%s/%s", g_dir, name);
    return out[next];
}

/* Runs `briareus load` with its text in a file. */
static int load(const char *const *args)
{
    char *argv[DRIVE_MAX_ARGS] = {"load"};
    int argc = 1, rc, old = dup(STDOUT_FILENO);
    for (; args[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
    fflush(stdout);
    assert_non_null(freopen(path("out.txt"), "w", stdout));
    rc = br_cli_load(argc, argv, NULL);
    fflush(stdout);
    dup2(old, STDOUT_FILENO);
    close(old);
    return rc;
}

static char *read_all(const char *name)
{
    struct br_buf text = {0};
    if (br_buf_read_file(&text, path(name), 64 << 20))
        fail_msg("%s is not there", name);
    return text.data;
}

static void statuses(void **state)
{
    const char *none[] = {"--model", "m=0", "--duration", "0.1", "--quiet", NULL};
    const char *negative[] = {"--model", "m", "--request-rate", "-1", NULL}, *help[] = {"--help", NULL};
    const char *typo[] = {"--modle", "m", NULL}, *nothing[] = {"compare", NULL};
    const char *missing[] = {"compare", "/nonexistent.json", "--html", "/dev/null", NULL};
    (void)state;
    assert_int_equal(load(none), LOAD_EXIT_NOTHING); /* not an attainment of 100 % */
    assert_int_equal(load(negative), LOAD_EXIT_USAGE);
    assert_int_equal(load(typo), LOAD_EXIT_USAGE);
    assert_int_equal(load(nothing), LOAD_EXIT_USAGE);
    assert_int_equal(load(missing), LOAD_EXIT_USAGE);
    assert_int_equal(load(help), LOAD_EXIT_OK);
}

/* The keys of vLLM's result file (vllm/benchmarks/serve.py), for what this has too. */
static const char *const g_vllm_keys[] = {"date",
                                          "backend",
                                          "label",
                                          "model_id",
                                          "tokenizer_id",
                                          "num_prompts",
                                          "request_rate",
                                          "burstiness",
                                          "max_concurrency",
                                          "duration",
                                          "completed",
                                          "failed",
                                          "total_input_tokens",
                                          "total_output_tokens",
                                          "request_throughput",
                                          "request_goodput",
                                          "output_throughput",
                                          "total_token_throughput",
                                          "max_output_tokens_per_s",
                                          "max_concurrent_requests",
                                          "input_lens",
                                          "output_lens",
                                          "ttfts",
                                          "itls",
                                          "errors",
                                          "mean_ttft_ms",
                                          "median_ttft_ms",
                                          "std_ttft_ms",
                                          "p99_ttft_ms",
                                          "mean_tpot_ms",
                                          "median_tpot_ms",
                                          "std_tpot_ms",
                                          "p99_tpot_ms",
                                          "mean_itl_ms",
                                          "median_itl_ms",
                                          "std_itl_ms",
                                          "p99_itl_ms",
                                          "mean_e2el_ms",
                                          "median_e2el_ms",
                                          "std_e2el_ms",
                                          "p99_e2el_ms"};

static void write_results(const char *url)
{
    const char *args[] = {"--quiet",
                          "--base-url",
                          url,
                          "--model",
                          "a<b>&\"c\"",
                          "--model",
                          "d",
                          "--request-rate",
                          "60",
                          "--duration",
                          "0.5",
                          "--output-len",
                          "5",
                          "--goodput",
                          "ttft:1000",
                          "--save-detailed",
                          "--result-dir",
                          g_dir,
                          "--result-filename",
                          "one.json",
                          "--html",
                          path("one.html"),
                          "--save-records",
                          path("one.jsonl"),
                          "--trace",
                          path("one.trace.json"),
                          "--seed",
                          "4",
                          NULL};
    int rc;
    rc = load(args);
    assert_true(rc == LOAD_EXIT_OK || rc == LOAD_EXIT_INVALID); /* on a busy machine */
}

static void check_result(size_t *requests)
{
    struct br_err err;
    json_t *result, *models;
    double sum = 0;
    assert_int_equal(load_result_read(path("one.json"), &result, &err), 0);
    for (size_t i = 0; i < sizeof g_vllm_keys / sizeof *g_vllm_keys; i++)
        if (!json_object_get(result, g_vllm_keys[i]))
            fail_msg("no %s in the result", g_vllm_keys[i]);
    *requests = (size_t)json_integer_value(json_object_get(result, "requests"));
    assert_int_equal(json_array_size(json_object_get(result, "ttfts")), *requests);
    assert_int_equal(json_array_size(json_array_get(json_object_get(result, "itls"), 0)), 4);
    models = json_object_get(result, "models");
    for (size_t i = 0; i < json_array_size(models); i++)
        sum += (double)json_integer_value(json_object_get(json_array_get(models, i), "requests"));
    assert_int_equal(sum, *requests);
    json_decref(result);
}

static void check_records(size_t requests)
{
    char *text = read_all("one.jsonl"), *save = NULL;
    size_t n = 0;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
        json_t *record = json_loads(line, 0, NULL);
        double first = json_number_value(json_object_get(record, "first_token_s"));
        assert_string_equal(json_string_value(json_object_get(record, "outcome")), "completed");
        assert_int_equal(json_array_size(json_object_get(record, "token_times_s")), 5);
        assert_true(first >= json_number_value(json_object_get(record, "sent_s")));
        json_decref(record);
    }
    assert_int_equal(n, requests);
    free(text);
}

static void check_timeline(size_t requests)
{
    json_t *trace = json_load_file(path("one.trace.json"), 0, NULL), *events = json_object_get(trace, "traceEvents");
    size_t waiting = 0;
    if (json_is_array(trace))
        events = trace;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(events, i), "name"));
        waiting += name && strcmp(name, "waiting") == 0;
    }
    assert_int_equal(waiting, requests);
    json_decref(trace);
}

static void what_it_writes(void **state)
{
    struct stub_script script = {.kind = STUB_STREAM};
    struct stub *stub = stub_start(&script);
    size_t requests;
    char *html, *text;
    (void)state;
    write_results(stub_url(stub));
    check_result(&requests);
    check_records(requests);
    check_timeline(requests);
    html = read_all("one.html");
    assert_null(strstr(html, "a<b>"));
    assert_non_null(strstr(html, "a&lt;b&gt;&amp;"));
    assert_non_null(strstr(html, "TTFT by scheduled send"));
    assert_non_null(strstr(html, "Tokens on time by model"));
    text = read_all("out.txt");
    assert_non_null(strstr(text, "============ Serving Benchmark Result ============"));
    assert_non_null(strstr(text, "P99 TTFT (ms):"));
    free(text);
    free(html);
    stub_stop(stub);
}

/* Two results, of which one comes from elsewhere and has only what vLLM writes. */
static void results_compare(void **state)
{
    const char *args[] = {"compare", path("one.json"), path("vllm.json"), "--html", path("two.html"), NULL};
    const char *bad[] = {"compare", path("bad.json"), "--html", path("three.html"), NULL};
    char *html;
    FILE *f = fopen(path("vllm.json"), "w");
    (void)state;
    fputs("{\"date\":\"20260101-000000\",\"mean_ttft_ms\":12.5,\"median_ttft_ms\":11,\"p99_ttft_ms\":31.25,"
          "\"completed\":7}",
          f);
    fclose(f);
    f = fopen(path("bad.json"), "w");
    fputs("{\"hello\":1}", f);
    fclose(f);
    assert_int_equal(load(args), LOAD_EXIT_OK);
    assert_int_equal(load(bad), LOAD_EXIT_USAGE);
    html = read_all("two.html");
    assert_non_null(strstr(html, "2: 20260101-000000"));
    assert_non_null(strstr(html, "31.25"));
    assert_null(strstr(html, "nan"));
    free(html);
}

/* Every other answer is late, at any rate: the search ends when its runs are spent, and says what it saw. */
static void a_search_on_a_real_server(void **state)
{
    static const uint32_t first_us[] = {1000, 200000};
    struct stub_script script = {.kind = STUB_STREAM, .first_us = first_us, .n_first = 2};
    struct stub *stub = stub_start(&script);
    const char *args[] = {"--quiet",
                          "--base-url",
                          stub_url(stub),
                          "--model",
                          "m",
                          "--request-rate",
                          "100",
                          "--duration",
                          "0.3",
                          "--output-len",
                          "1",
                          "--ttft",
                          "0.1",
                          "--find-goodput",
                          "99",
                          "--max-runs",
                          "4",
                          "--result-filename",
                          path("found.json"),
                          "--arrivals",
                          "constant",
                          "--max-dispatch-delay",
                          "100",
                          NULL};
    json_t *found;
    (void)state;
    assert_int_equal(load(args), LOAD_EXIT_OK);
    found = json_load_file(path("found.json"), 0, NULL);
    assert_false(json_is_true(json_object_get(found, "bracketed")));
    assert_int_equal(json_integer_value(json_object_get(found, "runs")), 4);
    assert_true(json_number_value(json_object_get(json_array_get(json_object_get(found, "probes"), 0), "attainment")) <
                .75);
    json_decref(found);
    stub_stop(stub);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(g_dir) == NULL;
}

static int tear_down(void **state)
{
    static const char *const files[] = {"out.txt",   "one.json", "one.html", "one.jsonl", "one.trace.json",
                                        "vllm.json", "bad.json", "two.html", "found.json"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(path(files[i]));
    return rmdir(g_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses),
        cmocka_unit_test(what_it_writes),
        cmocka_unit_test(results_compare),
        cmocka_unit_test(a_search_on_a_real_server),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
