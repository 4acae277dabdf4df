/* Stop strings: found in a stream of text pieces, across their borders. */
#ifndef BRIAREUS_TEXT_STOP_H
#define BRIAREUS_TEXT_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { BR_STOP_MAX = 16, BR_STOP_MAX_BYTES = 1024 };

/* Zero-initialised or after br_stop_free: no stop strings. Memory is bounded by the strings, whatever the text. */
struct br_stop {
    struct br_stop_string {
        char *text;       /* owned */
        uint16_t *border; /* (len) owned: longest proper prefix of text[0..i] that is also its suffix */
        uint16_t len;
        uint16_t matched; /* bytes at the end of the text so far that begin this string */
    } strings[BR_STOP_MAX];
    size_t n;
    bool include; /* the stop string stays in the text */
    uint64_t fed; /* bytes so far */
    int hit;      /* index of the string that was found; -1: none yet */
    uint64_t cut; /* valid after a hit */
};

/* Copies n strings (NUL-terminated, well-formed UTF-8). BR_EINVAL: more than BR_STOP_MAX, an empty string, or one
 * longer than BR_STOP_MAX_BYTES. */
int br_stop_init(struct br_stop *stop, const char *const *strings, size_t n, bool include_stop_str, struct br_err *err);
void br_stop_free(struct br_stop *stop);

/* Takes the next piece of text. Returns the index of the stop string that is hit, or -1. *safe gets how many bytes of
 * the whole text, counted from its beginning, may be given out:
 *   no hit: all but the longest end that could still become a stop string (when the text ends here, all of it may go);
 *   hit:    exactly what remains of the text: up to the stop string, or with include_stop_str up to its end.
 * Of several strings the one that is complete first counts; of those that end together, the longest. What is found does
 * not depend on where pieces begin and end. After a hit, further pieces change nothing. */
int br_stop_feed(struct br_stop *stop, const char *piece, size_t len, uint64_t *safe);

#endif
