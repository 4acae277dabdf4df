/* The input is a file of conversations. What is taken are pairs of lengths within the limits. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "traffic/lengths.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_sharegpt_options options = {0};
    struct br_length_sample sample;
    struct br_err err = {0};
    FILE *stream;
    if (!size)
        return 0;
    stream = fmemopen((void *)(uintptr_t)data, size, "r");
    if (br_length_sample_sharegpt_read(&sample, stream, "input", &options, &err) == 0) {
        if (!sample.n)
            abort();
        for (size_t i = 0; i < sample.n; i++)
            if (!sample.pairs[i][0] || !sample.pairs[i][1] || sample.pairs[i][0] > size || sample.pairs[i][1] > size)
                abort();
    } else if (!err.msg[0] || sample.pairs) {
        abort();
    }
    br_length_sample_free(&sample);
    fclose(stream);
    return 0;
}
