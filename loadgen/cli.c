#include <stdio.h>
#include <string.h>

#include "loadgen/load.h"
#include "loadgen/session.h"

static int write_files(struct load_session *s, const struct load_outcome_of_run *run, json_t *result,
                       struct br_err *err)
{
    const struct load_config *c = s->config;
    if ((c->save_result || c->result_filename) && load_result_save(result, c, err))
        return err->code;
    if (c->records && load_records_write(c->records, run, c->save_detailed, err))
        return err->code;
    if (c->timeline && load_timeline_write(c->timeline, run, err))
        return err->code;
    return c->html ? load_page_write(c->html, &result, 1, err) : 0;
}

static bool nothing_sent(const struct load_journal *j)
{
    for (size_t i = 0; i < j->n; i++)
        if (j->records[i].sent_s >= 0)
            return false;
    return true;
}

/* Exit status, or an error. */
static int run_once(struct load_session *s, struct br_err *err)
{
    struct load_outcome_of_run run = {.config = s->config, .offer = &s->offer, .journal = &s->journal, .note = s->note};
    json_t *result;
    int rc = load_session_run(s, 1, s->config->seed, "load", err);
    if (rc)
        return rc;
    if (nothing_sent(&s->journal)) {
        fprintf(stderr, "briareus load: no requests were sent (rate x duration too small)\n");
        return LOAD_EXIT_NOTHING;
    }
    rc = load_result_make(&run, &result, err);
    if (rc)
        return rc;
    (s->config->brief ? load_result_print_models : load_result_print)(result, stdout);
    rc = write_files(s, &run, result, err);
    if (rc == 0 && s->journal.interrupted)
        rc = LOAD_EXIT_INTERRUPTED;
    else if (rc == 0 && !json_is_true(json_object_get(result, "valid")))
        rc = LOAD_EXIT_INVALID;
    json_decref(result);
    return rc;
}

static int run_search(struct load_session *s, struct br_err *err)
{
    json_t *found;
    int rc = load_session_find(s, &found, err);
    if (rc)
        return rc;
    if (s->config->result_filename &&
        json_dump_file(found, s->config->result_filename, JSON_INDENT(1) | JSON_REAL_PRECISION(9)))
        rc = br_err_errno(err, BR_EIO, "cannot write %s", s->config->result_filename);
    json_decref(found);
    return rc ? rc : s->journal.interrupted ? LOAD_EXIT_INTERRUPTED : LOAD_EXIT_OK;
}

/* ---- briareus load compare ---- */

enum { MAX_COMPARED = 16 };

static int compare(int argc, char **argv, struct br_err *err)
{
    json_t *results[MAX_COMPARED];
    const char *html = NULL;
    uint32_t n = 0;
    int rc = 0;
    for (int i = 1; i < argc && rc == 0; i++) {
        if (strcmp(argv[i], "--html") == 0 && i + 1 < argc)
            html = argv[++i];
        else if (strncmp(argv[i], "--html=", 7) == 0)
            html = argv[i] + 7;
        else if (argv[i][0] == '-' || n == MAX_COMPARED)
            rc = br_err_set(err, BR_EINVAL, "compare: RESULT.json ... (at most %d) --html FILE, not '%s'", MAX_COMPARED,
                            argv[i]);
        else if ((rc = load_result_read(argv[i], &results[n], err)) == 0)
            n++;
    }
    if (rc == 0 && (!html || n == 0))
        rc = br_err_set(err, BR_EINVAL, "compare: RESULT.json ... --html FILE");
    if (rc == 0)
        rc = load_page_write(html, results, n, err);
    for (uint32_t i = 0; i < n; i++)
        json_decref(results[i]);
    return rc;
}

static int run_session(const struct load_config *config, struct br_err *err)
{
    struct load_session session;
    int rc = load_session_open(&session, config, err);
    if (rc == 0)
        rc = config->find_goodput > 0 ? run_search(&session, err) : run_once(&session, err);
    load_session_close(&session);
    return rc;
}

static int run_load(int argc, char **argv, load_find_devices_fn find_devices, struct br_err *err)
{
    struct load_config config = {0};
    int rc = br_options_read(load_options, load_n_options, &config, "briareus load",
                             "Puts open-loop load on an OpenAI-compatible server and reports latency and attainment.\n"
                             "`briareus load compare A.json B.json --html FILE` puts results side by side.",
                             argc, argv, err);
    if (rc == 0) {
        if (!config.find_devices)
            rc = run_session(&config, err);
        else if (find_devices)
            rc = find_devices(&config, err);
        else
            rc = br_err_set(err, BR_ENOTSUP, "find-devices: this program starts no servers");
    } else if (rc > 0) {
        rc = LOAD_EXIT_OK; /* --help */
    }
    br_options_free(load_options, load_n_options, &config);
    return rc;
}

int br_cli_load(int argc, char **argv, load_find_devices_fn find_devices)
{
    struct br_err err;
    int rc = argc > 1 && strcmp(argv[1], "compare") == 0 ? compare(argc - 1, argv + 1, &err)
                                                         : run_load(argc, argv, find_devices, &err);
    if (rc < 0)
        fprintf(stderr, "briareus load: %s\n", err.msg);
    return rc < 0 ? LOAD_EXIT_USAGE : rc;
}
