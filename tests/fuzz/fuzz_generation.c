/* The input is a generation_config.json. What is taken is within the bounds of sampling parameters; what is refused
 * changes nothing. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/generation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_gateway_defaults d = {.given = 77};
    struct br_err err;
    if (br_generation_parse((const char *)data, size, &d, &err)) {
        if (d.given != 77)
            abort();
    } else if (!(d.temperature >= 0 && d.temperature <= 100 && d.top_p > 0 && d.top_p <= 1 && d.min_p >= 0 &&
                 d.min_p <= 1 && d.repetition_penalty > 0 && d.top_k >= 0))
        abort();
    return 0;
}
