/* One table of options for flags, environment and the YAML file: flag > BRIAREUS_* > file > default.
 *
 * A row names the option ("max-model-len": flag --max-model-len, environment BRIAREUS_MAX_MODEL_LEN, YAML key
 * max_model_len or max-model-len), its type and where its value goes. An unknown key or flag is an error that names the
 * nearest known one, with file and line. */
#ifndef BRIAREUS_BASE_OPTIONS_H
#define BRIAREUS_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum br_option_kind {
    BR_OPT_BOOL,    /* bool; a flag without a value sets it */
    BR_OPT_UINT,    /* uint32_t, min..max */
    BR_OPT_BYTES,   /* uint64_t; 4096, 64K, 1.5M, 2G (powers of 1024) */
    BR_OPT_SECONDS, /* double; 10, 10s, 100ms */
    BR_OPT_NUMBER,  /* double, min..max */
    BR_OPT_STRING,  /* char *, owned (strdup); NULL when not set */
    BR_OPT_LIST,    /* struct br_option_list: the flag may be repeated; YAML: a sequence, or a mapping as KEY=VALUE */
};

struct br_option_list {
    char **items; /* owned */
    uint32_t n;
};

struct br_option {
    const char *name;
    enum br_option_kind kind;
    size_t offset;        /* of the value in the target struct */
    const char *fallback; /* default, as text; NULL: zero */
    double min, max;      /* UINT, BYTES, SECONDS, NUMBER; 0, 0: no bounds */
    const char *help;     /* "SOCKET: what it is" : the word before the colon is the argument's name */
};

/* Fills *target from defaults, the file named by --config (if any), the environment and argv[1..]. Words that are no
 * options are an error. --help prints the table and returns 1. 0 on success. */
int br_options_read(const struct br_option *table, size_t n, void *target, const char *program, const char *purpose,
                    int argc, char **argv, struct br_err *err);
void br_options_free(const struct br_option *table, size_t n, void *target);

/* One value by name, as from a flag; for tests and front ends. */
int br_options_set(const struct br_option *table, size_t n, void *target, const char *name, const char *value,
                   struct br_err *err);
/* The keys of a YAML text; where names the file in errors. */
int br_options_yaml(const struct br_option *table, size_t n, void *target, const char *yaml, size_t len,
                    const char *where, struct br_err *err);

/* The known name nearest to `word` by edit distance, or NULL when none is near. */
const char *br_nearest(const char *word, const char *const *names, size_t n);

#endif
