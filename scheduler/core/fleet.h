/* The half of the scheduler that runs in the leader: which device gets which sequence. Pure, like device.h. */
#ifndef BRIAREUS_SCHEDULER_CORE_FLEET_H
#define BRIAREUS_SCHEDULER_CORE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct br_fleet;

struct br_fleet_config {
    uint32_t max_devices, max_models, max_seqs;
    uint32_t max_unfinished; /* sequences accepted and not ended; more are refused (429) */
};

enum br_fleet_event_kind {
    BR_FLEET_DEVICE_UP,    /* device; serves no model yet. Up already: only a drain ends */
    BR_FLEET_DEVICE_DOWN,  /* device: its sequences wait again */
    BR_FLEET_DEVICE_DRAIN, /* device: gets nothing new */
    BR_FLEET_MODEL_ON,     /* device, model: may run there; step_s, load_s */
    BR_FLEET_MODEL_OFF,    /* device, model: its sequences there wait again */
    BR_FLEET_ARRIVE,       /* seq, model, tokens: admitted or refused now, assigned now or when a device comes */
    BR_FLEET_RECOVER,      /* seq, model, tokens: like arrive, but never refused; of a known seq: nothing */
    BR_FLEET_ADOPT,        /* seq, device, (if unknown:) model, tokens: runs there already; if assigned to another
                              device meanwhile it stays there: see br_fleet_device_of */
    BR_FLEET_END,          /* seq */
    BR_FLEET_TICK,
};

struct br_fleet_event {
    enum br_fleet_event_kind kind;
    uint32_t device, model; /* indices chosen by the caller */
    uint32_t seq;           /* index < max_seqs, chosen by the caller */
    uint32_t tokens;        /* prompt + max_tokens: its weight */
    double step_s, load_s;
};

enum br_fleet_action_kind {
    BR_FLEET_ASSIGN, /* seq to device */
    BR_FLEET_REFUSE, /* seq: over the bound; retry_s is a hint */
};

struct br_fleet_action {
    enum br_fleet_action_kind kind;
    uint32_t seq, device;
    double retry_s;
};

enum { BR_FLEET_MAX_ACTIONS = 1024 };

struct br_fleet_actions {
    uint32_t n;
    bool more; /* full: call again with BR_FLEET_TICK */
    struct br_fleet_action actions[BR_FLEET_MAX_ACTIONS];
};

int br_fleet_create(const struct br_fleet_config *config, struct br_fleet **out, struct br_err *err);
void br_fleet_destroy(struct br_fleet *fleet);
void br_fleet_step(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                   struct br_fleet_actions *actions);
/* Would one more sequence of this model be admitted? For a 429 before work is spent on a request. */
bool br_fleet_admits(const struct br_fleet *fleet, uint32_t n_seqs);
uint32_t br_fleet_waiting(const struct br_fleet *fleet);
int32_t br_fleet_device_of(const struct br_fleet *fleet, uint32_t seq); /* -1: waiting or unknown */
int br_fleet_check(const struct br_fleet *fleet, struct br_err *err);

#endif
