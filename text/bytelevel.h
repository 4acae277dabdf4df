/* GPT-2's byte alphabet: every byte has a printable character (Radford et al. 2019, encoder.py bytes_to_unicode), so
 * that a vocabulary of characters can hold any bytes. */
#ifndef BRIAREUS_TEXT_BYTELEVEL_H
#define BRIAREUS_TEXT_BYTELEVEL_H

#include <stddef.h>
#include <stdint.h>

/* The code point (below 0x144) that stands for a byte. */
int32_t br_bytelevel_char(unsigned char byte);

/* Writes the UTF-8 of a byte's character to out (room for 2); returns its length, 1 or 2. */
size_t br_bytelevel_put(unsigned char byte, char *out);

/* Turns n bytes of well-formed token text into the bytes that it stands for; out has room for n. Text with a character
 * outside the alphabet stands for itself and is copied. Returns the length. */
size_t br_bytelevel_decode(const char *text, size_t n, char *out);

#endif
