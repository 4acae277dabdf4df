/* Streams are threads with a bounded ring of commands; events count generations of records. */
#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/buf.h"
#include "worker/device/cpu/cpu.h"

struct command {
    cpu_command_fn *run;
    alignas(16) unsigned char args[CPU_COMMAND_BYTES];
};

struct br_stream {
    struct cpu_device *dev;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t not_empty, not_full;
    struct command ring[CPU_STREAM_COMMANDS];
    uint32_t head, count; /* the command at head is taken off when it has run */
    bool quit, idle;
};

struct br_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t recorded, done; /* generations */
};

/* Blocks while the ring is full. */
void cpu_stream_enqueue(struct br_stream *s, cpu_command_fn *run, const void *args, size_t bytes)
{
    assert(bytes <= CPU_COMMAND_BYTES);
    pthread_mutex_lock(&s->lock);
    while (s->count == CPU_STREAM_COMMANDS)
        pthread_cond_wait(&s->not_full, &s->lock);
    struct command *command = &s->ring[(s->head + s->count++) % CPU_STREAM_COMMANDS];
    command->run = run;
    memcpy(command->args, args, bytes);
    if (s->idle)
        pthread_cond_signal(&s->not_empty);
    pthread_mutex_unlock(&s->lock);
}

/* The next command, or NULL at the end; it stays in the ring while it runs. */
static const struct command *stream_next(struct br_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->idle = true;
    while (s->count == 0 && !s->quit)
        pthread_cond_wait(&s->not_empty, &s->lock);
    s->idle = false;
    const struct command *command = s->count ? &s->ring[s->head] : NULL;
    pthread_mutex_unlock(&s->lock);
    return command;
}

static void stream_pop(struct br_stream *s, uint32_t n)
{
    pthread_mutex_lock(&s->lock);
    if (s->count == CPU_STREAM_COMMANDS)
        pthread_cond_broadcast(&s->not_full);
    s->head = (s->head + n) % CPU_STREAM_COMMANDS;
    s->count -= n;
    pthread_mutex_unlock(&s->lock);
}

/* The copies at the head of the ring that may run at the same time: small ones are shared out together. */
static uint32_t copies_gather(struct br_stream *s, const struct cpu_copy **copies)
{
    uint32_t n = 0;
    pthread_mutex_lock(&s->lock);
    while (n < s->count && n < CPU_COPIES_MAX) {
        const struct command *command = &s->ring[(s->head + n) % CPU_STREAM_COMMANDS];
        if (command->run != cpu_copy_run)
            break;
        copies[n] = (const struct cpu_copy *)command->args;
        if (!cpu_copies_together(s->dev, copies, n + 1))
            break;
        n++;
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

static uint32_t command_run(struct br_stream *s, const struct command *command)
{
    const struct cpu_copy *copies[CPU_COPIES_MAX];
    uint32_t n = command->run == cpu_copy_run ? copies_gather(s, copies) : 0;
    if (n > 1)
        cpu_copies_run(s->dev, copies, n);
    else
        command->run(s->dev, command->args);
    return n > 1 ? n : 1;
}

static void *stream_main(void *arg)
{
    struct br_stream *s = arg;
    prctl(PR_SET_TIMERSLACK, 1ul); /* the link's pacing sleeps precisely */
    const struct command *command;
    while ((command = stream_next(s)))
        stream_pop(s, command_run(s, command));
    return NULL;
}

static void stream_free(struct br_stream *s)
{
    pthread_cond_destroy(&s->not_full);
    pthread_cond_destroy(&s->not_empty);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int cpu_stream_create(struct br_device *dev, struct br_stream **out, struct br_err *err)
{
    struct br_stream *s = br_calloc(1, sizeof *s);
    s->dev = (struct cpu_device *)dev;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->not_empty, NULL);
    pthread_cond_init(&s->not_full, NULL);
    if (pthread_create(&s->thread, NULL, stream_main, s)) {
        stream_free(s);
        return br_err_set(err, BR_ENOMEM, "cannot start a stream's thread");
    }
    *out = s;
    return 0;
}

void cpu_stream_destroy(struct br_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_signal(&s->not_empty);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    stream_free(s);
}

int cpu_event_create(struct br_device *dev, struct br_event **out, struct br_err *err)
{
    (void)dev, (void)err;
    struct br_event *event = br_calloc(1, sizeof *event);
    pthread_mutex_init(&event->lock, NULL);
    pthread_cond_init(&event->changed, NULL);
    *out = event;
    return 0;
}

void cpu_event_destroy(struct br_event *event)
{
    pthread_cond_destroy(&event->changed);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

struct event_point {
    struct br_event *event;
    uint64_t generation;
};

static void event_reach(struct cpu_device *dev, const void *args)
{
    (void)dev;
    struct event_point point = *(const struct event_point *)args;
    pthread_mutex_lock(&point.event->lock);
    if (point.event->done < point.generation)
        point.event->done = point.generation;
    pthread_cond_broadcast(&point.event->changed);
    pthread_mutex_unlock(&point.event->lock);
}

static void event_block(struct cpu_device *dev, const void *args)
{
    (void)dev;
    struct event_point point = *(const struct event_point *)args;
    pthread_mutex_lock(&point.event->lock);
    while (point.event->done < point.generation)
        pthread_cond_wait(&point.event->changed, &point.event->lock);
    pthread_mutex_unlock(&point.event->lock);
}

void cpu_event_record(struct br_event *event, struct br_stream *stream)
{
    pthread_mutex_lock(&event->lock);
    struct event_point point = {event, ++event->recorded};
    pthread_mutex_unlock(&event->lock);
    cpu_stream_enqueue(stream, event_reach, &point, sizeof point);
}

bool cpu_event_done(const struct br_event *event)
{
    struct br_event *e = (struct br_event *)event; // NOLINT: only its lock changes
    pthread_mutex_lock(&e->lock);
    bool done = e->done >= e->recorded;
    pthread_mutex_unlock(&e->lock);
    return done;
}

static uint64_t event_generation(struct br_event *event)
{
    pthread_mutex_lock(&event->lock);
    uint64_t generation = event->recorded;
    pthread_mutex_unlock(&event->lock);
    return generation;
}

void cpu_event_sync(struct br_event *event)
{
    struct event_point point = {event, event_generation(event)};
    event_block(NULL, &point);
}

void cpu_event_wait(struct br_stream *stream, struct br_event *event)
{
    if (cpu_event_done(event))
        return;
    struct event_point point = {event, event_generation(event)};
    cpu_stream_enqueue(stream, event_block, &point, sizeof point);
}

struct notice {
    void (*fn)(void *ctx);
    void *ctx;
};

static void notice_give(struct cpu_device *dev, const void *args)
{
    const struct notice *notice = args;
    (void)dev;
    notice->fn(notice->ctx);
}

void cpu_stream_notify(struct br_stream *stream, void (*fn)(void *ctx), void *ctx)
{
    struct notice notice = {fn, ctx};
    cpu_stream_enqueue(stream, notice_give, &notice, sizeof notice);
}
