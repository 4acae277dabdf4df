/* The table of policies: which slot has its turn. Everything else (step composition, swaps, victims by turn order) is
 * the same for all. Internal to scheduler/core. */
#ifndef BRIAREUS_SCHEDULER_CORE_POLICY_H
#define BRIAREUS_SCHEDULER_CORE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct dev_rr;

struct dev_policy {
    const char *name;
    /* The slot got its first sequence, lost its last one. */
    void (*join)(struct dev_rr *dev, uint32_t slot);
    void (*leave)(struct dev_rr *dev, uint32_t slot);
    /* A step of the slot is done. */
    void (*stepped)(struct dev_rr *dev, uint32_t slot, double now_s);
    /* Whose turn it is now; -1: no slot has sequences. */
    int32_t (*pick)(struct dev_rr *dev, double now_s);
    /* The picked slot cannot start: its turn goes to this one. */
    void (*pass)(struct dev_rr *dev, uint32_t slot);
    int32_t (*next)(const struct dev_rr *dev);
    /* Turns until the slot's; 0: it has it now, UINT32_MAX: none to come. */
    uint32_t (*rank)(const struct dev_rr *dev, uint32_t slot);
    /* Whether the policy's own books agree with the slots'; NULL or what is wrong. */
    const char *(*broken)(const struct dev_rr *dev);
};

extern const struct dev_policy dev_policy_quota_rr;

/* NULL: no such policy; then *names lists the known ones. */
const struct dev_policy *dev_policy_find(const char *name, const char **names);

#endif
