#include "cost/quant.h"

#include <string.h>

#include "cost/config_field.h"

#define SUPPORTED                                                                                                      \
    "supported are awq (gemm, 4 bits), gptq (4 and 8 bits), fp8 (e4m3) and compressed-tensors float-quantized"

const char *br_quant_method_name(enum br_quant_method method)
{
    static const char *const names[BR_QUANT_METHODS] = {"none", "awq", "gptq", "fp8"};
    return names[method];
}

/* A string key that has to be one of two (the first also when absent). */
static int need_one_of(const struct br_config *c, const char *key, const char *first, const char *second,
                       const char **out, struct br_err *err)
{
    int rc;
    *out = first;
    if ((rc = br_config_string(c, key, out, err)))
        return rc;
    if (strcmp(*out, first) == 0 || (second && strcmp(*out, second) == 0))
        return 0;
    return br_config_refuse(c, key, BR_ENOTSUP, err, "supported is %s%s%s", first, second ? " or " : "",
                            second ? second : "");
}

static int read_group(const struct br_config *c, struct br_quant_config *q, struct br_err *err)
{
    int rc = br_config_need_u32(c, "group_size", 1 << 16, &q->group, err);
    if (rc)
        return br_config_refuse(c, "group_size", BR_ENOTSUP, err, "supported are groups of 32, 64 and 128");
    if (q->group != 32 && q->group != 64 && q->group != 128)
        return br_config_refuse(c, "group_size", BR_ENOTSUP, err, "supported are 32, 64 and 128");
    return 0;
}

static int read_awq(const struct br_config *c, struct br_quant_config *q, struct br_err *err)
{
    const char *version;
    bool zero_point = true;
    int rc;
    q->method = BR_QUANT_AWQ;
    if ((rc = br_config_need_u32(c, "bits", 32, &q->bits, err)) || (rc = read_group(c, q, err)) ||
        (rc = need_one_of(c, "version", "gemm", "GEMM", &version, err)) ||
        (rc = br_config_bool(c, "zero_point", &zero_point, err)))
        return rc;
    if (q->bits != 4)
        return br_config_refuse(c, "bits", BR_ENOTSUP, err, "awq is supported with 4 bits");
    return zero_point ? 0 : br_config_refuse(c, "zero_point", BR_ENOTSUP, err, "awq is supported with zero points");
}

static int read_gptq(const struct br_config *c, struct br_quant_config *q, struct br_err *err)
{
    const char *format;
    int rc;
    q->method = BR_QUANT_GPTQ;
    if ((rc = br_config_need_u32(c, "bits", 32, &q->bits, err)) || (rc = read_group(c, q, err)) ||
        (rc = need_one_of(c, "checkpoint_format", "gptq", "gptq_v2", &format, err)))
        return rc;
    q->zero_plus_one = strcmp(format, "gptq") == 0;
    if (q->bits != 4 && q->bits != 8)
        return br_config_refuse(c, "bits", BR_ENOTSUP, err, "gptq is supported with 4 or 8 bits");
    return 0;
}

/* [outputs, inputs] of a block; absent: none. */
static int read_block(const struct br_config *c, const char *key, struct br_quant_config *q, struct br_err *err)
{
    const json_t *list = br_config_get(c, key), *n = json_array_get(list, 0), *k = json_array_get(list, 1);
    if (!list)
        return 0;
    if (json_array_size(list) != 2 || json_integer_value(n) != 128 || json_integer_value(k) != 128)
        return br_config_refuse(c, key, BR_ENOTSUP, err, "supported is [128, 128]");
    q->block_n = q->block_k = 128;
    return 0;
}

static int read_fp8(const struct br_config *c, struct br_quant_config *q, struct br_err *err)
{
    const char *fmt, *scheme;
    int rc;
    q->method = BR_QUANT_FP8;
    q->bits = 8;
    if ((rc = need_one_of(c, "fmt", "e4m3", NULL, &fmt, err)) ||
        (rc = need_one_of(c, "activation_scheme", "dynamic", "static", &scheme, err)))
        return rc;
    return read_block(c, "weight_block_size", q, err);
}

/* config_groups.X.weights */
static int read_group_weights(const struct br_config *c, struct br_quant_config *q, struct br_err *err)
{
    const char *type, *strategy = "tensor";
    uint32_t bits = 8;
    int rc;
    if ((rc = need_one_of(c, "type", "float", NULL, &type, err)) ||
        (rc = br_config_u32(c, "num_bits", 1, 32, &bits, err)) ||
        (rc = br_config_string(c, "strategy", &strategy, err)) || (rc = read_block(c, "block_structure", q, err)))
        return rc;
    if (bits != 8)
        return br_config_refuse(c, "num_bits", BR_ENOTSUP, err, "float-quantized is supported with 8 bits");
    if (strcmp(strategy, "tensor") != 0 && strcmp(strategy, "channel") != 0 && strcmp(strategy, "block") != 0)
        return br_config_refuse(c, "strategy", BR_ENOTSUP, err, "supported are tensor, channel and block");
    if (strcmp(strategy, "block") == 0 && !q->block_n)
        return br_config_refuse(c, "strategy", BR_EINVAL, err, "block_structure is missing");
    return 0;
}

static int read_compressed(const struct br_config *c, struct br_quant_config *q, struct br_err *err)
{
    struct br_config inner = {.file = "config.json: quantization_config.config_groups.weights"};
    const json_t *groups = br_config_get(c, "config_groups");
    const char *format;
    void *at;
    int rc = need_one_of(c, "format", "float-quantized", NULL, &format, err);
    q->method = BR_QUANT_FP8;
    q->bits = 8;
    if (rc)
        return rc;
    if (!json_is_object(groups) || !json_object_size(groups))
        return br_config_refuse(c, "config_groups", BR_EINVAL, err, "must be an object of groups");
    for (at = json_object_iter((json_t *)groups); at && !rc; at = json_object_iter_next((json_t *)groups, at)) {
        inner.object = json_object_get(json_object_iter_value(at), "weights");
        if (!json_is_object(inner.object))
            return br_config_refuse(c, "config_groups", BR_EINVAL, err, "a group without weights");
        rc = read_group_weights(&inner, q, err);
    }
    return rc;
}

int br_quant_config_read(const struct br_config *config, struct br_quant_config *out, struct br_err *err)
{
    static const struct {
        const char *name;
        int (*read)(const struct br_config *, struct br_quant_config *, struct br_err *);
    } methods[] = {{"awq", read_awq}, {"gptq", read_gptq}, {"fp8", read_fp8}, {"compressed-tensors", read_compressed}};
    struct br_config c = {.object = br_config_get(config, "quantization_config"),
                          .file = "config.json: quantization_config"};
    const char *name = NULL;
    int rc;
    if (!c.object)
        return 0;
    if (!json_is_object(c.object))
        return br_config_refuse(config, "quantization_config", BR_EINVAL, err, "must be an object");
    if ((rc = br_config_string(&c, "quant_method", &name, err)))
        return rc;
    for (size_t i = 0; name && i < sizeof methods / sizeof methods[0]; i++)
        if (strcmp(name, methods[i].name) == 0)
            return methods[i].read(&c, out, err);
    return br_config_refuse(&c, "quant_method", BR_ENOTSUP, err, SUPPORTED);
}
