/* Tensors of a GGUF file (github.com/ggml-org/ggml, docs/gguf.md, versions 2 and 3) under the names and shapes that the
 * same tensors have in a Hugging Face folder, so that everything behind it knows one kind of table.
 *
 * Of the metadata only what tensors need is read: the architecture (llama, qwen2, qwen3), the alignment and the head
 * counts; shape and tokenizer come from config.json and tokenizer.json beside the file. */
#ifndef BRIAREUS_WORKER_WEIGHTS_GGUF_H
#define BRIAREUS_WORKER_WEIGHTS_GGUF_H

#include "worker/weights/safetensors.h"

enum { BR_GGUF_MAX_PAIRS = 65536, BR_GGUF_MAX_RANK = 4 };

struct br_gguf_info {
    bool interleaved; /* rows of q and k are in the order that rotary pairs of neighbours want (llama) */
    uint32_t heads, kv_heads;
};

/* Parses one file's content; tensors point into data. dtype is OTHER for blocks, dtype_name says which. file must
 * outlive the table. BR_ECORRUPT: the content contradicts the format; BR_ENOTSUP: a version, byte order, architecture
 * or tensor type that is not supported, by name. */
int br_gguf_parse(const void *data, size_t size, const char *file, struct br_tensor_table *out,
                  struct br_gguf_info *info, struct br_err *err);

/* Turns what only GGUF files have into what the packer knows: rows of q and k go where Hugging Face has them, embedding
 * and head become F32 if they are blocks. *copies (owned by the caller, free()) holds what had to be written anew. */
int br_gguf_adapt(struct br_tensor_table *table, const struct br_gguf_info *info, unsigned char **copies,
                  struct br_err *err);

#endif
