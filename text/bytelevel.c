#include "text/bytelevel.h"

#include <stdbool.h>
#include <string.h>

#include "text/utf8.h"

/* Bytes that stand for themselves: the printable ones of Latin-1. The 68 others are numbered from U+0100 upwards. */
static bool byte_is_plain(int32_t c)
{
    return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF);
}

int32_t br_bytelevel_char(unsigned char byte)
{
    if (byte_is_plain(byte))
        return byte;
    if (byte <= 0x20)
        return 0x100 + byte;
    if (byte <= 0xA0)
        return 0x121 + (byte - 0x7F);
    return 0x143; /* 0xAD, the soft hyphen */
}

/* Inverse of br_bytelevel_char; -1 for a character outside the alphabet. */
static int char_byte(int32_t c)
{
    if (byte_is_plain(c))
        return (int)c;
    if (c >= 0x100 && c <= 0x120)
        return (int)(c - 0x100);
    if (c >= 0x121 && c <= 0x142)
        return (int)(c - 0x121 + 0x7F);
    return c == 0x143 ? 0xAD : -1;
}

size_t br_bytelevel_put(unsigned char byte, char *out)
{
    int32_t c = br_bytelevel_char(byte);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xC0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3F));
    return 2;
}

size_t br_bytelevel_decode(const char *text, size_t n, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n;) {
        int step, byte = char_byte(br_utf8_decode(text + i, &step));
        if (byte < 0) {
            memcpy(out, text, n);
            return n;
        }
        out[len++] = (char)byte;
        i += (size_t)step;
    }
    return len;
}
