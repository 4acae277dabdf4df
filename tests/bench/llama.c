/* The package has no headers. Its calling interface is plain C: parameter structs are returned and passed in memory, so
 * a block that is larger than the struct serves for any version; of their fields only the context's first is
 * set here (its neighbours are checked against their defaults). */
#include "tests/bench/llama.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"

union params {
    struct {
        uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
    } context;
    uint64_t block[64];
};

struct llama_batch {
    int32_t n_tokens;
    int32_t *token;
    void *embd, *pos, *n_seq_id, *seq_id, *logits;
};

struct llama {
    void *lib, *ggml, *model, *context;
    int (*decode)(void *context, struct llama_batch batch);
    struct llama_batch (*batch_get_one)(int32_t *tokens, int32_t n);
    float *(*get_logits)(void *context, int32_t i);
    void *(*get_memory)(void *context);
    void (*memory_clear)(void *memory, bool data);
};

static void *open_lib(const char *dir, const char *pattern, struct br_err *err)
{
    char path[1024];
    glob_t found = {0};
    snprintf(path, sizeof path, "%s/%s", dir, pattern);
    void *lib = glob(path, 0, NULL, &found) == 0 ? dlopen(found.gl_pathv[0], RTLD_NOW | RTLD_GLOBAL) : NULL;
    if (!lib)
        br_err_set(err, BR_ENOENT, "cannot open %s: %s", path, found.gl_pathc ? dlerror() : "no such file");
    globfree(&found);
    return lib;
}

static void silent(int level, const char *text, void *user)
{
    (void)level, (void)text, (void)user;
}

static void *symbol(void *lib, const char *name)
{
    void *at = dlsym(lib, name);
    if (!at) {
        fprintf(stderr, "llama.cpp has no %s\n", name);
        exit(1);
    }
    return at;
}

static int load(struct llama *l, const char *lib_dir, const char *gguf, int32_t threads, uint32_t n_ctx,
                struct br_err *err)
{
    void (*log_set)(void (*)(int, const char *, void *), void *) = symbol(l->lib, "llama_log_set");
    void (*load_backends)(const char *) = symbol(l->ggml, "ggml_backend_load_all_from_path");
    union params (*model_defaults)(void) = symbol(l->lib, "llama_model_default_params");
    union params (*context_defaults)(void) = symbol(l->lib, "llama_context_default_params");
    void *(*model_load)(const char *, union params) = symbol(l->lib, "llama_model_load_from_file");
    void *(*context_new)(void *, union params) = symbol(l->lib, "llama_init_from_model");
    void (*set_threads)(void *, int32_t, int32_t) = symbol(l->lib, "llama_set_n_threads");
    log_set(silent, NULL);
    load_backends(lib_dir);
    l->model = model_load(gguf, model_defaults());
    union params p = context_defaults();
    if (!l->model)
        return br_err_set(err, BR_EIO, "llama.cpp cannot load %s", gguf);
    if (p.context.n_batch != 2048 || p.context.n_ubatch != 512 || p.context.n_seq_max != 1)
        return br_err_set(err, BR_ENOTSUP, "llama.cpp's context parameters are not laid out as expected");
    p.context.n_ctx = n_ctx;
    l->context = context_new(l->model, p);
    if (!l->context)
        return br_err_set(err, BR_EIO, "llama.cpp cannot make a context");
    set_threads(l->context, threads, threads);
    return 0;
}

int llama_open(const char *lib_dir, const char *gguf, int32_t threads, uint32_t context, struct llama **out,
               struct br_err *err)
{
    struct llama *l = br_calloc(1, sizeof *l);
    if (!open_lib(lib_dir, "libggml-base*.so", err) || !(l->ggml = open_lib(lib_dir, "libggml.*so", err)) ||
        !(l->lib = open_lib(lib_dir, "libllama.*so", err)) || load(l, lib_dir, gguf, threads, context, err)) {
        free(l);
        return err->code;
    }
    l->decode = symbol(l->lib, "llama_decode");
    l->batch_get_one = symbol(l->lib, "llama_batch_get_one");
    l->get_logits = symbol(l->lib, "llama_get_logits_ith");
    l->get_memory = symbol(l->lib, "llama_get_memory");
    l->memory_clear = symbol(l->lib, "llama_memory_clear");
    *out = l;
    return 0;
}

void llama_close(struct llama *l)
{
    ((void (*)(void *))symbol(l->lib, "llama_free"))(l->context);
    ((void (*)(void *))symbol(l->lib, "llama_model_free"))(l->model);
    free(l);
}

static int run(struct llama *l, const int32_t *ids, int32_t n, struct br_err *err)
{
    if (l->decode(l->context, l->batch_get_one((int32_t *)ids, n)) || !l->get_logits(l->context, -1))
        return br_err_set(err, BR_EIO, "llama.cpp failed to run %d tokens", n);
    return 0;
}

int llama_prefill(struct llama *l, const int32_t *ids, int32_t tokens, double *tokens_per_s, struct br_err *err)
{
    l->memory_clear(l->get_memory(l->context), true);
    double start = br_now_s();
    if (run(l, ids, tokens, err))
        return err->code;
    *tokens_per_s = tokens / (br_now_s() - start);
    return 0;
}

int llama_decode_each(struct llama *l, const int32_t *ids, int32_t tokens, double *tokens_per_s, struct br_err *err)
{
    double start = br_now_s();
    for (int32_t i = 0; i < tokens; i++)
        if (run(l, ids + i, 1, err))
            return err->code;
    *tokens_per_s = tokens / (br_now_s() - start);
    return 0;
}
