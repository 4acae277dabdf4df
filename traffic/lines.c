#include "traffic/lines.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void lines_init(struct lines *lines, FILE *stream, const char *file, uint64_t max_bytes, size_t max_line)
{
    *lines = (struct lines){.stream = stream, .file = file, .max_bytes = max_bytes, .max_line = max_line};
}

void lines_free(struct lines *lines)
{
    free(lines->text);
    lines->text = NULL;
}

int lines_fail(const struct lines *lines, struct br_err *err, const char *fmt, ...)
{
    char what[384];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return br_err_set(err, BR_EINVAL, "%.100s:%llu: %s", lines->file, (unsigned long long)lines->number, what);
}

/* text[0..len) = what is read; room for one more and the NUL. */
static void line_cut(struct lines *lines, size_t len)
{
    if (len + 2 > lines->room) {
        lines->room = lines->room ? 2 * lines->room : 256;
        lines->text = br_realloc(lines->text, lines->room);
    }
    lines->text[len] = '\0';
    lines->len = len;
}

static void line_add(struct lines *lines, int c)
{
    lines->text[lines->len] = (char)c;
    line_cut(lines, lines->len + 1);
}

/* What ends a file and its lines elsewhere: a byte order mark, a carriage return. */
static void line_trim(struct lines *lines)
{
    if (lines->len && lines->text[lines->len - 1] == '\r')
        line_cut(lines, lines->len - 1);
    if (lines->number == 1 && lines->len >= 3 && memcmp(lines->text, "\xEF\xBB\xBF", 3) == 0) {
        memmove(lines->text, lines->text + 3, lines->len - 3);
        line_cut(lines, lines->len - 3);
    }
}

int lines_next(struct lines *lines, struct br_err *err)
{
    size_t length = 0; /* also of what is not kept */
    int c;
    lines->number++;
    line_cut(lines, 0);
    while ((c = getc_unlocked(lines->stream)) != EOF && c != '\n') {
        if (++lines->bytes > lines->max_bytes)
            return br_err_set(err, BR_ENOTSUP, "%.100s: more than the limit of %llu bytes; take a part of it",
                              lines->file, (unsigned long long)lines->max_bytes);
        if (++length <= lines->max_line)
            line_add(lines, c);
    }
    lines->bytes += c == '\n';
    if (c == EOF && ferror(lines->stream))
        return br_err_errno(err, BR_EIO, "%.100s: cannot be read", lines->file);
    if (c == EOF && !length) {
        lines->number--;
        return 0;
    }
    if (length > lines->max_line)
        return lines_fail(lines, err, "line of %zu bytes; the limit is %zu", length, lines->max_line);
    if (memchr(lines->text, '\0', lines->len))
        return lines_fail(lines, err, "a zero byte in the line; this is not a text file");
    line_trim(lines);
    return 1;
}
