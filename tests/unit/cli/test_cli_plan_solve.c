/* `briareus plan` from its command line: the schema's keys, the same bytes, refusals, and the arithmetic of money. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/plan/model_words.h"
#include "cli/plan/money.h"
#include "cli/plan/plan.h"
#include "cli/plan/prices.h"
#include "cli/plan/rates.h"
#include "tests/cmocka.h"

static char g_file[64], g_other[80];

static int setup(void **state)
{
    int fd;
    (void)state;
    snprintf(g_file, sizeof g_file, "/tmp/briareus-test-XXXXXX");
    fd = mkstemp(g_file);
    snprintf(g_other, sizeof g_other, "%s.2", g_file);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    unlink(g_other);
    return unlink(g_file);
}

/* Words after `briareus plan`, NULL-ended. */
static int run(const char *const *words)
{
    static char copies[24][200];
    char *argv[26];
    int argc = 0;
    snprintf(copies[0], sizeof copies[0], "plan");
    for (argv[argc++] = copies[0]; words[argc - 1]; argc++) {
        snprintf(copies[argc], sizeof copies[argc], "%s", words[argc - 1]);
        argv[argc] = copies[argc];
    }
    argv[argc] = NULL;
    return br_cli_plan(argc, argv);
}

#define SMALL "--quiet", "--horizon", "300", "--model", "Qwen2.5-7B count=3 rate=.05", "--seeds", "2"

static json_t *load(const char *path)
{
    json_error_t where;
    json_t *root = json_load_file(path, 0, &where);
    assert_non_null(root);
    return root;
}

static void check_keys(const json_t *wanted, const json_t *got)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)wanted, key, value)
    {
        if (!json_object_get(got, key))
            fail_msg("no key \"%s\"", key);
    }
}

static void the_json_has_every_key_of_the_sample(void **state)
{
    char path[4200];
    const char *source = getenv("BRIAREUS_SOURCE");
    (void)state;
    assert_int_equal(run((const char *[]){SMALL, "--policy", "slack", "--curve", "--json", g_file, NULL}), 0);
    snprintf(path, sizeof path, "%s/tests/unit/cli/plan_sample.json", source ? source : ".");
    json_t *sample = load(path), *made = load(g_file);
    check_keys(sample, made);
    check_keys(json_object_get(sample, "workload"), json_object_get(made, "workload"));
    check_keys(json_object_get(sample, "targets"), json_object_get(made, "targets"));
    const json_t *want = json_array_get(json_object_get(sample, "results"), 0);
    const json_t *got = json_array_get(json_object_get(made, "results"), 0);
    check_keys(want, got);
    check_keys(json_object_get(want, "time"), json_object_get(got, "time"));
    check_keys(json_array_get(json_object_get(want, "pools"), 0), json_array_get(json_object_get(got, "pools"), 0));
    check_keys(json_array_get(json_object_get(want, "curve"), 0), json_array_get(json_object_get(got, "curve"), 0));
    double sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(got, "time"), key, value) sum += json_number_value(value);
    assert_true(fabs(sum - 1) < 1e-4);
    json_decref(sample);
    json_decref(made);
}

static void same_seed_same_bytes(void **state)
{
    struct br_buf a = {0}, b = {0};
    (void)state;
    assert_int_equal(run((const char *[]){SMALL, "--threads", "1", "--json", g_file, NULL}), 0);
    assert_int_equal(run((const char *[]){SMALL, "--threads", "3", "--json", g_other, NULL}), 0);
    assert_int_equal(br_buf_read_file(&a, g_file, 1 << 20), 0);
    assert_int_equal(br_buf_read_file(&b, g_other, 1 << 20), 0);
    assert_int_equal(a.len, b.len);
    assert_memory_equal(a.data, b.data, a.len);
    br_buf_free(&a);
    br_buf_free(&b);
    assert_int_equal(run((const char *[]){"compare", g_file, g_other, NULL}), 0);
}

static json_t *events_of(const char *path)
{
    json_t *root = load(path), *events = json_incref(json_object_get(root, "traceEvents"));
    json_decref(root);
    return events;
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

/* A trace has a group a device and one for the requests; slices lie in the window, requests' begins and ends pair. */
static void a_trace_is_of_one_pool_and_window(void **state)
{
    (void)state;
    assert_int_equal(run((const char *[]){SMALL, "--policy", "slack", "--trace", g_file, "--trace-seconds", "50",
                                          "--json", g_other, NULL}),
                     0);
    json_t *plan = load(g_other), *events = events_of(g_file), *event;
    const json_t *pool =
        json_array_get(json_object_get(json_array_get(json_object_get(plan, "results"), 0), "pools"), 0);
    int groups = 0, open = 0, steps = 0;
    size_t i;
    json_array_foreach(events, i, event)
    {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        groups += strcmp(json_string_value(json_object_get(event, "name")), "process_name") == 0;
        open += *phase == 'b' ? 1 : *phase == 'e' ? -1 : 0;
        if (*phase == 'M')
            continue;
        assert_true(number_of(event, "ts") >= 60e6 && number_of(event, "ts") <= 110e6); /* the margin is 60 s */
        steps += *phase == 'X' && number_of(event, "tid") == 0;
    }
    assert_int_equal(groups, 1 + json_integer_value(json_object_get(pool, "devices")));
    assert_int_equal(open, 0);
    assert_true(steps > 0);
    json_decref(events);
    json_decref(plan);
}

static void assert_in_page(const struct br_buf *page, const char *text)
{
    if (!memmem(page->data, page->len, text, strlen(text)))
        fail_msg("the page has no '%s'", text);
}

static void a_page_has_all_parts_and_fetches_nothing(void **state)
{
    static const char *const parts[] = {
        "GPUs by policy", "Attainment against GPUs", "Where the time goes",  "One node",      "Host memory",
        "Cost",           "What was asked",          "and what they do not", "reserved_gpus", "artifact's handicaps"};
    struct br_buf page = {0};
    (void)state;
    assert_int_equal(run((const char *[]){SMALL, "--policy", "slack", "--policy", "dedicated", "--handicapped",
                                          "--load-curve", "1,.5", "--html", g_file, NULL}),
                     0);
    assert_int_equal(br_buf_read_file(&page, g_file, 8 << 20), 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_in_page(&page, parts[i]);
    assert_null(memmem(page.data, page.len, " src=", 5));
    assert_null(memmem(page.data, page.len, "<link", 5));
    br_buf_clear(&page);
    assert_int_equal(run((const char *[]){SMALL, "--policy", "dedicated", "--max", "models", "--fleet", "2", "--html",
                                          g_file, NULL}),
                     0);
    assert_int_equal(br_buf_read_file(&page, g_file, 8 << 20), 0);
    assert_in_page(&page, "at 99 % of tokens on time");
    br_buf_free(&page);
}

static void bad_traces_are_refused(void **state)
{
    static const char head[] = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
    static const char *const bad[] = {
        "",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n",
        "TIMESTAMP,ContextTokens\n2023-11-16 18:00:01.0000000,10\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:01.0,10,5\n2023-11-16 18:00:00.0,10,5\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:01.0,nan,5\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:01.0,-1,5\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:01.0,10\n",
        "{\"timestamp\": NaN, \"input_length\": 3, \"output_length\": 4, \"hash_ids\": [1]}\n",
        "Request Time,Model Name,Input Length,Output Length\n00:00:nan,m,5,5\n",
    };
    (void)state;
    for (size_t i = 0; i <= sizeof bad / sizeof *bad; i++) {
        bool gaps = i == sizeof bad / sizeof *bad; /* a day without requests is no error */
        FILE *f = fopen(g_file, "w");
        fprintf(f, "%s%s", gaps ? head : bad[i],
                gaps ? "2023-11-16 18:00:00.0,10,5\n2023-11-16 18:01:30.0,10,5\n2023-11-17 18:00:00.0,10,5\n" : "");
        fclose(f);
        if (run((const char *[]){SMALL, "--policy", "slack", "--traffic", g_file, NULL}) != (gaps ? 0 : 2))
            fail_msg("trace %zu", i);
    }
}

static void bad_input_is_refused_and_leaves_no_report(void **state)
{
    static const char *const bad[][2] = {
        {"--gpu", "H21"},
        {"--policy", "slak"},
        {"--rate", "nan"},
        {"--rate", "-1"},
        {"--rate", "1e9"},
        {"--ttft", "-1s"},
        {"--tbt", "nan"},
        {"--target", "1.5"},
        {"--max", "gpus"},
        {"--rates", "1:2:nan"},
        {"--rates", "1:9:2"},
        {"--weights", "int3"},
        {"--traffic", "/no/such"},
        {"--prices", "/no/such"},
        {"--costs", "guessed"},
        {"--horizon", "1e9"},
        {"--model", "Qwen2.5-8B"},
        {"--model", "Qwen2.5-7B tp=3"},
        {"--train", "A100 x"},
        {"--load-curve", "1,nan"},
        {"--html", "/no/such/folder/x"},
        {"--trace", "/no/such/folder/x"},
        {"--trace-seconds", "-1s"},
        {"--margin", "200s"},
        {"--model", "Qwen2.5-7B rate=1e4 count=4096"},
        {"--model", "Qwen3-235B-A22B gpu=A10 rate=.1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unlink(g_other);
        if (run((const char *[]){SMALL, "--json", g_other, bad[i][0], bad[i][1], NULL}) != 2)
            fail_msg("%s %s was taken", bad[i][0], bad[i][1]);
        assert_int_not_equal(access(g_other, F_OK), 0);
    }
    assert_int_equal(run((const char *[]){"--scenario", "markt", NULL}), 2);
    assert_int_equal(run((const char *[]){"compare", g_file, "/no/such", NULL}), 2);
    assert_int_equal(run((const char *[]){"--quiet", NULL}), 2);
}

static void a_fleet_holds_more_when_it_is_larger(void **state)
{
    (void)state;
    assert_int_equal(
        run((const char *[]){"--quiet", "--horizon", "300", "--seeds", "1", "--policy", "dedicated", "--max", "models",
                             "--fleet", "2", "--model", "Qwen2.5-7B rate=.05", "--json", g_file, NULL}),
        0);
    json_t *made = load(g_file), *r = json_array_get(json_object_get(made, "results"), 0);
    assert_int_equal(json_integer_value(json_object_get(r, "models_99")), 2); /* one a device */
    json_decref(made);
}

static void spread_rates_have_the_three_figures(void **state)
{
    double rates[47], sum = 0;
    struct br_err err;
    (void)state;
    assert_int_equal(rates_spread(.01, .037, 1.13, rates, 47, &err), 0);
    for (int i = 0; i < 47; i++) {
        sum += rates[i];
        assert_true(i == 0 || rates[i] <= rates[i - 1]);
    }
    assert_true(fabs(rates[0] - 1.13) < 1e-9 && fabs(rates[46] - .01) < 1e-9 && fabs(sum / 47 - .037) < 1e-9);
}

/* On demand 1, reserved .6: a GPU pays when it is needed in more than .6 of the hours. Ten hours: 5 GPUs always, 8 in
 * seven of them, 12 in one. Eight reserved: 4.8 + 4 * .1 = 5.2. */
static void reserved_gpus_are_those_needed_often_enough(void **state)
{
    const uint32_t need[] = {5, 5, 5, 8, 8, 8, 8, 8, 8, 12};
    struct mix mix = mix_best(need, 10, 1, .6);
    (void)state;
    assert_int_equal(mix.reserved, 8);
    assert_true(fabs(mix.per_hour - 5.2) < 1e-9);
    assert_true(fabs(mix.all_on_demand - 7.5) < 1e-9 && fabs(mix.all_reserved - 7.2) < 1e-9);
}

/* Prompts in .1 s and tokens in 50 ms each, whatever the batch: a request of 10 tokens keeps a device busy for .55 s.
 */
static void measured_costs_make_a_device_to_plan_for(void **state)
{
    static const char costs[] =
        "{\"briareus_costs\": 1, \"device\": \"bench\", \"memory_bytes\": 4e10, \"link_bytes_per_s\": 1e10, \"models\":"
        " [{\"name\": \"Qwen2.5-7B\", \"weight_bytes\": 3e10, \"kv_bytes_per_token\": 1024, \"prefill\": [[100, 0.1]],"
        " \"decode\": {\"batch\": [1, 2], \"context\": [100], \"seconds\": [[0.05], [0.1]]}}]}";
    FILE *f = fopen(g_other, "w");
    (void)state;
    assert_non_null(f);
    fputs(costs, f);
    fclose(f);
    assert_int_equal(
        run((const char *[]){"--quiet", "--horizon", "3000", "--seeds", "1", "--policy", "dedicated", "--costs",
                             g_other, "--model", "Qwen2.5-7B rate=.05 prompt=100 output=10", "--json", g_file, NULL}),
        0);
    json_t *root = load(g_file), *r = json_array_get(json_object_get(root, "results"), 0);
    double requests = json_number_value(json_object_get(json_object_get(root, "workload"), "requests"));
    assert_string_equal(json_string_value(json_object_get(r, "gpu")), "bench");
    assert_int_equal(json_integer_value(json_object_get(r, "gpus")), 1);
    assert_true(json_number_value(json_object_get(r, "disk_bytes")) == 3e10);
    assert_true(fabs(json_number_value(json_object_get(r, "compute_busy")) / (requests / 3000 * .55) - 1) < .03);
    json_decref(root);
    assert_int_equal(run((const char *[]){"--quiet", "--costs", g_other, "--model", "Qwen2.5-14B rate=.05", NULL}), 2);
    assert_int_equal(run((const char *[]){SMALL, "--costs", g_other, "--gpu", "H20", "--json", g_file, NULL}), 0);
    assert_int_equal(run((const char *[]){SMALL, "--costs", "/no/such", NULL}), 2);
}

static void prices_are_the_users_own(void **state)
{
    static const char yaml[] = "prices:\n  H20: on-demand=2 reserved=1.5\n  L20: spot=.1\n";
    struct prices prices;
    struct br_err err;
    (void)state;
    assert_int_equal(prices_parse(yaml, strlen(yaml), "p.yaml", &prices, &err), 0);
    assert_true(prices_find(&prices, "H20")->on_demand == 2 && prices_find(&prices, "H20")->reserved == 1.5);
    assert_true(prices_find(&prices, "L20")->spot == .1);
    static const char wrong[] = "prices:\n  H20: on-demand=-2\n";
    assert_int_equal(prices_parse(wrong, strlen(wrong), "p.yaml", &prices, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "p.yaml"));
}

static void a_models_line_is_read(void **state)
{
    const struct plan_defaults d = {"bf16", "bf16", 10, .1, .1, 1};
    struct plan_model *models = NULL;
    struct br_err err;
    uint32_t n = 0;
    (void)state;
    assert_int_equal(
        plan_model_words("Qwen2.5-72B count=2 weights=int4 cv=2 prompt=512 output=242:.6", &d, &models, &n, &err), 0);
    assert_int_equal(n, 2);
    assert_int_equal(models[1].footprint.weights, BR_WEIGHTS_INT4);
    assert_int_equal(models[1].source.process.kind, BR_PROCESS_GAMMA);
    assert_true(models[1].source.process.shape == .25); /* 1 / cv^2 */
    assert_int_equal(models[1].source.lengths.prompt.kind, BR_LENGTH_FIXED);
    assert_int_equal(plan_model_words("Qwen2.5-7B wieghts=int4", &d, &models, &n, &err), BR_EINVAL);
    assert_non_null(strstr(err.msg, "weights"));
    free(models);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_has_every_key_of_the_sample),
        cmocka_unit_test(same_seed_same_bytes),
        cmocka_unit_test(a_trace_is_of_one_pool_and_window),
        cmocka_unit_test(a_page_has_all_parts_and_fetches_nothing),
        cmocka_unit_test(bad_traces_are_refused),
        cmocka_unit_test(bad_input_is_refused_and_leaves_no_report),
        cmocka_unit_test(a_fleet_holds_more_when_it_is_larger),
        cmocka_unit_test(spread_rates_have_the_three_figures),
        cmocka_unit_test(reserved_gpus_are_those_needed_often_enough),
        cmocka_unit_test(measured_costs_make_a_device_to_plan_for),
        cmocka_unit_test(prices_are_the_users_own),
        cmocka_unit_test(a_models_line_is_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
