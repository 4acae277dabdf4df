#include "worker/turn/inbox.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

void inbox_init(struct inbox *inbox)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&inbox->mutex, NULL);
    pthread_cond_init(&inbox->filled, &attr);
    pthread_cond_init(&inbox->emptied, &attr);
    pthread_condattr_destroy(&attr);
    inbox->head = inbox->n = 0;
    inbox->poked = false;
}

void inbox_command_free(struct inbox_command *command)
{
    if (command->spec)
        br_seq_spec_free(command->spec);
    free(command->spec);
    free(command->ids);
}

void inbox_free(struct inbox *inbox)
{
    struct inbox_command left;
    while (inbox_take(inbox, &left))
        inbox_command_free(&left);
    pthread_cond_destroy(&inbox->filled);
    pthread_cond_destroy(&inbox->emptied);
    pthread_mutex_destroy(&inbox->mutex);
}

void inbox_put(struct inbox *inbox, const struct inbox_command *command)
{
    pthread_mutex_lock(&inbox->mutex);
    while (inbox->n == INBOX_CAP)
        pthread_cond_wait(&inbox->emptied, &inbox->mutex);
    inbox->ring[(inbox->head + inbox->n++) % INBOX_CAP] = *command;
    pthread_cond_signal(&inbox->filled);
    pthread_mutex_unlock(&inbox->mutex);
}

bool inbox_take(struct inbox *inbox, struct inbox_command *out)
{
    bool any;
    pthread_mutex_lock(&inbox->mutex);
    any = inbox->n > 0;
    if (any) {
        *out = inbox->ring[inbox->head];
        inbox->head = (inbox->head + 1) % INBOX_CAP;
        inbox->n--;
        pthread_cond_signal(&inbox->emptied);
    }
    pthread_mutex_unlock(&inbox->mutex);
    return any;
}

static struct timespec time_after(int64_t timeout_ns)
{
    int64_t at = br_now_ns() + timeout_ns;
    return (struct timespec){.tv_sec = at / BR_NS_PER_S, .tv_nsec = at % BR_NS_PER_S};
}

void inbox_poke(struct inbox *inbox)
{
    pthread_mutex_lock(&inbox->mutex);
    inbox->poked = true;
    pthread_cond_signal(&inbox->filled);
    pthread_mutex_unlock(&inbox->mutex);
}

void inbox_wait(struct inbox *inbox, int64_t timeout_ns)
{
    struct timespec until = time_after(timeout_ns < 0 ? 0 : timeout_ns);
    int rc = 0;
    pthread_mutex_lock(&inbox->mutex);
    while (inbox->n == 0 && !inbox->poked && rc == 0)
        rc = timeout_ns < 0 ? pthread_cond_wait(&inbox->filled, &inbox->mutex)
                            : pthread_cond_timedwait(&inbox->filled, &inbox->mutex, &until);
    inbox->poked = false;
    pthread_mutex_unlock(&inbox->mutex);
}
