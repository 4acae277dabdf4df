/* The inside of struct br_residency, shared by residency.c and residency_move.c. */
#ifndef BRIAREUS_WORKER_TURN_RESIDENCY_BOOKS_H
#define BRIAREUS_WORKER_TURN_RESIDENCY_BOOKS_H

#include "worker/turn/extents.h"
#include "worker/turn/residency.h"
#include "worker/turn/unit_copy.h"

struct resident_unit {
    uint64_t at;            /* in the arena; BR_EXTENT_NONE: not on the device */
    bool arrived;           /* its load is known to be done */
    struct br_event *ready; /* owned: its last copy */
};

struct resident_model {
    struct br_engine_model *engine; /* NULL: no model in this slot */
    const struct br_weight_image *image;
    struct resident_unit *units; /* [n_units] */
    uint32_t n_units;
    uint32_t flying; /* units placed and not known to have arrived */
    uint64_t bytes, bytes_arrived, bytes_all;
};

struct br_residency {
    struct br_device *dev;
    struct br_residency_config config;
    struct br_residency_cb cb;
    struct br_stream *load;
    struct unit_copies copies; /* on it */
    struct br_extents extents;
    struct resident_model *models; /* [max_slots] */
    uint32_t n_units;
    int32_t running;
    struct br_event *cooled; /* owned: every copy of extents that were given back while it was to come */
    uint64_t cooling_end;    /* such extents end here; 0: there is none */
    struct br_residency_stats stats;
};

/* Where the engine reads the unit from now on, behind the copy that was enqueued last. */
void residency_place(struct br_residency *r, struct resident_model *m, uint32_t unit, uint64_t at);
/* [.., end) was given back although a copy that was enqueued still writes or reads it. */
void residency_cool(struct br_residency *r, uint64_t end);

/* residency_move.c: a free extent of so many bytes, made by moving others; BR_EXTENT_NONE: there is none. */
uint64_t residency_gather(struct br_residency *r, uint64_t bytes);

#endif
