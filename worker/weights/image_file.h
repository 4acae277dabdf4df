/* The file format of a weight image: header, unit table, and a record of each unit's state. Private to worker/weights
 * and its tests. */
#ifndef BRIAREUS_WORKER_WEIGHTS_IMAGE_FILE_H
#define BRIAREUS_WORKER_WEIGHTS_IMAGE_FILE_H

#include <stdatomic.h>

#include "worker/weights/layout.h"

#define BR_IMAGE_MAGIC 0x32544847494557ull    /* "WEIGHT2" */
#define BR_IMAGE_COMMIT 0x44455454494d4d43ull /* "CMMITTED" */

struct br_image_unit {
    uint64_t offset, bytes;
};

/* Fixed when the file is made. header_bytes: up to the first unit, the states included. */
struct br_image_header {
    uint64_t magic;
    uint32_t layout_version, header_bytes;
    uint32_t shape_bytes, units;
    uint64_t file_bytes;
    uint32_t numeric, tp_rank, tp_size, states_at;
    uint64_t config_hash;
    struct br_model_shape shape;
    struct br_matrix_format format[BR_MATRICES];
    uint64_t checksum;           /* XXH3 of the header above and of the unit table */
    uint64_t stamp;              /* of the source files; a hint, not covered by the checksum */
    uint64_t commit;             /* written last */
    struct br_image_unit unit[]; /* [units] */
};

/* Anything but ABSENT and PRESENT: a process, of that number less BR_UNIT_FILLING, is at it. */
enum { BR_UNIT_ABSENT = 0, BR_UNIT_FILLING = 1000, BR_UNIT_PRESENT = 0x50524553 };

/* A unit's, changed by any process that shares the file. The word `state` commits the unit's bytes. */
struct br_image_state {
    _Atomic uint32_t state;
    uint32_t reserved;
    _Atomic uint64_t users, resident; /* a bit for each device process: reads it now; has it on its device */
    _Atomic int64_t verified_ns;      /* when its checksum was last found right, on the monotonic clock */
    _Atomic uint64_t checksum;        /* of the unit, once it was packed for the first time; kept when it is dropped */
    _Atomic uint64_t content;         /* of the tensors it was packed from */
    _Atomic uint64_t seal;            /* of checksum and content: they are as they were written */
    uint64_t spare;
};

/* A multiple of 4096 that holds the unit table and the states. */
uint32_t br_image_header_bytes(uint32_t units);
/* Fills header (br_image_header_bytes(layout->units) long, zeroed) but for checksum, stamp and commit word. Units lie
 * on pages, larger ones on huge pages. */
void br_image_header_fill(struct br_image_header *header, const struct br_model_layout *layout, uint64_t config_hash);
uint64_t br_image_header_checksum(const struct br_image_header *header);
/* Header against file size and itself; on success *layout is the image's. Does not read the units. */
int br_image_header_check(const struct br_image_header *header, uint64_t file_bytes, struct br_model_layout *layout,
                          struct br_err *err);
/* A file of the layout, for messages and inspection. */
uint64_t br_image_file_bytes(const struct br_model_layout *layout);

static inline struct br_image_state *br_image_state(struct br_image_header *header, uint32_t unit)
{
    return (struct br_image_state *)(void *)((unsigned char *)header + header->states_at) + unit;
}

/* False: nothing is known of the unit's checksum, or what is was damaged. */
bool br_image_state_known(const struct br_image_state *state, uint64_t *checksum, uint64_t *content);
void br_image_state_note(struct br_image_state *state, uint64_t checksum, uint64_t content);

/* From the unit's first byte to the next unit's: what it takes of the cache. */
static inline uint64_t br_image_span(const struct br_image_header *h, uint32_t unit)
{
    return (unit + 1 < h->units ? h->unit[unit + 1].offset : h->file_bytes) - h->unit[unit].offset;
}

#endif
