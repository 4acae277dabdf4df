/* The half of the scheduler that runs in the leader: which device gets which sequence, what moves, who is refused.
 * Pure, like device.h: time and events in, actions out.
 *
 * It is a mirror of all devices: a pool (policies/pool.h) whose policy places arrivals and rebalances every quarter
 * second, told by events what the devices have done. Policies by name: `slack` (policy.md) or `spread` (the least
 * loaded device that serves the model, no replicas, no moves).
 *
 * What was accepted is never refused. Who is to be refused hears so before: br_fleet_admits. */
#ifndef BRIAREUS_SCHEDULER_CORE_FLEET_H
#define BRIAREUS_SCHEDULER_CORE_FLEET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "scheduler/core/step_cost.h"

struct br_fleet;

struct br_fleet_config {
    uint32_t max_devices, max_models, max_seqs;
    uint32_t max_unfinished; /* sequences accepted and not ended; more are refused (429) */
    uint32_t max_nodes;      /* 0: devices have no nodes */
    const char *policy;      /* NULL: slack */
    bool admission;          /* refuse what the devices' load says would be late; else only beyond max_unfinished */
    double hysteresis;       /* of the policy, share of TTFT; 0: its own */
};

enum br_fleet_event_kind {
    BR_FLEET_DEVICE_UP,    /* device, memory_bytes, link_bytes_per_s, node; serves no model yet. Up already: only a
                              drain ends */
    BR_FLEET_DEVICE_DOWN,  /* device: its sequences wait again */
    BR_FLEET_DEVICE_DRAIN, /* device: gets nothing new */
    BR_FLEET_MODEL_SET,    /* model: ttft_s, tbt_s, weight, pinned; of all devices */
    BR_FLEET_MODEL_ON,     /* device, model: may run there; weights_bytes, kv_token_bytes, shape. Again: new values */
    BR_FLEET_MODEL_OFF,    /* device, model: its sequences there wait again */
    BR_FLEET_MODEL_GONE,   /* model: its sequences end (BR_FLEET_FAIL each); no device serves it before MODEL_ON */
    BR_FLEET_ARRIVE,       /* seq and what is under "of a sequence" below; never refused. Of a known seq: nothing */
    BR_FLEET_RECOVER,      /* the same for one that was there before: says nothing about the rate of requests */
    BR_FLEET_ADOPT,        /* seq, device, the rest as of ARRIVE: runs there already; if assigned to another device
                              meanwhile it stays there: see br_fleet_device_of; if its model may not run there it waits */
    BR_FLEET_TOKENS,       /* seq, delivered: its device has made so many tokens of it */
    BR_FLEET_PAUSE,        /* seq: its deadline clock stands still */
    BR_FLEET_RESUME,       /* seq */
    BR_FLEET_RESIDENT,     /* device, model, bytes: of its weights there; running: it is what the device computes;
                              shape: if its fixed_s + read_s > 0, costs as the device has corrected them */
    BR_FLEET_LINK,         /* device, link_bytes_per_s: as measured */
    BR_FLEET_END,          /* seq. Unknown: nothing */
    BR_FLEET_TICK,         /* every .25 s: rebalances */
};

struct br_fleet_event {
    enum br_fleet_event_kind kind;
    uint32_t device, model, node; /* indices chosen by the caller */
    uint32_t seq;                 /* index < max_seqs, chosen by the caller */
    /* of a sequence */
    uint32_t prompt, delivered; /* tokens; prompt > 0 */
    uint32_t most;              /* tokens of its answer at most; 0: unknown */
    double age_s;               /* since its arrival, pauses not counted */
    double ttft_s, tbt_s;       /* 0: its model's. Of MODEL_SET: 10 s, 100 ms */
    double weight;              /* 0: its model's. Of MODEL_SET: 1 */
    /* of devices and models */
    int64_t memory_bytes;    /* 0: unknown, as good as endless */
    double link_bytes_per_s; /* 0: unknown, as good as endless */
    int64_t weights_bytes, kv_token_bytes, bytes;
    struct br_step_shape shape;
    bool pinned, running;
};

enum br_fleet_action_kind {
    BR_FLEET_ASSIGN,   /* seq, which waited, to device */
    BR_FLEET_MOVE,     /* seq from `from` to device; its KV does not travel: it is computed again there */
    BR_FLEET_UNASSIGN, /* seq waits: `from` may not run it any more and nobody else takes it now */
    BR_FLEET_FAIL,     /* seq: forgotten; its model is gone, or it fits on no device */
};

struct br_fleet_action {
    enum br_fleet_action_kind kind;
    uint32_t seq, device, from;
};

enum { BR_FLEET_MAX_ACTIONS = 2048 };

struct br_fleet_actions {
    uint32_t n;
    bool more; /* full: call again with BR_FLEET_TICK */
    struct br_fleet_action actions[BR_FLEET_MAX_ACTIONS];
};

/* BR_EINVAL for values that cannot be and for an unknown policy (names the known ones). */
int br_fleet_create(const struct br_fleet_config *config, struct br_fleet **out, struct br_err *err);
void br_fleet_destroy(struct br_fleet *fleet);
void br_fleet_step(struct br_fleet *fleet, double now_s, const struct br_fleet_event *event,
                   struct br_fleet_actions *actions);

enum br_fleet_verdict {
    BR_FLEET_ADMIT,
    BR_FLEET_FULL, /* max_unfinished */
    BR_FLEET_LATE, /* too many tokens would be late, its own or those of others where it would go */
};

struct br_fleet_request {
    uint32_t model, n_seqs;
    uint32_t pending; /* others that have been admitted and not arrived yet */
    uint32_t prompt;  /* tokens of each */
    uint32_t most;    /* as of events */
    double ttft_s, tbt_s;
    uint64_t key; /* the same when it is asked again; 0: it keeps no place in the queue */
};

struct br_fleet_answer {
    enum br_fleet_verdict verdict;
    double retry_s;     /* when to try again, in 1 to 600 s: a place in a queue, kept for a few seconds from then on */
    double utilisation; /* of that device, with it; 1 is full */
    double attainment;  /* share of tokens on time there, with it */
};

/* May it come? Asked before any work is spent on it; an ADMIT is followed by its arrival, sooner or later. */
struct br_fleet_answer br_fleet_admits(struct br_fleet *fleet, double now_s, const struct br_fleet_request *request);
uint32_t br_fleet_waiting(const struct br_fleet *fleet);
int32_t br_fleet_device_of(const struct br_fleet *fleet, uint32_t seq); /* -1: waiting or unknown */
/* Part of the device that its sequences need; 1 is full. */
double br_fleet_utilisation(struct br_fleet *fleet, uint32_t device);
/* Requests/s of the model, by ARRIVE events: an exponential average over five minutes. */
double br_fleet_rate(const struct br_fleet *fleet, uint32_t model, double now_s);
int br_fleet_check(const struct br_fleet *fleet, struct br_err *err);

#endif
