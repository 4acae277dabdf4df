/* `briareus load`: open-loop load on any OpenAI-compatible server, what came of it, and the highest load that an
 * attainment allows. */
#ifndef BRIAREUS_LOADGEN_LOAD_H
#define BRIAREUS_LOADGEN_LOAD_H

#include "base/err.h"

enum load_exit {
    LOAD_EXIT_OK = 0,
    LOAD_EXIT_NOTHING = 1,      /* no request was sent */
    LOAD_EXIT_USAGE = 2,        /* options, files */
    LOAD_EXIT_INVALID = 3,      /* the generator fell behind: the figures are not the server's */
    LOAD_EXIT_INTERRUPTED = 130 /* SIGINT or SIGTERM; the report is of what there was */
};

/* --find-devices starts servers, of which this folder knows nothing: an exit status, or an error. */
struct load_config;
typedef int (*load_find_devices_fn)(const struct load_config *config, struct br_err *err);

/* `briareus load ...` and `briareus load compare A.json B.json --html FILE`. find_devices may be NULL: refused. */
int br_cli_load(int argc, char **argv, load_find_devices_fn find_devices);

#endif
