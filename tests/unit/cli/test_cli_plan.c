/* `briareus plan costs` from its command line: exit statuses, and JSON that says what the table says. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/plan/commands.h"
#include "cli/plan/plan.h"
#include "tests/cmocka.h"

static char g_file[64], g_shared[4000];

static int setup(void **state)
{
    const char *shared = getenv("BRIAREUS_SHARED");
    int fd;
    (void)state;
    snprintf(g_shared, sizeof g_shared, "%s/data/profiles", shared && *shared ? shared : "../shared");
    snprintf(g_file, sizeof g_file, "/tmp/briareus-test-XXXXXX");
    fd = mkstemp(g_file);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(g_file);
}

static int run_costs(const char *file)
{
    char plan[] = "plan", costs[] = "costs", check[] = "--check", path[4200];
    char *argv[] = {plan, costs, check, path, NULL};
    snprintf(path, sizeof path, "%s", file);
    return br_cli_plan(4, argv);
}

static int run_text(const char *text)
{
    FILE *f = fopen(g_file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return run_costs(g_file);
}

static void published_profiles_are_within_the_limits(void **state)
{
    char path[4200];
    (void)state;
    snprintf(path, sizeof path, "%s/aegaeon_artifact_steps.csv", g_shared);
    assert_int_equal(run_costs(path), 0);
    snprintf(path, sizeof path, "%s/vidur_qwen72b_layer_ops.csv", g_shared);
    assert_int_equal(run_costs(path), 0);
}

#define STEPS "model,gpu,prompt_tokens,batch,prefill_ms_median,decode_step_ms_median\n"

static void timings_that_are_far_off_are_status_1(void **state)
{
    (void)state;
    assert_int_equal(run_text(STEPS "qwen2_5_7b,H800,16,1,84,85\nqwen2_5_7b,H100,16,1,8.5,8.5\n"), 1);
}

static void files_that_cannot_be_used_are_status_2(void **state)
{
    (void)state;
    assert_int_equal(run_costs("/nonexistent"), 2);
    assert_int_equal(run_text(""), 2);
    assert_int_equal(run_text(STEPS "qwen2_5_7b,H800,16,1,nan,8.5\n"), 2);
    assert_int_equal(run_text(STEPS "qwen2_5_7c,H800,16,1,8,8.5\n"), 2);
}

static void other_commands_do_not_exist(void **state)
{
    char plan[] = "plan", word[] = "compare";
    char *argv[] = {plan, word, NULL};
    (void)state;
    assert_int_equal(br_cli_plan(1, argv), 2);
    assert_int_equal(br_cli_plan(2, argv), 2);
}

static void json_holds_the_figures(void **state)
{
    struct br_profile profile;
    struct br_check check;
    struct br_err err;
    char path[4200], *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    json_t *root;
    (void)state;
    snprintf(path, sizeof path, "%s/vidur_qwen72b_layer_ops.csv", g_shared);
    assert_int_equal(br_profile_load(path, &profile, &err), 0);
    assert_int_equal(br_check_run(&profile, path, &check, &err), 0);
    br_plan_costs_json(&check, path, out);
    fclose(out);
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_true(json_is_true(json_object_get(root, "passed")));
    assert_int_equal(json_array_size(json_object_get(root, "gpus")), 2);
    assert_non_null(json_object_get(json_object_get(json_object_get(root, "total"), "layer"), "held_out"));
    json_decref(root);
    free(text);
    br_check_free(&check);
    br_profile_free(&profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_profiles_are_within_the_limits),
        cmocka_unit_test(timings_that_are_far_off_are_status_1),
        cmocka_unit_test(files_that_cannot_be_used_are_status_2),
        cmocka_unit_test(other_commands_do_not_exist),
        cmocka_unit_test(json_holds_the_figures),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
