/* Frames to devices. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "proto/convert.h"
#include "scheduler/service_impl.h"

static struct br_link_peer *seq_peer(struct br_service *s, const struct sched_seq *seq)
{
    return seq->device >= 0 ? s->devices[seq->device].peer : NULL;
}

/* ---- of a sequence ---- */

static bool of_one_node(const struct br_service *s, uint32_t a, uint32_t b)
{
    return a != b && s->devices[a].node_index == s->devices[b].node_index;
}

void service_send_assign(struct br_service *s, struct sched_seq *seq)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Assign assign = BRIAREUS__ASSIGN__INIT;
    struct br_seq_spec_pb spec;
    struct br_link_peer *peer = seq_peer(s, seq);
    seq->progress = false;
    seq->given = peer != NULL;
    if (!peer)
        return; /* away: it comes back and adopts, or is declared lost */
    br_seq_spec_to_pb(&seq->spec, &spec);
    assign.spec = &spec.msg;
    assign.fence = seq->fence;
    assign.tokens = br_tokens_to_pb(0, seq->tokens, seq->n_tokens);
    assign.age_s = service_age_s(seq);
    if (seq->kv_from && of_one_node(s, seq->kv_from - 1, (uint32_t)seq->device))
        assign.kv_from = s->devices[seq->kv_from - 1].number + 1;
    seq->kv_from = 0;
    frame.body_case = BRIAREUS__FRAME__BODY_ASSIGN;
    frame.assign = &assign;
    br_log(BR_INFO, "seq_assigned",
           "seq=%" PRIu64 " req=%s model=%s node=%s device=%u fence=%" PRIu64 " prompt=%u tokens=%u", seq->spec.id,
           seq->spec.request_id, seq->spec.model, s->devices[seq->device].node, s->devices[seq->device].number,
           seq->fence, seq->spec.n_prompt, seq->n_tokens);
    service_trace_assigned(s, seq);
    br_link_send(peer, &frame);
    free(assign.tokens);
    if (seq->paused)
        service_send_pace(s, seq);
}

static void send_cancel(struct br_link_peer *peer, uint64_t id, uint64_t fence, bool forget, bool hand_over)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Cancel cancel = BRIAREUS__CANCEL__INIT;
    cancel.seq = id;
    cancel.fence = fence;
    cancel.forget = forget;
    cancel.hand_over = hand_over;
    frame.body_case = BRIAREUS__FRAME__BODY_CANCEL;
    frame.cancel = &cancel;
    br_link_send(peer, &frame);
}

void service_send_stray(struct br_link_peer *peer, uint64_t id, uint64_t fence)
{
    send_cancel(peer, id, fence, false, false);
}

void service_send_cancel(struct br_service *s, struct sched_seq *seq)
{
    struct br_link_peer *peer = seq_peer(s, seq);
    if (peer && seq->state == SCHED_RUNNING)
        send_cancel(peer, seq->spec.id, seq->fence, false, false);
}

void service_send_release(struct br_service *s, struct sched_seq *seq)
{
    struct br_link_peer *peer = seq_peer(s, seq);
    if (peer && seq->state == SCHED_RUNNING)
        send_cancel(peer, seq->spec.id, seq->fence, true, false);
}

void service_send_hand_over(struct br_service *s, struct sched_seq *seq, uint32_t to)
{
    struct br_link_peer *peer = seq_peer(s, seq);
    bool near = seq->device >= 0 && of_one_node(s, (uint32_t)seq->device, to);
    seq->kv_from = 0;
    if (!peer || seq->state != SCHED_RUNNING)
        return;
    send_cancel(peer, seq->spec.id, seq->fence, true, near);
    if (near)
        seq->kv_from = (uint32_t)seq->device + 1;
}

void service_send_pace(struct br_service *s, struct sched_seq *seq)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Pause pause = BRIAREUS__PAUSE__INIT;
    Briareus__Resume resume = BRIAREUS__RESUME__INIT;
    struct br_link_peer *peer = seq_peer(s, seq);
    if (!peer || seq->state != SCHED_RUNNING)
        return;
    pause.seq = resume.seq = seq->spec.id;
    pause.fence = resume.fence = seq->fence;
    frame.body_case = seq->paused ? BRIAREUS__FRAME__BODY_PAUSE : BRIAREUS__FRAME__BODY_RESUME;
    if (seq->paused)
        frame.pause = &pause;
    else
        frame.resume = &resume;
    br_link_send(peer, &frame);
}

/* ---- of models ---- */

static void terms_of(struct br_service *s, uint32_t model, Briareus__ModelTerms *out)
{
    const struct br_gateway_model *m = br_models_at(s->models, model);
    briareus__model_terms__init(out);
    out->name = (char *)m->name;
    out->ttft_s = m->ttft_s;
    out->tbt_s = m->tbt_s;
    out->weight = m->weight;
    out->rate = s->rates[model];
    out->pinned = br_models_pinned(s->models, model);
}

/* One worth telling: a change of more than a fifth, and of more than one request in an hour. */
static bool rate_changed(struct br_service *s, uint32_t model)
{
    double rate = br_fleet_rate(s->fleet, model, br_now_s()), before = s->rates[model];
    if (fabs(rate - before) <= .2 * fmax(rate, before) || fabs(rate - before) < 1. / 3600)
        return false;
    s->rates[model] = rate;
    return true;
}

static void terms_send(struct br_service *s, Briareus__Terms *terms)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    frame.body_case = BRIAREUS__FRAME__BODY_TERMS;
    frame.terms = terms;
    for (uint32_t i = 0; terms->n_models && i < s->n_devices; i++)
        if (s->devices[i].peer)
            br_link_send(s->devices[i].peer, &frame);
}

void service_send_terms(struct br_service *s, uint32_t model)
{
    Briareus__Terms terms = BRIAREUS__TERMS__INIT;
    Briareus__ModelTerms one, *list = &one;
    terms_of(s, model, &one);
    terms.models = &list;
    terms.n_models = 1;
    terms_send(s, &terms);
}

void service_send_rates(struct br_service *s)
{
    Briareus__Terms terms = BRIAREUS__TERMS__INIT;
    uint32_t n = br_models_count(s->models);
    Briareus__ModelTerms *models = br_calloc(n + 1, sizeof *models), **list = br_calloc(n + 1, sizeof *list);
    for (uint32_t i = 0; i < n; i++)
        if (br_models_present(s->models, i) && rate_changed(s, i)) {
            list[terms.n_models] = &models[terms.n_models];
            terms_of(s, i, list[terms.n_models++]);
        }
    terms.models = list;
    terms_send(s, &terms);
    free(list);
    free(models);
}

/* ---- welcome ---- */

static void adopts_fill(struct br_service *s, struct sched_device *d, const Briareus__Register *hello,
                        Briareus__Welcome *welcome, Briareus__Adopt *adopts)
{
    uint32_t device = (uint32_t)(d - s->devices);
    for (size_t i = 0; i < hello->n_running; i++) {
        struct sched_seq *seq = seqtab_find(s->seqs, hello->running[i]->seq);
        Briareus__Adopt *adopt = &adopts[welcome->n_adopted];
        if (!service_adoptable(s, seq, device, hello->running[i]))
            continue;
        briareus__adopt__init(adopt);
        adopt->seq = seq->spec.id;
        adopt->fence = seq->fence;
        adopt->acknowledged = seq->n_tokens;
        adopt->paused = seq->paused;
        welcome->adopted[welcome->n_adopted++] = adopt;
    }
}

/* Tells the device which of its sequences go on (what it is not told it drops), and the models' terms. */
void service_send_welcome(struct br_service *s, struct sched_device *d, const Briareus__Register *hello)
{
    Briareus__Frame frame = BRIAREUS__FRAME__INIT;
    Briareus__Welcome welcome = BRIAREUS__WELCOME__INIT;
    uint32_t n = br_models_count(s->models);
    Briareus__Adopt *adopts = br_calloc(hello->n_running + 1, sizeof *adopts);
    Briareus__ModelTerms *terms = br_calloc(n + 1, sizeof *terms);
    welcome.version = BR_LINK_VERSION;
    welcome.adopted = br_calloc(hello->n_running + 1, sizeof *welcome.adopted);
    welcome.terms = br_calloc(n + 1, sizeof *welcome.terms);
    adopts_fill(s, d, hello, &welcome, adopts);
    for (uint32_t i = 0; i < n; i++) {
        if (!br_models_present(s->models, i))
            continue;
        terms_of(s, i, &terms[i]);
        welcome.terms[welcome.n_terms++] = &terms[i];
    }
    frame.body_case = BRIAREUS__FRAME__BODY_WELCOME;
    frame.welcome = &welcome;
    br_link_send(d->peer, &frame);
    free(welcome.adopted);
    free(welcome.terms);
    free(adopts);
    free(terms);
}
