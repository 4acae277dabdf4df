/* A model folder as where its units come from: opened once, checked, read in pieces past the page cache.
 *
 * The files stay open: one that is replaced by rename or removed goes on giving what it held. One that is written to in
 * place is told by br_weight_source_check, and by the checksums of units (image.h). */
#ifndef BRIAREUS_WORKER_WEIGHTS_SOURCE_H
#define BRIAREUS_WORKER_WEIGHTS_SOURCE_H

#include <stdatomic.h>

#include "worker/weights/pack_part.h"

struct br_weight_source {
    char *dir; /* owned, as are all below */
    struct br_model_shape shape;
    struct br_safetensors *st;
    struct br_packer packer;
    struct br_source_file *files; /* [st->n_files] */
    uint64_t config_hash;         /* XXH3 of config.json and generation_config.json */
    uint64_t stamp;               /* of config and of every file's device, inode, size and mtime */
    _Atomic uint64_t read_bytes;  /* from the files, since it was opened */
};

/* Memory that pieces of files are read into; may be zeroed. */
struct br_read_buffer {
    unsigned char *data; /* owned, page-aligned */
    uint64_t bytes;
};

/* Errors name file and tensor. */
int br_weight_source_open(const char *dir, enum br_numeric numeric, struct br_weight_source **out, struct br_err *err);
void br_weight_source_close(struct br_weight_source *source);

/* BR_ESTALE when a file is no longer what it was when it was opened; says which, and what to do. */
int br_weight_source_check(const struct br_weight_source *source, struct br_err *err);

/* Reads n ranges (at most BR_PART_TENSORS) and says where each begins in the buffer, which grows as needed. Past the
 * page cache (O_DIRECT) where the file system allows it. Safe from several threads with a buffer each. BR_ESTALE: a
 * file is shorter than it was. */
int br_weight_source_read(struct br_weight_source *source, const struct br_pack_range *ranges, uint32_t n,
                          struct br_read_buffer *buffer, const unsigned char **at, struct br_err *err);
bool br_weight_source_direct(const struct br_weight_source *source);     /* every file is read past the page cache */
void br_read_buffer_grow(struct br_read_buffer *buffer, uint64_t bytes); /* what is in it is lost */
void br_read_buffer_free(struct br_read_buffer *buffer);

#endif
