#include "worker/node/places.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "worker/node/said.h"

struct place {
    char *name;          /* owned; NULL: free */
    struct added *added; /* NULL: of the plan */
    uint64_t ticket;     /* of the add or remove under way; 0: none */
    bool removes;
};

struct places {
    uv_loop_t *loop;
    const struct node_plan *plan;
    struct br_turn *turn;
    struct place *list;
    uint32_t n;
    void (*send)(void *ctx, const Briareus__Frame *frame);
    void *ctx;
};

struct job {
    uv_work_t work;
    struct places *places;
    struct added *added;
    uint32_t place;
    int rc;
    struct br_err err;
};

struct places *places_create(uv_loop_t *loop, const struct node_plan *plan, const struct br_turn_model *models,
                             uint32_t n, void (*send)(void *ctx, const Briareus__Frame *frame), void *ctx)
{
    struct places *p = br_calloc(1, sizeof *p);
    *p = (struct places){.loop = loop, .plan = plan, .n = n, .send = send, .ctx = ctx};
    p->list = br_calloc(n, sizeof *p->list);
    for (uint32_t i = 0; i < n; i++)
        p->list[i].name = models[i].name[0] ? br_strdup(models[i].name) : NULL;
    return p;
}

void places_turn(struct places *p, struct br_turn *turn)
{
    p->turn = turn;
}

void places_free(struct places *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        free(p->list[i].name);
        added_free(p->list[i].added);
    }
    free(p->list);
    free(p);
}

/* One that is only on its way is not here yet. */
const char *places_name(const struct places *p, uint32_t place)
{
    const struct place *at = &p->list[place];
    return at->ticket && !at->removes ? NULL : at->name;
}

static int32_t find(const struct places *p, const char *name)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->list[i].name && strcmp(p->list[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

int32_t places_find(const struct places *p, const char *name)
{
    int32_t place = find(p, name);
    return place >= 0 && places_name(p, (uint32_t)place) ? place : -1;
}

static void answer(struct places *p, const struct br_turn_done *done, const struct br_turn_model_info *info)
{
    Briareus__ModelDone msg = BRIAREUS__MODEL_DONE__INIT;
    Briareus__ModelInfo info_msg;
    Briareus__StepShape step;
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    msg.ticket = done->ticket;
    msg.error = (char *)(done->rc ? done->error : "");
    msg.busy = done->rc == BR_EBUSY;
    msg.device_bytes = done->device_bytes;
    msg.host_bytes = done->host_bytes;
    if (info) {
        said_model_info(info, &step, &info_msg);
        msg.info = &info_msg;
    }
    frame.body_case = BRIAREUS__FRAME__BODY_MODEL_DONE;
    frame.model_done = &msg;
    p->send(p->ctx, &frame);
}

static void refuse(struct places *p, uint64_t ticket, const struct br_err *err)
{
    answer(p, &(struct br_turn_done){.ticket = ticket, .rc = err->code, .error = err->msg}, NULL);
}

static void place_free(struct places *p, uint32_t place)
{
    free(p->list[place].name);
    added_free(p->list[place].added);
    p->list[place] = (struct place){0};
}

/* ---- adding ---- */

static void on_work(uv_work_t *work)
{
    struct job *job = work->data;
    job->rc = added_make(job->added, &job->err);
}

static void on_made(uv_work_t *work, int status)
{
    struct job *job = work->data;
    struct places *p = job->places;
    (void)status;
    if (job->rc && p->turn)
        refuse(p, p->list[job->place].ticket, &job->err);
    if (job->rc || !p->turn)
        place_free(p, job->place);
    else
        br_turn_order(p->turn, &(struct br_turn_order){.ticket = p->list[job->place].ticket,
                                                       .what = BR_MODEL_ADD,
                                                       .model = job->place,
                                                       .add = added_model(job->added)});
    free(job);
}

static int32_t free_place(const struct places *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (!p->list[i].name)
            return (int32_t)i;
    return -1;
}

static void add(struct places *p, const Briareus__ModelOrder *order)
{
    int32_t place = free_place(p);
    struct job *job;
    struct added *added;
    struct br_err err;
    if (place < 0)
        br_err_set(&err, BR_EBUSY, "%d models have been added: the worker has to be restarted for more",
                   NODE_SPARE_MODELS);
    else if (find(p, order->model) >= 0)
        br_err_set(&err, BR_EBUSY, "it is here already, or on its way");
    else if (added_ask(p->plan, order->model, order->source, &added, &err) == 0) {
        p->list[place] = (struct place){.name = br_strdup(order->model), .added = added, .ticket = order->ticket};
        job = br_calloc(1, sizeof *job);
        *job = (struct job){.places = p, .added = added, .place = (uint32_t)place};
        job->work.data = job;
        uv_queue_work(p->loop, &job->work, on_work, on_made);
        return;
    }
    refuse(p, order->ticket, &err);
}

/* ---- */

/* One of a model that is not here gets its answer from the turn. */
void places_order(struct places *p, const Briareus__ModelOrder *order)
{
    int32_t place = places_find(p, order->model);
    bool removes = order->what == BR_MODEL_REMOVE;
    if (order->what == BR_MODEL_ADD) {
        add(p, order);
        return;
    }
    if (removes && place >= 0) {
        p->list[place].ticket = order->ticket;
        p->list[place].removes = true;
    }
    br_turn_order(p->turn, &(struct br_turn_order){.ticket = order->ticket,
                                                   .what = (enum br_model_order_what)order->what,
                                                   .model = place < 0 ? p->n : (uint32_t)place,
                                                   .host = (enum br_model_host)order->host});
}

void places_done(struct places *p, const struct br_turn_done *done)
{
    const struct br_turn_model_info *info = NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        struct place *at = &p->list[i];
        if (!at->name || at->ticket != done->ticket)
            continue;
        at->ticket = 0;
        if (!at->removes && done->rc == 0)
            info = br_turn_model_info(p->turn, i);
        br_log(BR_INFO, at->removes ? "model_removed" : "model_added", "model=%s error=%s", at->name,
               BR_Q(done->rc ? done->error : ""));
        if (at->removes == (done->rc == 0))
            place_free(p, i);
        else
            at->removes = false;
        break;
    }
    answer(p, done, info);
}
