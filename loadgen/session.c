#include "loadgen/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

int load_session_open(struct load_session *s, const struct load_config *config, struct br_err *err)
{
    memset(s, 0, sizeof *s);
    s->config = config;
    if (load_config_check(config, err) || load_result_check(config, err))
        return err->code;
    return load_target_parse(config->base_url, &s->target, err);
}

static int find_words(struct load_session *s, struct br_err *err)
{
    const struct br_workload *w = &s->offer.workload;
    if (s->lexicons && s->n_lexicons == w->n_models)
        return 0;
    free(s->lexicons);
    s->n_lexicons = w->n_models;
    s->lexicons = br_calloc(w->n_models + 1, sizeof *s->lexicons);
    return load_lexicons_make(s->config, &s->target, w->names, w->n_models, s->lexicons, s->note, err);
}

int load_session_run(struct load_session *s, double rate_factor, uint64_t seed, const char *label, struct br_err *err)
{
    struct load_ask ask;
    int rc;
    load_journal_free(&s->journal);
    load_offer_free(&s->offer);
    rc = load_offer_make(s->config, rate_factor, seed, &s->offer, err);
    if (rc)
        return rc;
    rc = find_words(s, err);
    if (rc)
        return rc;
    rc = load_ask_init(&ask, s->config, &s->target, &s->offer.workload, s->lexicons, seed, err);
    if (rc == 0)
        rc = load_run(s->config, &s->target, &ask, label, &s->journal, err);
    load_ask_free(&ask);
    return rc;
}

void load_session_close(struct load_session *s)
{
    load_journal_free(&s->journal);
    load_offer_free(&s->offer);
    free(s->lexicons);
}
