/* The input is a whole safetensors file. What is taken has to be readable to its last byte. */
#include <stdint.h>
#include <stdlib.h>

#include "worker/weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned g_sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_tensor_table table;
    struct br_err err;
    uint64_t total = 0;
    unsigned sum = 0;
    if (br_safetensors_parse(data, size, "input", &table, &err))
        return 0;
    for (size_t i = 0; i < table.n; i++) {
        total += table.tensors[i].bytes;
        for (uint64_t j = 0; j < table.tensors[i].bytes; j++)
            sum += table.tensors[i].data[j];
    }
    g_sink = sum;
    if (total > size)
        abort(); /* no byte belongs to two tensors */
    br_tensor_table_free(&table);
    return 0;
}
