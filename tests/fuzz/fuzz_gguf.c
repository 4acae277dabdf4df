/* The input is a whole GGUF file. What is taken has to be readable to its last byte, before and after it is adapted. */
#include <stdint.h>
#include <stdlib.h>

#include "worker/weights/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned g_sink;

static uint64_t read_all(const struct br_tensor_table *table)
{
    uint64_t total = 0;
    unsigned sum = 0;
    for (size_t i = 0; i < table->n; i++) {
        total += table->tensors[i].bytes;
        for (uint64_t j = 0; j < table->tensors[i].bytes; j++)
            sum += table->tensors[i].data[j];
    }
    g_sink = sum;
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_tensor_table table;
    struct br_gguf_info info;
    struct br_err err;
    unsigned char *copies;
    if (br_gguf_parse(data, size, "input", &table, &info, &err))
        return 0;
    if (read_all(&table) > size)
        abort(); /* no byte belongs to two tensors */
    if (br_gguf_adapt(&table, &info, &copies, &err) == 0)
        read_all(&table);
    free(copies);
    br_tensor_table_free(&table);
    return 0;
}
