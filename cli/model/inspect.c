#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/model/commands.h"
#include "text/chat.h"
#include "text/tokenizer.h"
#include "worker/weights/image_file.h"
#include "worker/weights/pack.h"

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    const char **dir = state->input;
    if (key == ARGP_KEY_ARG && !*dir)
        return *dir = arg, 0;
    if (key == ARGP_KEY_END && !*dir)
        argp_error(state, "a model folder is needed");
    return ARGP_ERR_UNKNOWN;
}

static void print_rope(const struct br_rope *r)
{
    static const char *const kinds[] = {"default", "linear", "dynamic", "llama3", "yarn"};
    printf("rope              %s, theta %g", kinds[r->kind], r->theta);
    if (r->kind != BR_ROPE_DEFAULT)
        printf(", factor %g over %u positions", r->factor, r->original_max_positions);
    printf("\n");
}

static void print_quant(const struct br_quant_config *q)
{
    printf("quantisation      %s", br_quant_method_name(q->method));
    if (q->method != BR_QUANT_NONE)
        printf(", %u bits", q->bits);
    if (q->group)
        printf(", groups of %u", q->group);
    if (q->block_n)
        printf(", blocks of %u x %u", q->block_n, q->block_k);
    printf("\n");
}

static void print_shape(const struct br_model_shape *s)
{
    static const char *const archs[] = {"llama", "qwen2", "qwen3"}, *const dtypes[] = {"float32", "float16",
                                                                                       "bfloat16"};
    printf("architecture      %s%s%s%s\n", archs[s->arch], s->tied ? ", tied head" : "",
           s->qkv_bias ? ", qkv bias" : "", s->qk_norm ? ", qk norm" : "");
    printf("layers            %u x %u wide, ffn %u\n", s->layers, s->hidden, s->ffn);
    printf("attention         %u heads of %u, %u key/value heads\n", s->heads, s->head_dim, s->kv_heads);
    printf("vocabulary        %u\n", s->vocab);
    printf("context           %u positions\n", s->max_positions);
    print_rope(&s->rope);
    print_quant(&s->quant);
    printf("config dtype      %s\n", dtypes[s->dtype]);
    printf("end ids          ");
    for (uint32_t i = 0; i < s->n_eos; i++)
        printf(" %d", s->eos[i]);
    printf("%s\n", s->n_eos ? "" : " none");
    printf("parameters        %" PRIu64 "\n", br_model_params(s));
    printf("KV per token      %" PRIu64 " bytes in bfloat16, %" PRIu64 " in float32\n",
           br_kv_block_bytes(s, BR_NUMERIC_BF16) / BR_KV_BLOCK_TOKENS,
           br_kv_block_bytes(s, BR_NUMERIC_F32) / BR_KV_BLOCK_TOKENS);
}

static void print_formats(const struct br_model_layout *m)
{
    static const char *const names[] = {"qkv", "o", "gate and up", "down"};
    static const char *const codes[] = {"", "4-bit codes", "8-bit codes", "E4M3 numbers"};
    for (int i = 0; i < BR_MATRICES; i++) {
        const struct br_matrix_format *f = &m->format[i];
        if (!f->code)
            continue;
        printf("%-17s %s, %s", names[i], codes[f->code], f->wide ? "F32 scales" : "F16 scales");
        if (f->group)
            printf(" of groups of %u", f->group);
        printf("%s%s\n", f->zeros ? ", zero points" : "", f->indexed ? ", act order" : "");
    }
}

static int print_weights(const char *dir, const struct br_model_shape *shape, struct br_err *err)
{
    struct br_safetensors *st;
    struct br_packer packer;
    uint64_t bytes = 0;
    int rc = br_safetensors_open(dir, &st, err);
    if (rc)
        return rc;
    rc = br_packer_init(&packer, st, shape, BR_NUMERIC_AUTO, err);
    for (size_t i = 0; i < st->n_files; i++)
        bytes += st->files[i].bytes;
    printf("files             %zu, %" PRIu64 " bytes, %zu tensors\n", st->n_files, bytes, st->table.n);
    if (!rc) {
        printf("served in         %s\n", br_numeric_name(packer.layout.numeric));
        print_formats(&packer.layout);
        printf("image             %" PRIu64 " bytes\n", br_image_file_bytes(&packer.layout));
        br_packer_free(&packer);
    }
    br_safetensors_close(st);
    return rc;
}

static void print_chat(const char *dir)
{
    static const char *const formats[] = {"chatml", "llama3"};
    struct br_chat_template chat;
    struct br_buf text = {0};
    struct br_err err;
    char path[4096];
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    if (br_chat_template_from_config(path, &text, &err) || br_chat_detect(text.data, NULL, &chat, &err))
        printf("chat format       none: %s\n", err.msg);
    else
        printf("chat format       %s\n", formats[chat.format]);
    br_buf_free(&text);
}

static int print_tokenizer(const char *dir, struct br_err *err)
{
    struct br_tokenizer *tokenizer;
    int32_t special = 0, n;
    char path[4096];
    int rc;
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    rc = br_tokenizer_load(path, &tokenizer, err);
    if (rc)
        return br_err_wrap(err, "%s", path);
    n = br_tokenizer_vocab_size(tokenizer);
    for (int32_t id = 0; id < n; id++)
        special += br_tokenizer_is_special(tokenizer, id);
    printf("tokenizer         %d ids, %d of them special\n", n, special);
    br_tokenizer_free(tokenizer);
    print_chat(dir);
    return 0;
}

int br_model_inspect(int argc, char **argv)
{
    static const struct argp argp = {.parser = parse_option,
                                     .args_doc = "DIR",
                                     .doc = "Prints what a model folder holds and what serving it takes."};
    const char *dir = NULL;
    struct br_model_shape shape;
    struct br_err err;
    bool config, tokenizer;
    int rc = br_model_parse(&argp, argc, argv, &dir);
    if (rc)
        return rc;
    config = br_model_has_file(dir, "config.json");
    tokenizer = br_model_has_file(dir, "tokenizer.json");
    if (config || !tokenizer) {
        rc = br_model_shape_load(dir, &shape, &err);
        if (!rc) {
            print_shape(&shape);
            rc = print_weights(dir, &shape, &err);
        }
        if (rc)
            fprintf(stderr, "%s\n", err.msg);
    }
    if (!tokenizer)
        printf("tokenizer         none: no tokenizer.json\n");
    else if (print_tokenizer(dir, &err))
        rc = fprintf(stderr, "%s\n", err.msg);
    return rc ? 1 : 0;
}
