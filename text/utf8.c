#include "text/utf8.h"

#include <string.h>

/* Length of the sequence that a first byte announces, and the range that its second byte must lie in; 0: never valid
 * as a first byte. */
static int utf8_lead(unsigned char lead, unsigned char *lo, unsigned char *hi)
{
    *lo = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    *hi = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF)
        return 2;
    if (lead >= 0xE0 && lead <= 0xEF)
        return 3;
    return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

int br_utf8_step(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char lo, hi;
    int len;
    if (p[0] < 0x80)
        return 1;
    len = utf8_lead(p[0], &lo, &hi);
    if (len == 0)
        return -1;
    for (int i = 1; i < len; i++) {
        if ((size_t)i == n)
            return 0;
        if (p[i] < lo || p[i] > hi)
            return -i;
        lo = 0x80;
        hi = 0xBF;
    }
    return len;
}

size_t br_utf8_valid_len(const char *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t word;
        int step;
        if (n - i >= sizeof word) {
            memcpy(&word, text + i, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                i += sizeof word;
                continue;
            }
        }
        step = br_utf8_step(text + i, n - i);
        if (step <= 0)
            break;
        i += (size_t)step;
    }
    return i;
}

int32_t br_utf8_decode(const char *text, int *len)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        *len = 1;
        return p[0];
    }
    *len = p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : 4;
    if (*len == 2)
        return (p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    if (*len == 3)
        return (p[0] & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    return (p[0] & 0x07) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F);
}

void br_utf8_lossy(struct br_buf *out, const char *text, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t good = br_utf8_valid_len(text + i, n - i);
        int step;
        br_buf_add(out, text + i, good);
        i += good;
        if (i == n)
            break;
        step = br_utf8_step(text + i, n - i);
        br_buf_puts(out, BR_UTF8_REPLACEMENT);
        i = step == 0 ? n : i + (size_t)-step;
    }
}

bool br_char_is_space(int32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

const char *br_text_find(const char *text, size_t len, const char *needle, size_t n)
{
    const char *end = text + len;
    while ((size_t)(end - text) >= n && (text = memchr(text, needle[0], (size_t)(end - text) - n + 1))) {
        if (memcmp(text, needle, n) == 0)
            return text;
        text++;
    }
    return NULL;
}
