/* The bars on measurements that the fit has not seen: 6 % for decode, 8 % for prefill, 15 % for layers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/check.h"
#include "tests/cmocka.h"

static void check_file(const char *name, struct br_check *check)
{
    const char *shared = getenv("BRIAREUS_SHARED");
    struct br_profile profile;
    struct br_err err;
    char path[4096];
    snprintf(path, sizeof path, "%s/data/profiles/%s", shared && *shared ? shared : "../shared", name);
    if (br_profile_load(path, &profile, &err) || br_check_run(&profile, path, check, &err))
        fail_msg("%s", err.msg);
    br_profile_free(&profile);
}

static struct br_check g_steps; /* of the steps, which three tests look at */

static int setup(void **state)
{
    (void)state;
    check_file("aegaeon_artifact_steps.csv", &g_steps);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    br_check_free(&g_steps);
    return 0;
}

static const struct br_check_line *gpu_line(const struct br_check *check, const char *gpu)
{
    for (size_t i = 0; i < check->n_gpus; i++)
        if (strcmp(check->gpus[i].gpu, gpu) == 0)
            return &check->gpus[i];
    fail_msg("no line for %s", gpu);
    return NULL;
}

static void steps_are_predicted_within_the_bars(void **state)
{
    (void)state;
    assert_int_equal(g_steps.total.held_out[0].n, 1478);
    assert_int_equal(g_steps.n_pairs, 22);
    assert_true(g_steps.total.held_out[BR_PROFILE_DECODE].median <= 0.06);
    assert_true(g_steps.total.held_out[BR_PROFILE_PREFILL].median <= 0.08);
    assert_true(g_steps.passed);
}

/* One model was measured on H20, so that holding its pair out leaves the other GPUs alone: both columns agree. */
static void h20_comes_from_the_other_gpus_alone(void **state)
{
    const struct br_check_line *h20;
    (void)state;
    h20 = gpu_line(&g_steps, "H20");
    for (int i = 0; i < BR_CHECK_MEASURES; i++) {
        assert_true(fabs(h20->held_out[i].median - h20->other_gpus[i].median) < 1e-12);
        assert_true(h20->other_gpus[i].median < 0.15);
    }
}

static void built_in_calibrations_are_what_the_fit_gives(void **state)
{
    struct br_err err;
    (void)state;
    assert_int_equal(g_steps.n_fitted, 6);
    for (size_t i = 0; i < g_steps.n_fitted; i++) {
        const char *gpu = strcmp(g_steps.fitted[i].name, "all") == 0 ? "L40S" : g_steps.fitted[i].name;
        const struct br_calibration *built_in = br_calibration_for(br_gpu_find(gpu, &err));
        assert_string_equal(built_in->name, g_steps.fitted[i].name);
        for (int j = 0; j < BR_COEF_N; j++)
            assert_true(fabs(built_in->coef[j] / g_steps.fitted[i].coef[j] - 1) < 1e-2);
    }
}

static void layers_are_predicted_within_the_bar(void **state)
{
    struct br_check check;
    (void)state;
    check_file("vidur_qwen72b_layer_ops.csv", &check);
    assert_int_equal(check.total.held_out[0].n, 120);
    assert_true(gpu_line(&check, "a100")->held_out[0].median <= 0.15);
    assert_true(gpu_line(&check, "h100")->held_out[0].median <= 0.15);
    assert_true(check.passed);
    br_check_free(&check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_predicted_within_the_bars),
        cmocka_unit_test(h20_comes_from_the_other_gpus_alone),
        cmocka_unit_test(built_in_calibrations_are_what_the_fit_gives),
        cmocka_unit_test(layers_are_predicted_within_the_bar),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
