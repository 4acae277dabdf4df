/* Prints policy.md's table as the simulator gives it, beside the published figures.
 * sim_table [--row 1..3] [--policy NAME] [--seeds N] [--models M] [--first-seed S] [--verbose] [--check]
 *           [--h H] [--q-max S] [--prefill N] [--books]
 * --models: one run per seed instead of the search; --books: memory by kvcache's books, in blocks and slabs, instead of
 * by token; --check: the books after every event. Exit 1: a figure differs. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rows.h"

struct args {
    int row; /* 0: all */
    const char *policy;
    uint32_t seeds, models;
    uint64_t first_seed;
    bool verbose, check, books;
    double hysteresis, q_max_s;
    uint32_t n_prefill;
};

static int args_read(struct args *a, int argc, char **argv)
{
    static const struct option options[] = {{"row", 1, 0, 'r'},    {"policy", 1, 0, 'p'},  {"seeds", 1, 0, 's'},
                                            {"models", 1, 0, 'm'}, {"verbose", 0, 0, 'v'}, {"first-seed", 1, 0, 'f'},
                                            {"h", 1, 0, 'h'},      {"q-max", 1, 0, 'q'},   {"prefill", 1, 0, 'n'},
                                            {"check", 0, 0, 'c'},  {"books", 0, 0, 'b'},   {0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 'r':
            a->row = atoi(optarg);
            break;
        case 'p':
            a->policy = optarg;
            break;
        case 's':
            a->seeds = (uint32_t)atoi(optarg);
            break;
        case 'm':
            a->models = (uint32_t)atoi(optarg);
            break;
        case 'f':
            a->first_seed = (uint64_t)atoll(optarg);
            break;
        case 'h':
            a->hysteresis = atof(optarg);
            break;
        case 'q':
            a->q_max_s = atof(optarg);
            break;
        case 'n':
            a->n_prefill = (uint32_t)atoi(optarg);
            break;
        case 'c':
            a->check = true;
            break;
        case 'b':
            a->books = true;
            break;
        case 'v':
            a->verbose = true;
            break;
        default:
            return -1;
        }
    return 0;
}

static void search_set(struct sim_search *search, const struct args *a, const struct row *row, enum row_policy p)
{
    struct br_pl_options options = row_options(p);
    options.hysteresis = a->hysteresis > 0 ? a->hysteresis : options.hysteresis;
    options.q_max_s = a->q_max_s > 0 ? a->q_max_s : options.q_max_s;
    options.n_prefill = a->n_prefill > 0 ? a->n_prefill : options.n_prefill;
    sim_search_init(search, &row->scenario, &options);
    search->n_seeds = a->seeds;
    search->check = a->check;
    search->books = a->books;
    search->first_seed = a->first_seed;
}

static int point_print(const struct args *a, const struct row *row, enum row_policy p)
{
    static struct sim_search search;
    struct br_err err;
    struct sim_result r;
    search_set(&search, a, row, p);
    search.give_up = 0;
    for (uint32_t i = 0; i < a->seeds; i++) {
        if (sim_scenario_run(&search, a->models, a->first_seed + i, &r, &err) < 0) {
            fprintf(stderr, "sim_table: %s\n", err.msg);
            return 1;
        }
        printf("%s %s M=%u seed %u: attainment %.4f steps %lu switches %lu compute %.2f link %.2f active %.1f "
               "time %.2f dropped %lu refused %lu left out %lu short loads %lu digest %016lx\n",
               row->scenario.name, row_policy_names[p], a->models, (unsigned)(a->first_seed + i), r.attainment, r.steps,
               r.switches, r.compute_busy, r.link_busy, r.active_models, r.in_flight_s, r.dropped, r.refused,
               r.left_out, r.short_loads, r.digest);
    }
    return 0;
}

struct found {
    int32_t held[2];
    double q_max_s[2]; /* tuned: for each target */
    uint32_t n_prefill[2];
};

static int held(struct sim_search *search, struct found *f)
{
    static const double targets[2] = {.9, .99};
    struct br_err err;
    for (int t = 0; t < 2; t++) {
        if ((f->held[t] = sim_goodput(search, targets[t], &err)) < 0) {
            fprintf(stderr, "sim_table: %s\n", err.msg);
            return -1;
        }
        search->guess = f->held[t] > 2 ? (uint32_t)f->held[t] * 9 / 10 : 1;
    }
    return 0;
}

/* Q_MAX and the split that hold the most at this target; each has to hold one more than the best so far first. */
static int tuned_for(const struct args *a, const struct row *row, int target, struct found *f)
{
    static const double quotas[] = {.25, .5, 1, 2, 4};
    static const double targets[2] = {.9, .99};
    static struct sim_search s;
    struct br_err err;
    for (uint32_t split = 1; split <= 4; split++)
        for (size_t q = 0; q < sizeof quotas / sizeof *quotas; q++) {
            search_set(&s, a, row, ROW_TUNED);
            s.options.q_max_s = quotas[q];
            s.options.n_prefill = split;
            s.give_up = targets[target];
            s.guess = (uint32_t)f->held[target] + 1;
            if (sim_attainment(&s, s.guess, &err) < targets[target])
                continue;
            f->held[target] = sim_goodput(&s, targets[target], &err);
            f->q_max_s[target] = quotas[q];
            f->n_prefill[target] = split;
        }
    return f->held[target];
}

static int tuned(const struct args *a, const struct row *row, struct found *f)
{
    return tuned_for(a, row, 0, f) < 0 || tuned_for(a, row, 1, f) < 0 ? -1 : 0;
}

static bool agrees(int32_t got, int32_t want)
{
    return abs(got - want) <= 1 || abs(got - want) * 10 <= want;
}

static int row_print(const struct args *a, const struct row *row, enum row_policy p)
{
    static struct sim_search search;
    struct found f = {0};
    search_set(&search, a, row, p);
    if ((p == ROW_TUNED ? tuned(a, row, &f) : held(&search, &f)) < 0)
        return 1;
    const int32_t *want = row->published[p];
    bool ok = agrees(f.held[0], want[0]) && agrees(f.held[1], want[1]);
    printf("%-15s %-14s %4d / %-4d policy.md %4d / %-4d %+4.0f %% / %+4.0f %%  %s", row->scenario.name,
           row_policy_names[p], f.held[0], f.held[1], want[0], want[1], 100.0 * (f.held[0] - want[0]) / want[0],
           100.0 * (f.held[1] - want[1]) / want[1], ok ? "agrees" : "DIFFERS");
    if (p == ROW_TUNED)
        printf("  Q_MAX %g / %g s, %u / %u of %u prefill", f.q_max_s[0], f.q_max_s[1], f.n_prefill[0], f.n_prefill[1],
               row->scenario.n_devices);
    printf("\n");
    fflush(stdout);
    for (uint32_t m = 1; a->verbose && m <= SIM_MAX_MODELS; m++)
        if (search.attainment[m] >= 0)
            printf("  M=%u %.4f\n", m, search.attainment[m]);
    return !ok;
}

int main(int argc, char **argv)
{
    struct args a = {.seeds = 2, .first_seed = 1};
    int differ = 0, matched = 0;
    if (args_read(&a, argc, argv) < 0)
        return 2;
    for (int r = 0; r < N_ROWS; r++)
        for (int p = 0; p < ROW_POLICIES; p++) {
            if ((a.row && a.row != r + 1) || (a.policy && strcmp(a.policy, row_policy_names[p]) != 0))
                continue;
            matched++;
            differ +=
                a.models ? point_print(&a, &rows[r], (enum row_policy)p) : row_print(&a, &rows[r], (enum row_policy)p);
        }
    if (matched == 0)
        fprintf(stderr, "sim_table: rows are 1 to %d, policies request, multiplex, aegaeon, aegaeon-tuned, slack\n",
                N_ROWS);
    return matched == 0 ? 2 : differ > 0;
}
