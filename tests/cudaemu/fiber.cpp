#include "tests/cudaemu/fiber.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

#if defined(FIBER_ASAN) || defined(FIBER_TSAN)
static constexpr size_t STACK_BYTES = 512 << 10;
#else
static constexpr size_t STACK_BYTES = 128 << 10;
#endif
static constexpr size_t GUARD_BYTES = 4096;

static FIBER_NO_TSAN void asan_finish(struct fiber *f)
{
#ifdef FIBER_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(f->fake_stack, &bottom, &bytes);
    (void)bottom, (void)bytes;
#else
    (void)f;
#endif
}

#ifdef __x86_64__
/* Saves what a call must preserve on the old stack and takes it from the new one (System V ABI, 3.2.1). */
extern "C" void cudaemu_switch(void **from, void *to);
__asm__(".text\n.globl cudaemu_switch\n.type cudaemu_switch,@function\ncudaemu_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size cudaemu_switch,.-cudaemu_switch\n.section .note.GNU-stack,\"\",@progbits\n.text\n");

/* A new fiber begins here, with itself in rbx, where context_create put it. */
extern "C" void cudaemu_entry(void);
__asm__(".text\n.globl cudaemu_entry\n.type cudaemu_entry,@function\ncudaemu_entry:\n"
        "movq %rbx, %rdi\ncall cudaemu_fiber_main\nud2\n.size cudaemu_entry,.-cudaemu_entry\n");

extern "C" FIBER_NO_TSAN void cudaemu_fiber_main(struct fiber *f)
{
    asan_finish(f);
    f->main(f->arg);
    abort();
}

static void context_create(struct fiber *f)
{
    uintptr_t *sp = (uintptr_t *)(f->stack + f->bytes) - 2; /* aligned to 16 bytes once the entry is popped */
    *--sp = (uintptr_t)cudaemu_entry;
    *--sp = 0;            /* rbp */
    *--sp = (uintptr_t)f; /* rbx */
    sp -= 4;              /* r12 to r15 */
    memset(sp, 0, 4 * sizeof *sp);
    f->sp = sp;
}

static void context_destroy(struct fiber *f)
{
    (void)f;
}

static FIBER_NO_TSAN void context_switch(struct fiber *from, struct fiber *to)
{
    cudaemu_switch(&from->sp, to->sp);
}
#else
static void fiber_enter(unsigned low, unsigned high)
{
    struct fiber *f = (struct fiber *)((uintptr_t)low | (uintptr_t)high << 32);
    asan_finish(f);
    f->main(f->arg);
    abort();
}

static void context_create(struct fiber *f)
{
    ucontext_t *context = (ucontext_t *)calloc(1, sizeof *context);
    uint64_t at = (uintptr_t)f;
    if (!context || getcontext(context))
        abort();
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = f->bytes;
    makecontext(context, (void (*)(void))fiber_enter, 2, (unsigned)at, (unsigned)(at >> 32));
    f->sp = context;
}

static void context_destroy(struct fiber *f)
{
    free(f->sp);
}

static void context_switch(struct fiber *from, struct fiber *to)
{
    swapcontext((ucontext_t *)from->sp, (ucontext_t *)to->sp);
}
#endif

void fiber_create(struct fiber *f, void (*main)(void *arg), void *arg)
{
    memset(f, 0, sizeof *f);
    f->main = main;
    f->arg = arg;
    f->bytes = STACK_BYTES;
    char *at = (char *)mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        perror("cudaemu: stack");
        abort();
    }
    mprotect(at, GUARD_BYTES, PROT_NONE);
    f->stack = at + GUARD_BYTES;
#ifdef FIBER_ASAN
    ASAN_UNPOISON_MEMORY_REGION(f->stack, f->bytes); /* what was mapped here before may have left marks */
#endif
    f->asan_bottom = f->stack;
    f->asan_bytes = f->bytes;
#ifdef FIBER_TSAN
    f->tsan = __tsan_create_fiber(0);
#endif
    context_create(f);
}

void fiber_of_thread(struct fiber *f)
{
    memset(f, 0, sizeof *f);
#ifdef FIBER_ASAN
    pthread_attr_t attr;
    void *bottom;
    if (pthread_getattr_np(pthread_self(), &attr) || pthread_attr_getstack(&attr, &bottom, &f->asan_bytes))
        abort();
    f->asan_bottom = bottom;
    pthread_attr_destroy(&attr);
#endif
#ifdef FIBER_TSAN
    f->tsan = __tsan_get_current_fiber();
#endif
#ifndef __x86_64__
    f->sp = calloc(1, sizeof(ucontext_t));
#endif
}

void fiber_destroy(struct fiber *f)
{
#ifdef FIBER_TSAN
    if (f->stack)
        __tsan_destroy_fiber(f->tsan);
#endif
    context_destroy(f);
#ifdef FIBER_ASAN
    if (f->stack) /* whoever is given these addresses next */
        ASAN_UNPOISON_MEMORY_REGION(f->stack, f->bytes);
#endif
    if (f->stack)
        munmap(f->stack - GUARD_BYTES, f->bytes + GUARD_BYTES);
}

FIBER_NO_TSAN void fiber_switch(struct fiber *from, struct fiber *to)
{
#ifdef FIBER_ASAN
    __sanitizer_start_switch_fiber(&from->fake_stack, to->asan_bottom, to->asan_bytes);
#endif
#ifdef FIBER_TSAN
    __tsan_switch_to_fiber(to->tsan, 1);
#endif
    context_switch(from, to);
    asan_finish(from);
}
