/* Fibers for the threads of a block: an own switch on x86-64, ucontext elsewhere, known to ASan and TSan. */
#ifndef BRIAREUS_TESTS_CUDAEMU_FIBER_H
#define BRIAREUS_TESTS_CUDAEMU_FIBER_H

#include <stddef.h>

/* clang says it in its own way. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(FIBER_ASAN)
#define FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(FIBER_TSAN)
#define FIBER_TSAN 1
#endif
#ifdef FIBER_TSAN
#define FIBER_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define FIBER_NO_TSAN
#endif

struct fiber {
    void *sp;         /* where it stopped; ucontext: its context */
    char *stack;      /* NULL: the thread's own */
    size_t bytes;     /* of the stack */
    void *tsan;       /* its handle */
    void *fake_stack; /* ASan's */
    const void *asan_bottom;
    size_t asan_bytes;
    void (*main)(void *arg);
    void *arg;
};

/* main never returns. */
void fiber_create(struct fiber *f, void (*main)(void *arg), void *arg);
void fiber_of_thread(struct fiber *f);
void fiber_destroy(struct fiber *f);
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
