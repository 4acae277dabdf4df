/* The scheduler's heart on the loop: it joins gateway, queue, core/fleet and link. It owns the life of every sequence;
 * core/fleet decides, the rest carries out. */
#ifndef BRIAREUS_SCHEDULER_SERVICE_H
#define BRIAREUS_SCHEDULER_SERVICE_H

#include "scheduler/gateway/gateway.h"
#include "scheduler/link/link.h"
#include "scheduler/models.h"
#include "scheduler/queue/queue.h"

struct br_service;
struct br_trace;

struct br_service_config {
    uint32_t max_unfinished; /* sequences accepted and not ended; more get 429 */
    uint32_t max_devices;
    const char *policy;     /* of core/fleet; NULL: its default */
    struct br_trace *trace; /* borrowed: requests are written there (report/trace.h); NULL: nobody looks */
    double hysteresis;      /* of slack; 0: its default */
    bool admission;         /* 429 for what could not be on time; else only beyond max_unfinished */
    double hung_s;          /* a device that has work and makes no progress for so long counts as hung; 0: none does */
    /* Somebody still reads this model's view, which is about to go; NULL: nobody ever does. */
    bool (*uses)(void *ctx, const struct br_gateway_model *model);
    void *uses_ctx;
    double adopt_s; /* how long a lost device, or one after a restart of the scheduler, may take to come back with its
                       sequences before they are given to another */
};

/* queue and models are borrowed. */
int br_service_create(uv_loop_t *loop, const struct br_service_config *config, struct br_queue *queue,
                      struct br_models *models, struct br_service **out, struct br_err *err);
/* Reads every unfinished sequence back, then calls ready. Before that nothing may be submitted. */
void br_service_recover(struct br_service *service, void (*ready)(void *ctx, int rc), void *ctx);
/* Another configuration of models: new ones come to all devices, those that are not in it take no requests any more and
 * go when theirs have ended, the others take its terms. Nothing changes on error (of br_models_create). */
int br_service_reload(struct br_service *service, const struct br_models_config *config, struct br_err *err);
/* Nothing that was told to the queue is without its answer. */
bool br_service_settled(const struct br_service *service);
void br_service_close(struct br_service *service); /* stops its timer; destroy after the loop has run */
void br_service_destroy(struct br_service *service);

/* What gateway and link are to be started with. */
struct br_gateway_backend br_service_backend(struct br_service *service);
struct br_link_server_cb br_service_link(struct br_service *service);

#endif
