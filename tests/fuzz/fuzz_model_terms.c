/* The input is the text of one model's terms. What is taken is within its bounds; what is refused changes nothing. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "scheduler/model_terms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct br_model_terms before = {.ttft_s = 10, .tbt_s = .1, .weight = 1};
    struct br_model_terms terms = before;
    char *text = br_malloc(size + 1);
    struct br_err err;
    memcpy(text, data, size);
    text[size] = 0;
    if (br_model_terms_parse("m", text, &terms, &err)) {
        if (memcmp(&terms, &before, sizeof terms) != 0)
            abort();
    } else if (!(terms.ttft_s >= .001 && terms.ttft_s <= 86400 && terms.tbt_s >= .0001 && terms.tbt_s <= 3600 &&
                 terms.weight >= .001 && terms.weight <= 1000))
        abort();
    free(text);
    return 0;
}
