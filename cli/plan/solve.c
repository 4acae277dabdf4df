/* `briareus plan [OPTION...]` itself. */
#include <stdio.h>
#include <string.h>

#include "cli/plan/commands.h"
#include "cli/plan/money.h"
#include "cli/plan/most.h"
#include "cli/plan/report.h"

static int solve(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    struct plan_answer answer;
    int rc = plan_solve(&m->ask, &answer, err);
    if (rc < 0)
        return rc;
    bool print = !o->json || strcmp(o->json, "-") != 0;
    json_t *root = o->json ? plan_json(o, m, &answer) : NULL;
    if (print)
        plan_table(o, m, &answer, stdout);
    if (o->load_curve || o->train.n)
        rc = money_command(o, m, &answer, root, print, err);
    if (rc == 0 && root)
        rc = plan_json_write(root, o->json, err);
    json_decref(root);
    plan_answer_free(&answer);
    return rc;
}

int br_plan_solve(int argc, char **argv)
{
    struct plan_options options;
    struct plan_material material;
    struct br_err err;
    int rc = plan_options_read(&options, argc, argv, &err);
    if (rc == 1)
        return 0;
    if (rc == 0) {
        rc = plan_material_make(&options, &material, &err);
        if (rc == 0) {
            rc = options.max ? plan_most_command(&options, &material, &err) : solve(&options, &material, &err);
            plan_material_free(&material);
        }
        plan_options_free(&options);
    }
    if (rc < 0)
        fprintf(stderr, "briareus plan: %s\n", err.msg);
    return rc < 0 ? 2 : 0;
}
