/* Runs the load generator inside a test. */
#ifndef BRIAREUS_TESTS_LOADGEN_DRIVE_H
#define BRIAREUS_TESTS_LOADGEN_DRIVE_H

#include "loadgen/session.h"

enum { DRIVE_MAX_ARGS = 64 };

struct drive {
    struct load_config config;
    struct load_session session;
    json_t *result;
};

/* args as on the command line, NULL at the end; `url` becomes --base-url. Aborts on an error. */
void drive_run(struct drive *drive, const char *url, const char *const *args);
void drive_free(struct drive *drive);
/* The configuration alone: 0 or the error of reading and checking it. */
int drive_config(struct load_config *config, const char *url, const char *const *args, struct br_err *err);
void drive_config_free(struct load_config *config);

double drive_number(const struct drive *drive, const char *key);
uint64_t drive_outcome(const struct drive *drive, const char *kind);

#endif
