/* `briareus plan [OPTION...]` itself. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/plan/commands.h"
#include "cli/plan/html.h"
#include "cli/plan/money.h"
#include "cli/plan/most.h"
#include "cli/plan/report.h"
#include "cli/plan/trace.h"
#include "cli/plan/write.h"

/* The first result that holds at some count: whose pool is watched. NULL: none does. */
static const struct plan_result *first_that_holds(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->results[i].gpus > 0 && plan_timeline_part(&a->results[i]) >= 0)
            return &a->results[i];
    return NULL;
}

static int html_write(const struct plan_options *o, const struct plan_ask *ask, const json_t *root,
                      const struct plan_timeline *timeline, struct br_err *err)
{
    struct br_buf page = {0};
    plan_html(root, ask, timeline, &page);
    int rc = plan_write(o->html, page.data, page.len, err);
    br_buf_free(&page);
    return rc;
}

/* Results beside the table. root: NULL unless --json or --html. */
static int files_write(const struct plan_options *o, const struct plan_material *m, const struct plan_answer *a,
                       const json_t *root, struct br_err *err)
{
    const struct plan_result *watched = o->html || o->trace ? first_that_holds(a) : NULL;
    struct plan_timeline timeline = {0};
    int rc = 0;
    if (o->trace && !watched)
        return br_err_set(err, BR_EINVAL, "there is nothing to trace: no result holds the target (leave --trace out)");
    if (watched)
        rc = plan_timeline_record(&m->ask, a, watched, (uint32_t)plan_timeline_part(watched), m->ask.margin_s,
                                  fmin(m->ask.margin_s + o->trace_s, m->ask.horizon_s), &timeline, err);
    if (rc == 0 && o->json)
        rc = plan_json_write(root, o->json, err);
    if (rc == 0 && o->html)
        rc = html_write(o, &m->ask, root, watched ? &timeline : NULL, err);
    if (rc == 0 && o->trace)
        rc = plan_trace_write(&m->ask, &timeline, o->trace, err);
    plan_timeline_free(&timeline);
    return rc;
}

static int solve(const struct plan_options *o, struct plan_material *m, struct br_err *err)
{
    struct plan_answer answer;
    int rc = money_check(o, err);
    if (rc == 0)
        rc = plan_solve(&m->ask, &answer, err);
    if (rc < 0)
        return rc;
    bool print = !o->json || strcmp(o->json, "-") != 0;
    json_t *root = o->json || o->html ? plan_json(o, m, &answer) : NULL;
    if (print)
        plan_table(o, m, &answer, stdout);
    if (o->load_curve || o->train.n)
        rc = money_command(o, m, &answer, root, print, err);
    if (rc == 0)
        rc = files_write(o, m, &answer, root, err);
    json_decref(root);
    plan_answer_free(&answer);
    return rc;
}

static int files_check(const struct plan_options *o, struct br_err *err)
{
    if (plan_write_check(o->json, err) < 0 || plan_write_check(o->html, err) < 0 || plan_write_check(o->trace, err) < 0)
        return err->code;
    return 0;
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
        rc = files_check(&options, &err);
        if (rc == 0)
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
