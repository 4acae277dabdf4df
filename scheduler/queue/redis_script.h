/* What Redis does in one step. Every script returns an array: a br_err_code first, then its values. Safe to repeat. */
#ifndef BRIAREUS_SCHEDULER_QUEUE_REDIS_SCRIPT_H
#define BRIAREUS_SCHEDULER_QUEUE_REDIS_SCRIPT_H

enum br_script {
    /* KEYS unfinished, hash...; ARGV (id, spec)... -> 0, arrival_us, fence | EINVAL (an id is another sequence's) */
    BR_SCRIPT_ACCEPT,
    /* KEYS hash; ARGV owner, call -> 0, fence | ENOENT (over) | EINVAL (unknown). The same owner's call is counted
       once. */
    BR_SCRIPT_LEASE,
    /* KEYS hash, list, unfinished; ARGV fence, first, count, end, ttl_s, id, run, error,
     * keep (1: prompt and tokens outlive the end)
     * -> 0 | ENOENT (over) | ESTALE | EINVAL (unknown, an older fence, or a gap) */
    BR_SCRIPT_APPEND,
    /* KEYS unfinished, hash; ARGV id, spec, fence, arrival_us -> 0 | ENOENT (over) | ESTALE */
    BR_SCRIPT_RESTORE,
    /* KEYS hash, list, unfinished; ARGV id -> 0, spec, fence, n, arrival_us, now_us, {run...} | ENOENT (over) |
       ECORRUPT */
    BR_SCRIPT_READ,
    /* KEYS unfinished, broken; ARGV member -> 0 */
    BR_SCRIPT_ASIDE,
    BR_SCRIPT_COUNT,
    BR_SCRIPT_NONE = BR_SCRIPT_COUNT, /* a plain command */
};

extern const char *const br_scripts[BR_SCRIPT_COUNT];

#endif
