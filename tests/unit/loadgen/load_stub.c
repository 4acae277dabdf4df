/* The scripted server as a program, for runs by hand: load_stub stream|whole FIRST_US GAP_US BATCH; prints its URL,
 * serves until its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/loadgen/stub.h"

int main(int argc, char **argv)
{
    uint32_t first = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    struct stub_script script = {.kind = argc > 1 && strcmp(argv[1], "whole") == 0 ? STUB_WHOLE : STUB_STREAM,
                                 .first_us = &first,
                                 .n_first = 1,
                                 .gap_us = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
                                 .batch = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 1,
                                 .tokenize = true};
    struct stub *stub = stub_start(&script);
    printf("%s\n", stub_url(stub));
    fflush(stdout);
    while (getchar() != EOF)
        ;
    stub_stop(stub);
    return 0;
}
