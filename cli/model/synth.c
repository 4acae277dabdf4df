#include "cli/model/synth.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/model/commands.h"
#include "cost/shape_limits.h"

struct options {
    struct br_synth_options synth;
    bool force;
};

enum {
    OPT_ARCH = 256,
    OPT_HIDDEN,
    OPT_FFN,
    OPT_LAYERS,
    OPT_HEADS,
    OPT_KV_HEADS,
    OPT_HEAD_DIM,
    OPT_VOCAB,
    OPT_POSITIONS,
    OPT_TIED,
    OPT_SEED,
    OPT_DTYPE,
    OPT_QUANTISE,
    OPT_TWIN,
    OPT_FORCE
};

static const struct argp_option g_options[] = {
    {"arch", OPT_ARCH, "NAME", 0, "llama, qwen2 (default) or qwen3", 0},
    {"hidden", OPT_HIDDEN, "N", 0, "width (256)", 0},
    {"ffn", OPT_FFN, "N", 0, "width of the MLP (3 x hidden)", 0},
    {"layers", OPT_LAYERS, "N", 0, "layers (4)", 0},
    {"heads", OPT_HEADS, "N", 0, "query heads (4)", 0},
    {"kv-heads", OPT_KV_HEADS, "N", 0, "key/value heads (2)", 0},
    {"head-dim", OPT_HEAD_DIM, "N", 0, "width of a head (hidden / heads)", 0},
    {"vocab", OPT_VOCAB, "N", 0, "ids, 259 or more (512)", 0},
    {"max-positions", OPT_POSITIONS, "N", 0, "context (4096)", 0},
    {"tied", OPT_TIED, NULL, 0, "the head is the embedding", 0},
    {"seed", OPT_SEED, "N", 0, "same seed, same bytes (1)", 0},
    {"dtype", OPT_DTYPE, "TYPE", 0, "bfloat16 (default), float16 or float32", 0},
    {"quantization", OPT_QUANTISE, "METHOD", 0, "awq, gptq, gptq-int8 or fp8: of the layers' matrices", 0},
    {"dequantized", OPT_TWIN, NULL, 0, "the numbers that --quantization stands for, as --dtype says", 0},
    {"force", OPT_FORCE, NULL, 0, "write into a folder that is not empty, over a model that is there", 0},
    {0},
};

static uint32_t parse_name(const char *option, const char *arg, const char *const *names, uint32_t n,
                           struct argp_state *state)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(arg, names[i]) == 0)
            return i;
    argp_error(state, "--%s %s is not known", option, arg);
    return 0;
}

static uint64_t parse_seed(const char *arg, struct argp_state *state)
{
    char *end;
    unsigned long long seed = strtoull(arg, &end, 10);
    if (end == arg || *end)
        argp_error(state, "--seed %s: must be a number", arg);
    return seed;
}

static uint32_t *size_of_option(struct br_model_shape *s, int key)
{
    uint32_t *const sizes[] = {&s->hidden,   &s->ffn,      &s->layers, &s->heads,
                               &s->kv_heads, &s->head_dim, &s->vocab,  &s->max_positions};
    return key >= OPT_HIDDEN && key <= OPT_POSITIONS ? sizes[key - OPT_HIDDEN] : NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3"}, *const dtypes[] = {"float32", "float16",
                                                                                       "bfloat16"};
    struct options *all = state->input;
    struct br_synth_options *o = &all->synth;
    uint32_t *size = size_of_option(&o->shape, key);
    if (size)
        return *size = br_model_parse_u32(g_options[key - OPT_ARCH].name, arg, 1, 1u << 30, state), 0;
    switch (key) {
    case OPT_ARCH:
        return o->shape.arch = (enum br_arch)parse_name("arch", arg, archs, 3, state), 0;
    case OPT_DTYPE:
        return o->shape.dtype = (enum br_dtype)parse_name("dtype", arg, dtypes, 3, state), 0;
    case OPT_QUANTISE:
        return o->quant = 1 + (enum br_synth_quant)parse_name("quantization", arg, br_synth_quant_names, 4, state), 0;
    case OPT_TWIN:
        return o->dequantised = true, 0;
    case OPT_TIED:
        return o->shape.tied = true, 0;
    case OPT_SEED:
        return o->seed = parse_seed(arg, state), 0;
    case OPT_FORCE:
        return all->force = true, 0;
    case ARGP_KEY_ARG:
        if (o->dir)
            argp_error(state, "one folder at a time");
        return o->dir = arg, 0;
    case ARGP_KEY_END:
        if (!o->dir)
            argp_error(state, "a folder to write is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int br_synth_text(const char *dir, const char *name, const char *text, size_t len, struct br_err *err)
{
    char path[4096];
    FILE *f;
    bool written;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    f = fopen(path, "wb");
    if (!f)
        return br_err_errno(err, BR_EIO, "%s", path);
    written = fwrite(text, 1, len, f) == len;
    if (fclose(f) != 0 || !written)
        return br_err_errno(err, BR_EIO, "%s", path);
    return 0;
}

static int write_config(const struct br_synth_options *o, struct br_err *err)
{
    static const char *const archs[] = {"Llama", "Qwen2", "Qwen3"}, *const types[] = {"llama", "qwen2", "qwen3"};
    static const char *const dtypes[] = {"float32", "float16", "bfloat16"};
    const struct br_model_shape *s = &o->shape;
    struct br_buf text = {0};
    int rc;
    br_buf_printf(&text,
                  "{\n \"architectures\": [\"%sForCausalLM\"],\n \"model_type\": \"%s\",\n \"hidden_size\": %u,\n"
                  " \"intermediate_size\": %u,\n \"num_hidden_layers\": %u,\n \"num_attention_heads\": %u,\n"
                  " \"num_key_value_heads\": %u,\n \"head_dim\": %u,\n \"vocab_size\": %u,\n"
                  " \"max_position_embeddings\": %u,\n \"rms_norm_eps\": 1e-06,\n \"rope_theta\": 1000000.0,\n"
                  " \"hidden_act\": \"silu\",\n \"tie_word_embeddings\": %s,\n \"bos_token_id\": %d,\n"
                  " \"eos_token_id\": %d,\n \"torch_dtype\": \"%s\"%s\n}\n",
                  archs[s->arch], types[s->arch], s->hidden, s->ffn, s->layers, s->heads, s->kv_heads, s->head_dim,
                  s->vocab, s->max_positions, s->tied ? "true" : "false", BR_SYNTH_BOS, BR_SYNTH_EOS, dtypes[s->dtype],
                  br_synth_quant_config(o));
    rc = br_synth_text(o->dir, "config.json", text.data, text.len, err);
    br_buf_free(&text);
    return rc;
}

static int shape_complete(struct br_synth_options *o, struct br_err *err)
{
    struct br_model_shape *s = &o->shape;
    int rc;
    s->qkv_bias = s->arch == BR_ARCH_QWEN2;
    s->qk_norm = s->arch == BR_ARCH_QWEN3;
    s->ffn = s->ffn ? s->ffn : 3 * s->hidden;
    if (!s->head_dim && s->hidden % s->heads)
        return br_err_set(err, BR_EINVAL, "--hidden %u is no multiple of --heads %u: give --head-dim", s->hidden,
                          s->heads);
    s->head_dim = s->head_dim ? s->head_dim : s->hidden / s->heads;
    if (s->vocab < BR_SYNTH_MIN_VOCAB)
        return br_err_set(err, BR_EINVAL, "--vocab %u: the byte-level tokenizer needs %d", s->vocab,
                          BR_SYNTH_MIN_VOCAB);
    if ((o->quant || o->dequantised) && (rc = br_synth_quant_check(o, err)))
        return rc;
    return br_model_shape_check(s, err);
}

/* Nobody's model is overwritten by a mistyped name. */
static int check_empty(const char *dir, struct br_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;
    if (!d)
        return br_err_errno(err, BR_EIO, "%s", dir);
    while (!rc && (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = br_err_set(err, BR_EINVAL, "%s is not empty (it holds %s): name a new folder, or --force to overwrite",
                            dir, e->d_name);
    closedir(d);
    return rc;
}

static int synth(struct options *all, struct br_err *err)
{
    struct br_synth_options *o = &all->synth;
    int rc = shape_complete(o, err);
    if (rc)
        return rc;
    if (mkdir(o->dir, 0777) < 0 && errno != EEXIST)
        return br_err_errno(err, BR_EIO, "%s", o->dir);
    if (!all->force && (rc = check_empty(o->dir, err)))
        return rc;
    if ((rc = write_config(o, err)) || (rc = br_synth_tokenizer(o->dir, err)))
        return rc;
    return br_synth_weights(o, err);
}

int br_model_synth(int argc, char **argv)
{
    static const struct argp argp = {.options = g_options,
                                     .parser = parse_option,
                                     .args_doc = "DIR",
                                     .doc = "Writes a model of random weights with a byte-level tokenizer and the "
                                            "ChatML template: for tests and measurements. It babbles."};
    struct options o = {.synth = {.seed = 1}};
    struct br_err err;
    int rc;
    o.synth.shape = (struct br_model_shape){.arch = BR_ARCH_QWEN2,
                                            .dtype = BR_BF16,
                                            .hidden = 256,
                                            .layers = 4,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .vocab = 512,
                                            .max_positions = 4096,
                                            .rms_eps = 1e-6f,
                                            .rope = {.theta = 1e6},
                                            .bos = BR_SYNTH_BOS,
                                            .eos = {BR_SYNTH_EOS},
                                            .n_eos = 1};
    rc = br_model_parse(&argp, argc, argv, &o);
    if (rc)
        return rc;
    if (synth(&o, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    printf("%s: %" PRIu64 " parameters\n", o.synth.dir, br_model_params(&o.synth.shape));
    return 0;
}
