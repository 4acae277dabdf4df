/* Well-formed UTF-8 (Unicode 15, table 3-7) and its lossy repair: each maximal ill-formed part becomes one U+FFFD,
 * as the WHATWG decoder and Rust's from_utf8_lossy do. */
#ifndef BRIAREUS_TEXT_UTF8_H
#define BRIAREUS_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define BR_UTF8_REPLACEMENT "\xEF\xBF\xBD"

/* Looks at the first character of n > 0 bytes: its length 1..4; or -k when the first k bytes are an ill-formed part;
 * or 0 when all n (< 4) bytes are the beginning of a character that is cut. */
int br_utf8_step(const char *text, size_t n);

/* Length of the longest well-formed prefix. */
size_t br_utf8_valid_len(const char *text, size_t n);

/* The code point at the start of well-formed text; *len gets its length in bytes. */
int32_t br_utf8_decode(const char *text, int *len);

/* Appends text with ill-formed parts replaced. */
void br_utf8_lossy(struct br_buf *out, const char *text, size_t n);

/* Unicode's White_Space. */
bool br_char_is_space(int32_t c);

/* memmem for short, non-empty needles in loops: looks at no byte behind the hit. */
const char *br_text_find(const char *text, size_t len, const char *needle, size_t n);

static inline bool br_utf8_is_start(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

#endif
