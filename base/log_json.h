/* A log line's pairs as JSON. Private to log.c and its test. */
#ifndef BRIAREUS_BASE_LOG_JSON_H
#define BRIAREUS_BASE_LOG_JSON_H

#include <stddef.h>

/* `a=1 b="x y" c=z` to {"a":1,"b":"x y","c":"z"}. Numbers that every reader keeps exactly (15 digits) are numbers,
 * ill-formed UTF-8 is replaced; pairs that find no room are left out. Returns the length; out is NUL-terminated. size:
 * at least 3. */
size_t br_log_json(const char *pairs, char *out, size_t size);

#endif
