#include "tests/unit/loadgen/drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int drive_config(struct load_config *config, const char *url, const char *const *args, struct br_err *err)
{
    char *argv[DRIVE_MAX_ARGS + 4] = {"load", "--quiet", "--base-url", (char *)(uintptr_t)url};
    int argc = url ? 4 : 2, rc;
    for (int i = 0; args[i] && i < DRIVE_MAX_ARGS; i++)
        argv[argc++] = (char *)(uintptr_t)args[i];
    memset(config, 0, sizeof *config);
    rc = br_options_read(load_options, load_n_options, config, "load", "", argc, argv, err);
    return rc ? rc : load_config_check(config, err);
}

void drive_config_free(struct load_config *config)
{
    br_options_free(load_options, load_n_options, config);
}

static void must(int rc, const struct br_err *err)
{
    if (rc) {
        fprintf(stderr, "%s\n", err->msg);
        abort();
    }
}

void drive_run(struct drive *d, const char *url, const char *const *args)
{
    struct br_err err;
    struct load_outcome_of_run run = {
        .config = &d->config, .offer = &d->session.offer, .journal = &d->session.journal, .note = d->session.note};
    must(drive_config(&d->config, url, args, &err), &err);
    must(load_session_open(&d->session, &d->config, &err), &err);
    must(load_session_run(&d->session, 1, d->config.seed, "test", &err), &err);
    must(load_result_make(&run, &d->result, &err), &err);
}

void drive_free(struct drive *d)
{
    json_decref(d->result);
    load_session_close(&d->session);
    drive_config_free(&d->config);
}

double drive_number(const struct drive *d, const char *key)
{
    const json_t *value = json_object_get(d->result, key);
    if (!json_is_number(value)) {
        fprintf(stderr, "no number %s in the result\n", key);
        abort();
    }
    return json_number_value(value);
}

uint64_t drive_outcome(const struct drive *d, const char *kind)
{
    return (uint64_t)json_integer_value(json_object_get(json_object_get(d->result, "outcomes"), kind));
}
