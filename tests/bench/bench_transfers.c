/* What moving weights and KV costs: bench_transfers --model DIR --cache DIR [--threads N] [--rounds N] [--only PART]
 * Ratios of one run; exits 1 when a bar is missed. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "tests/bench/transfers.h"

enum { ROUNDS_MAX = 99 };

static const struct {
    const char *name;
    int (*run)(const struct transfers *t);
} g_parts[] = {{"weights", transfers_weights},
               {"kv", transfers_kv},
               {"planned", transfers_planned},
               {"unplanned", transfers_unplanned}};

static void usage(void)
{
    fprintf(stderr, "usage: bench_transfers --model DIR --cache DIR [--threads N] [--rounds N] "
                    "[--only weights|kv|planned|unplanned]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"model", 1, 0, 'm'},  {"cache", 1, 0, 'c'}, {"threads", 1, 0, 't'},
                                          {"rounds", 1, 0, 'r'}, {"only", 1, 0, 'o'},  {0, 0, 0, 0}};
    const char *model = NULL, *cache = NULL, *only = NULL;
    struct transfers t = {.threads = 1, .rounds = 7};
    struct br_weight_image *image;
    struct br_err err;
    int missed = 0;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'm')
            model = optarg;
        else if (c == 'c')
            cache = optarg;
        else if (c == 'o')
            only = optarg;
        else if (c == 't')
            t.threads = (uint32_t)atoi(optarg);
        else if (c == 'r')
            t.rounds = atoi(optarg);
        else
            usage();
    }
    if (!model || !cache || t.rounds < 1 || t.rounds > ROUNDS_MAX || t.threads < 1 || t.threads > 64)
        usage();
    br_log_init("bench_transfers", BR_WARN);
    if (br_weight_image_open(model, "bench", cache, BR_NUMERIC_BF16, &image, &err)) {
        fprintf(stderr, "bench_transfers: %s\n", err.msg);
        return 1;
    }
    t.image = image;
    for (size_t i = 0; i < sizeof g_parts / sizeof *g_parts; i++)
        if (!only || strcmp(only, g_parts[i].name) == 0)
            missed += g_parts[i].run(&t);
    br_weight_image_close(image);
    return missed != 0;
}
