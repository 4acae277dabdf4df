/* The input is a config.json, optionally a zero byte and a generation_config.json. What is taken has to be within the
 * limits that everything behind relies on: the layout's sizes must not overflow. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cost/shape_limits.h"
#include "worker/weights/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *config = (const char *)data, *zero = size ? memchr(data, 0, size) : NULL;
    size_t config_len = zero ? (size_t)(zero - config) : size;
    struct br_model_shape shape;
    struct br_model_layout layout;
    struct br_err err;
    uint64_t bytes;
    if (br_model_shape_parse(config, config_len, zero ? zero + 1 : NULL, zero ? size - config_len - 1 : 0, &shape,
                             &err))
        return 0;
    if (br_model_shape_check(&shape, &err))
        abort();
    br_model_layout_init(&layout, &shape, BR_NUMERIC_F32, NULL);
    bytes = br_layout_total_bytes(&layout);
    if (bytes < 4 * br_model_params(&shape) || bytes >= 1ull << 62 || !br_kv_block_bytes(&shape, BR_NUMERIC_BF16))
        abort();
    return 0;
}
