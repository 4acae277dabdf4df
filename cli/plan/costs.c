#include <argp.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cli/plan/commands.h"

struct options {
    const char *check;
    bool json;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    if (key == 'c')
        return o->check = arg, 0;
    if (key == 'j')
        return o->json = true, 0;
    if (key == ARGP_KEY_END && !o->check)
        argp_error(state, "--check FILE is needed");
    return ARGP_ERR_UNKNOWN;
}

static const struct argp_option g_options[] = {
    {"check", 'c', "FILE", 0, "CSV of measured steps or layer operators", 0},
    {"json", 'j', NULL, 0, "print JSON", 0},
    {0},
};

static const struct argp g_argp = {
    .options = g_options,
    .parser = parse_option,
    .doc = "Predicts every measurement of a file from the others and prints the error by GPU and model.\v"
           "A file of steps has the columns model, gpu, prompt_tokens, batch, prefill_ms_median and "
           "decode_step_ms_median; a file of layer operators gpu, model, tp, tokens and the operators' times. Exit "
           "status: 0, 1 when an error is over its limit, 2 when the file cannot be used."};

const char *br_plan_measure(enum br_profile_kind kind, int measure)
{
    static const char *const names[][BR_CHECK_MEASURES] = {{"prefill", "decode"}, {"layer", "products"}};
    return names[kind][measure];
}

static void print_percent(double share, int width, bool sign)
{
    if (isfinite(share))
        printf(sign ? " %+*.1f |" : " %*.1f |", width, 100 * share);
    else
        printf(" %*s |", width, "-");
}

static void print_line(const struct br_check_line *line, const char *model)
{
    printf("| %-8s | %-22s | %5zu |", line->gpu, model, line->held_out[0].n);
    for (int i = 0; i < BR_CHECK_MEASURES; i++) {
        print_percent(line->held_out[i].median, 15, false);
        print_percent(line->held_out[i].bias, 8, true);
        print_percent(line->held_out[i].worst, 6, false);
        print_percent(line->other_gpus[i].median, 6, false);
    }
    printf("\n");
}

static void print_head(enum br_profile_kind kind)
{
    printf("| %-8s | %-22s | %5s |", "GPU", "model", "rows");
    for (int i = 0; i < BR_CHECK_MEASURES; i++)
        printf(" %-8s median | %8s | %6s | %6s |", br_plan_measure(kind, i), "bias", "worst", "alone");
    printf("\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
}

static void print_verdict(const struct br_check *check)
{
    bool steps = check->kind == BR_PROFILE_STEPS;
    for (int i = 0; i < BR_CHECK_MEASURES; i++) {
        const struct br_check_line *worst = &check->gpus[0];
        for (size_t g = 1; g < check->n_gpus; g++)
            if (check->gpus[g].held_out[i].median > worst->held_out[i].median)
                worst = &check->gpus[g];
        printf("%s: median error %.1f %%, worst GPU %s with %.1f %%; limit %.0f %% %s\n",
               br_plan_measure(check->kind, i), 100 * check->total.held_out[i].median, worst->gpu,
               100 * worst->held_out[i].median, 100 * check->limits[i], steps ? "over all rows" : "on every GPU");
    }
    printf("%s\n", check->passed ? "within the limits" : "OVER THE LIMITS");
}

static void print_table(const struct br_check *check, const char *file)
{
    bool steps = check->kind == BR_PROFILE_STEPS;
    const char *name = strrchr(file, '/');
    printf("%s: errors in %% of the measured time.\n"
           "Each pair of model and GPU is predicted with coefficients fitted without it%s;\n"
           "\"alone\" is the median error of a GPU predicted from the other GPUs of the file alone.\n\n",
           name ? name + 1 : file, steps ? "" : " (memory and compute: to steps of other models)");
    print_head(check->kind);
    for (size_t g = 0; g < check->n_gpus; g++) {
        for (size_t i = 0; i < check->n_pairs; i++)
            if (strcmp(check->pairs[i].gpu, check->gpus[g].gpu) == 0)
                print_line(&check->pairs[i], check->pairs[i].model);
        print_line(&check->gpus[g], "all of this GPU");
    }
    print_line(&check->total, "all");
    printf("\n");
    print_verdict(check);
}

static int parse(int argc, char **argv, struct options *options)
{
    static char program[] = "briareus plan costs";
    char *name = argv[0];
    int rc;
    argv[0] = program; /* argp names it in its messages */
    argp_err_exit_status = 2;
    rc = argp_parse(&g_argp, argc, argv, 0, NULL, options);
    argv[0] = name;
    return rc ? 2 : 0;
}

int br_plan_costs(int argc, char **argv)
{
    struct options options = {0};
    struct br_profile profile;
    struct br_check check;
    struct br_err err;
    int rc = parse(argc, argv, &options);
    if (rc)
        return rc;
    rc = br_profile_load(options.check, &profile, &err);
    if (!rc && (rc = br_check_run(&profile, options.check, &check, &err)))
        br_profile_free(&profile);
    if (rc) {
        fprintf(stderr, "briareus plan costs: %s\n", err.msg);
        return 2;
    }
    if (options.json)
        br_plan_costs_json(&check, options.check, stdout);
    else
        print_table(&check, options.check);
    rc = check.passed ? 0 : 1;
    br_check_free(&check);
    br_profile_free(&profile);
    return rc;
}
