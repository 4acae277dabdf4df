/* Unicode normal forms on top of utf8proc's character tables. utf8proc_map itself orders combining marks by insertion,
 * which takes quadratic time on hostile input; runs are sorted by counting here. */
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/normalizer.h"
#include "text/utf8.h"

struct code_points {
    utf8proc_int32_t *data;
    size_t len, cap;
};

/* Ranges of characters of combining class 0 that NFC leaves alone wherever they stand. */
static bool nfc_is_inert(int32_t c)
{
    return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x2010 && c <= 0x2027) || (c >= 0x3001 && c <= 0x3029) ||
           (c >= 0x3041 && c <= 0x3096) || (c >= 0x30A1 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF) ||
           (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xFF01 && c <= 0xFF5E);
}

bool br_unicode_is_normal(enum br_unicode_form form, const char *text, size_t len)
{
    int step;
    for (size_t i = 0; i < len; i += (size_t)step) {
        int32_t c = br_utf8_decode(text + i, &step);
        if (c >= 0x80 && (form != BR_NFC || !nfc_is_inert(c)))
            return false;
    }
    return true;
}

static void decompose(struct code_points *points, int32_t c, utf8proc_option_t options)
{
    utf8proc_ssize_t n;
    int boundclass = 0;
    if (points->len + 32 > points->cap) { /* the longest decomposition (U+FDFA) has 18 */
        points->cap = 2 * points->cap + 64;
        points->data = br_realloc(points->data, points->cap * sizeof *points->data);
    }
    n = utf8proc_decompose_char(c, points->data + points->len, 32, options, &boundclass);
    if (n < 0 || n > 32) {
        points->data[points->len] = c;
        n = 1;
    }
    points->len += (size_t)n;
}

static unsigned combining_class(utf8proc_int32_t c)
{
    return (unsigned)utf8proc_get_property(c)->combining_class & 0xFF;
}

/* Stable order of one run by combining class: a counting sort. */
static void sort_run(utf8proc_int32_t *run, size_t n)
{
    size_t start[257] = {0};
    utf8proc_int32_t *copy;
    if (n < 2)
        return;
    copy = br_malloc(n * sizeof *copy);
    memcpy(copy, run, n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        start[combining_class(copy[i]) + 1]++;
    for (size_t c = 1; c <= 256; c++)
        start[c] += start[c - 1];
    for (size_t i = 0; i < n; i++)
        run[start[combining_class(copy[i])]++] = copy[i];
    free(copy);
}

static void order_marks(struct code_points *points)
{
    size_t from = 0;
    for (size_t i = 0; i <= points->len; i++) {
        if (i < points->len && combining_class(points->data[i]) != 0)
            continue;
        sort_run(points->data + from, i - from);
        from = i + 1;
    }
}

void br_unicode_normalize(enum br_unicode_form form, const char *text, size_t len, struct br_buf *out)
{
    static const utf8proc_option_t options[] = {
        UTF8PROC_STABLE | UTF8PROC_COMPOSE, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    struct code_points points = {0};
    utf8proc_ssize_t n;
    int step;
    for (size_t i = 0; i < len; i += (size_t)step)
        decompose(&points, br_utf8_decode(text + i, &step), options[form]);
    order_marks(&points);
    n = points.len ? utf8proc_normalize_utf32(points.data, (utf8proc_ssize_t)points.len, options[form]) : 0;
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        utf8proc_uint8_t bytes[4];
        br_buf_add(out, bytes, (size_t)utf8proc_encode_char(points.data[i], bytes));
    }
    free(points.data);
}
