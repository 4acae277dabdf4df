#include "worker/node/answers.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"

struct one {
    struct br_turn_done done;
    char *error; /* owned */
    struct one *next;
};

struct answers {
    pthread_mutex_t mutex;
    struct one *first, **last;
};

struct answers *answers_create(void)
{
    struct answers *a = br_calloc(1, sizeof *a);
    pthread_mutex_init(&a->mutex, NULL);
    a->last = &a->first;
    return a;
}

static struct one *take(struct answers *a)
{
    struct one *first;
    pthread_mutex_lock(&a->mutex);
    first = a->first;
    a->first = NULL;
    a->last = &a->first;
    pthread_mutex_unlock(&a->mutex);
    return first;
}

static void one_free(struct one *one)
{
    free(one->error);
    free(one);
}

void answers_free(struct answers *a)
{
    struct one *next;
    for (struct one *one = take(a); one; one = next) {
        next = one->next;
        one_free(one);
    }
    pthread_mutex_destroy(&a->mutex);
    free(a);
}

void answers_push(struct answers *a, const struct br_turn_done *done)
{
    struct one *one = br_calloc(1, sizeof *one);
    one->done = *done;
    one->error = br_strdup(done->rc ? done->error : "");
    pthread_mutex_lock(&a->mutex);
    *a->last = one;
    a->last = &one->next;
    pthread_mutex_unlock(&a->mutex);
}

void answers_take(struct answers *a, void (*fn)(void *ctx, const struct br_turn_done *done), void *ctx)
{
    struct one *next;
    for (struct one *one = take(a); one; one = next) {
        next = one->next;
        one->done.error = one->error;
        fn(ctx, &one->done);
        one_free(one);
    }
}
