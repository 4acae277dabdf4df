/* The table of policy.md: three workloads, five policies, models held at 90 % and 99 %. */
#ifndef BRIAREUS_TESTS_SIM_ROWS_H
#define BRIAREUS_TESTS_SIM_ROWS_H

#include "sim/goodput.h"

enum row_policy { ROW_REQUEST, ROW_MULTIPLEX, ROW_AEGAEON, ROW_TUNED, ROW_SLACK, ROW_POLICIES };

struct row {
    struct sim_scenario scenario;
    int32_t published[ROW_POLICIES][2]; /* at 90 %, at 99 % */
};

enum { N_ROWS = 3 };
extern const struct row rows[N_ROWS];
extern const char *const row_policy_names[ROW_POLICIES];
struct br_pl_options row_options(enum row_policy policy);

#endif
