#include "worker/node/moments.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"

struct moments {
    pthread_mutex_t mutex;
    struct br_turn_moment *list; /* [MOMENTS_MAX] */
    uint32_t n;
};

struct moments *moments_create(void)
{
    struct moments *m = br_calloc(1, sizeof *m);
    pthread_mutex_init(&m->mutex, NULL);
    m->list = br_calloc(MOMENTS_MAX, sizeof *m->list);
    return m;
}

void moments_free(struct moments *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->mutex);
    free(m->list);
    free(m);
}

void moments_push(struct moments *m, const struct br_turn_moment *moment)
{
    pthread_mutex_lock(&m->mutex);
    if (m->n < MOMENTS_MAX)
        m->list[m->n++] = *moment;
    pthread_mutex_unlock(&m->mutex);
}

static void moment_fill(const struct br_turn_moment *from, int64_t now_ns, Briareus__Moment *out)
{
    briareus__moment__init(out);
    out->seq = from->seq;
    out->kind = from->kind;
    out->ago_s = (double)(now_ns - from->begin_ns) / 1e9;
    out->took_s = (double)(from->end_ns - from->begin_ns) / 1e9;
    out->steps = from->steps;
    out->rows = from->rows;
    out->bytes = from->bytes;
}

void moments_send(struct moments *m, void (*send)(void *ctx, const Briareus__Frame *frame), void *ctx)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Moments msg = BRIAREUS__MOMENTS__INIT;
    int64_t now_ns = br_now_ns();
    pthread_mutex_lock(&m->mutex);
    msg.moments = br_calloc(m->n + 1, sizeof *msg.moments);
    Briareus__Moment *all = br_calloc(m->n + 1, sizeof *all);
    for (; msg.n_moments < m->n; msg.n_moments++) {
        moment_fill(&m->list[msg.n_moments], now_ns, &all[msg.n_moments]);
        msg.moments[msg.n_moments] = &all[msg.n_moments];
    }
    m->n = 0;
    pthread_mutex_unlock(&m->mutex);
    frame.body_case = BRIAREUS__FRAME__BODY_MOMENTS;
    frame.moments = &msg;
    if (msg.n_moments)
        send(ctx, &frame);
    free(msg.moments);
    free(all);
}
