/* Errors: a code and a sentence that says what was wrong, where, and what to do.
 * Functions that can fail return 0 or a negative br_err_code and take `struct br_err *err` last (never NULL). */
#ifndef BRIAREUS_BASE_ERR_H
#define BRIAREUS_BASE_ERR_H

#include <stddef.h>

enum br_err_code {
    BR_OK = 0,
    BR_EINVAL = -1,   /* bad input: the sender has to change something */
    BR_ENOENT = -2,   /* no such file, model, sequence ... */
    BR_ENOMEM = -3,   /* no room: memory, slots, blocks */
    BR_EIO = -4,      /* a system call or a peer failed */
    BR_ESTALE = -5,   /* fence or version lost against a newer one */
    BR_EBUSY = -6,    /* full now, may work later */
    BR_ENOTSUP = -7,  /* understood, but not supported */
    BR_ECORRUPT = -8, /* data that contradicts itself */
};

struct br_err {
    int code;
    char msg[512];
};

/* Sets *err and returns code, so that callers write `return br_err_set(err, BR_EINVAL, "...", ...)`. */
int br_err_set(struct br_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts `fmt...: ` in front of the message on its way up; returns err->code. */
int br_err_wrap(struct br_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Like br_err_set, with ": <strerror(errno)>" at the end. */
int br_err_errno(struct br_err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

const char *br_err_name(int code);

#endif
