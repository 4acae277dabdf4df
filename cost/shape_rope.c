#include "cost/shape_rope.h"

#include <stdio.h>
#include <string.h>

#include "cost/shape_limits.h"

static int rope_kind(const struct br_config *section, struct br_rope *rope, struct br_err *err)
{
    static const char *const names[] = {"default", "linear", "dynamic", "llama3", "yarn"};
    const char *key = br_config_get(section, "rope_type") ? "rope_type" : "type", *kind = "default";
    int rc = br_config_string(section, key, &kind, err);
    if (rc)
        return rc;
    for (int i = 0; i <= BR_ROPE_YARN; i++)
        if (strcmp(kind, names[i]) == 0)
            return rope->kind = (enum br_rope_kind)i, 0;
    return br_config_refuse(section, key, BR_ENOTSUP, err, "supported are default, linear, dynamic, llama3 and yarn");
}

static int rope_llama3(const struct br_config *section, struct br_rope *rope, struct br_err *err)
{
    static const char *const needed[] = {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
    int rc;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!br_config_get(section, needed[i]))
            return br_err_set(err, BR_EINVAL, "%s: %s is missing, llama3 scaling needs it", section->file, needed[i]);
    rc = br_config_number(section, "low_freq_factor", 1e-6, 1e6, &rope->low_freq_factor, err);
    return rc ? rc : br_config_number(section, "high_freq_factor", 1e-6, 1e6, &rope->high_freq_factor, err);
}

/* YaRN (Peng et al. 2023), section 3.4; mscale belongs to DeepSeek's variant, which this is not. */
static int rope_yarn(const struct br_config *section, struct br_rope *rope, struct br_err *err)
{
    int rc;
    bool truncate = true;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    if (br_config_get(section, "mscale"))
        return br_config_refuse(section, "mscale", BR_ENOTSUP, err, "not supported");
    if (br_config_get(section, "mscale_all_dim"))
        return br_config_refuse(section, "mscale_all_dim", BR_ENOTSUP, err, "not supported");
    if ((rc = br_config_bool(section, "truncate", &truncate, err)) ||
        (rc = br_config_number(section, "beta_fast", 1e-6, 1e6, &rope->beta_fast, err)) ||
        (rc = br_config_number(section, "beta_slow", 1e-6, 1e6, &rope->beta_slow, err)))
        return rc;
    if (!truncate)
        return br_config_refuse(section, "truncate", BR_ENOTSUP, err, "not supported");
    return br_config_number(section, "attention_factor", 1e-6, 1e3, &rope->attention_factor, err);
}

/* As vLLM derives the usable context: linear, dynamic and yarn extend the original one, llama3 names it itself. */
static int rope_extend(const struct br_config *section, struct br_model_shape *shape, struct br_err *err)
{
    const struct br_rope *rope = &shape->rope;
    double positions = rope->kind == BR_ROPE_YARN ? rope->original_max_positions : shape->max_positions;
    if (rope->kind == BR_ROPE_LLAMA3)
        return 0;
    positions *= rope->factor;
    if (positions > BR_SHAPE_MAX_POSITIONS)
        return br_config_refuse(section, "factor", BR_EINVAL, err, "makes %.0f positions, more than %d", positions,
                                BR_SHAPE_MAX_POSITIONS);
    shape->max_positions = (uint32_t)positions;
    return 0;
}

static int rope_scaled(const struct br_config *section, struct br_model_shape *shape, struct br_err *err)
{
    struct br_rope *rope = &shape->rope;
    int rc;
    rope->original_max_positions = shape->max_positions;
    if (!br_config_get(section, "factor"))
        return br_err_set(err, BR_EINVAL, "%s: factor is missing", section->file);
    if ((rc = br_config_number(section, "factor", 1, 4096, &rope->factor, err)) ||
        (rc = br_config_u32(section, "original_max_position_embeddings", 1, BR_SHAPE_MAX_POSITIONS,
                            &rope->original_max_positions, err)))
        return rc;
    if (rope->kind == BR_ROPE_LLAMA3)
        rc = rope_llama3(section, rope, err);
    else if (rope->kind == BR_ROPE_YARN)
        rc = rope_yarn(section, rope, err);
    return rc ? rc : rope_extend(section, shape, err);
}

static int rope_section(const struct br_config *config, const char *key, struct br_model_shape *shape,
                        struct br_err *err)
{
    char file[128];
    struct br_config section = {.object = br_config_get(config, key), .file = file};
    int rc;
    if (!section.object)
        return 0;
    if (!json_is_object(section.object))
        return br_config_refuse(config, key, BR_EINVAL, err, "must be an object or null");
    snprintf(file, sizeof file, "%s: %s", config->file, key);
    rc = br_config_number(&section, "rope_theta", 1, 1e12, &shape->rope.theta, err);
    if (!rc)
        rc = rope_kind(&section, &shape->rope, err);
    if (rc || shape->rope.kind == BR_ROPE_DEFAULT)
        return rc;
    return rope_scaled(&section, shape, err);
}

int br_shape_read_rope(const struct br_config *config, struct br_model_shape *shape, struct br_err *err)
{
    double whole = 1;
    int rc = br_config_number(config, "partial_rotary_factor", 0, 1, &whole, err);
    if (rc)
        return rc;
    if (whole < 1)
        return br_config_refuse(config, "partial_rotary_factor", BR_ENOTSUP, err, "only 1 is supported");
    shape->rope.theta = 10000;
    rc = br_config_number(config, "rope_theta", 1, 1e12, &shape->rope.theta, err);
    if (rc)
        return rc;
    if (br_config_get(config, "rope_parameters"))
        return rope_section(config, "rope_parameters", shape, err);
    return rope_section(config, "rope_scaling", shape, err);
}
