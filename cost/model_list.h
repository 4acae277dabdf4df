/* Models known by their shape alone: a list in a file (YAML, or JSON, which is YAML too).
 *
 *   models:                        # or the list alone
 *     - name: qwen72b              # with count: qwen72b-0, qwen72b-1, ...
 *       catalogue: Qwen2.5-72B     # or config: a config.json, or the folder that has one
 *       weights: int4              # bf16 (default), fp8, int8, int4
 *       kv: bf16                   # bf16 (default), fp8
 *       count: 40                  # 1 (default) to 1000
 *       context: 32768             # positions; default: config.json's, 32768 for the catalogue
 *       ttft: 10s                  # SLO; default: the server's
 *       tbt: 100ms
 *       weight: 1                  # of its sequences beside others', .001 to 1000
 *       pinned: false              # its weights stay on a device once they are there
 *       tokenizer: DIR             # a tokenizer.json, or the folder that has one; default: one token a byte
 *
 * Paths are relative to the file's folder. */
#ifndef BRIAREUS_COST_MODEL_LIST_H
#define BRIAREUS_COST_MODEL_LIST_H

#include "cost/catalogue.h"

enum {
    BR_MODEL_LIST_MAX_BYTES = 1 << 20,
    BR_MODEL_LIST_MAX = 4096, /* models, counts included */
    BR_MODEL_LIST_MAX_COUNT = 1000,
    BR_MODEL_LIST_NAME = 128, /* bytes of a name, its end included */
    BR_MODEL_LIST_CONTEXT = 32768,
};

struct br_model_entry {
    char name[BR_MODEL_LIST_NAME];
    struct br_footprint footprint;
    uint32_t context;     /* positions of one sequence */
    double ttft_s, tbt_s; /* SLO; 0: not given */
    double weight;        /* 0: not given */
    bool pinned;
    char *tokenizer; /* owned; path of a tokenizer.json; NULL: one token a byte */
};

struct br_model_list {
    struct br_model_entry *entries; /* owned */
    uint32_t n;
};

/* Errors: BR_ENOENT, BR_EIO (the file, or a config.json that it names); BR_EINVAL with file, line, key and value, and
 * the nearest known word where one is unknown; a name twice; no models. Nothing is in *out then. */
int br_model_list_read(const char *path, struct br_model_list *out, struct br_err *err);
/* The same from text; `file` is for messages, paths are relative to its folder. */
int br_model_list_parse(const char *text, size_t len, const char *file, struct br_model_list *out, struct br_err *err);
void br_model_list_free(struct br_model_list *list);

/* What a Hugging Face folder (config.json) is as an entry: 16-bit weights and KV, its own tokenizer.json. */
int br_model_entry_of_dir(const char *name, const char *dir, struct br_model_entry *out, struct br_err *err);

#endif
