/* The input is a whole file of models. What is taken has names that are unique and sizes that can be worked with. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cost/model_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void entry_check(const struct br_model_entry *e)
{
    if (!e->name[0] || !e->context || !(e->footprint.weight_bytes > 0) || !isfinite(e->footprint.weight_bytes) ||
        !(e->footprint.kv_bytes_per_token > 0) || e->ttft_s < 0 || e->tbt_s < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct br_model_list list;
    struct br_err err;
    if (br_model_list_parse((const char *)data, size, "input", &list, &err))
        return 0;
    if (list.n == 0 || list.n > BR_MODEL_LIST_MAX)
        abort();
    for (uint32_t i = 0; i < list.n; i++) {
        entry_check(&list.entries[i]);
        for (uint32_t k = 0; k < i && k < 8; k++)
            if (strcmp(list.entries[i].name, list.entries[k].name) == 0)
                abort();
    }
    br_model_list_free(&list);
    return 0;
}
