/* What memory has cost a device so far: bytes, seconds, hits, and stalls by cause. One list for the wire (Transfers in
 * worker.proto), GET /stats and metrics: a counter that is added here, to the message and to whoever counts it shows up
 * in all of them. */
#ifndef BRIAREUS_PROTO_TRANSFERS_H
#define BRIAREUS_PROTO_TRANSFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/worker.pb-c.h"

/* X(member, type, metric, label, help). type: N (uint64_t) or S (double, seconds). Members of one metric are adjacent
 * and differ by label. A metric whose name does not end in _total is a gauge, all others only grow. The first list is
 * part of StepReport itself, where it was before. */
#define BR_TRANSFERS_OF_REPORT(X)                                                                                      \
    X(loaded_bytes, N, "weights_loaded_bytes_total", "", "Bytes of weights copied from host to device")                \
    X(kv_out_bytes, N, "kv_copied_bytes_total", "way=\"out\"", "Bytes of KV copied: device to host, back, or within")  \
    X(kv_in_bytes, N, "kv_copied_bytes_total", "way=\"in\"", "")

#define BR_TRANSFERS_OF_THEIR_OWN(X)                                                                                   \
    X(kv_moved_bytes, N, "kv_copied_bytes_total", "way=\"within\"", "")                                                \
    X(kv_out_s, S, "kv_copy_seconds_total", "way=\"out\"", "Seconds in which at least one such copy was under way")    \
    X(kv_in_s, S, "kv_copy_seconds_total", "way=\"in\"", "")                                                           \
    X(kv_moved_s, S, "kv_copy_seconds_total", "way=\"within\"", "")                                                    \
    X(swaps_out, N, "kv_swaps_total", "way=\"out\"", "Sequences whose KV was moved; ahead: before their turn")         \
    X(swaps_in, N, "kv_swaps_total", "way=\"in\"", "")                                                                 \
    X(swaps_ahead, N, "kv_swaps_total", "way=\"in_ahead\"", "")                                                        \
    X(drops, N, "kv_drops_total", "", "Sequences whose KV was given up, to be computed again")                         \
    X(handed_out_bytes, N, "kv_handed_bytes_total", "way=\"out\"",                                                     \
      "Bytes of KV to and from other devices of the node")                                                             \
    X(handed_in_bytes, N, "kv_handed_bytes_total", "way=\"in\"", "")                                                   \
    X(handed_tokens, N, "kv_handed_tokens_total", "", "Tokens whose KV came so, and was not computed again")           \
    X(handed_damaged, N, "kv_handed_damaged_total", "", "Found damaged by a checksum, and computed again")             \
    X(handed_in_s, S, "kv_handed_in_seconds_total", "", "Seconds of verifying and copying in")                         \
    X(load_s, S, "weights_load_seconds_total", "", "Seconds in which at least one load of weights was under way")      \
    X(evicted_bytes, N, "weights_evicted_bytes_total", "", "Bytes of weights that left the device")                    \
    X(moved_bytes, N, "weights_moved_bytes_total", "", "Bytes of weights moved within the device, to close gaps")      \
    X(switch_hits, N, "switch_hits_total", "", "Switches to a model whose weights were all on the device")             \
    X(shortages, N, "shortages_total", "", "What the policy had planned found no room")                                \
    X(stalled_weights_s, S, "stall_seconds_total", "cause=\"weights\"",                                                \
      "Seconds with work and no computing, by what was waited for")                                                    \
    X(stalled_kv_s, S, "stall_seconds_total", "cause=\"kv\"", "")                                                      \
    X(stalled_room_s, S, "stall_seconds_total", "cause=\"room\"", "")                                                  \
    X(stalled_compaction_s, S, "stall_seconds_total", "cause=\"compaction\"", "")                                      \
    X(stalled_other_s, S, "stall_seconds_total", "cause=\"other\"", "")                                                \
    X(cache_hits, N, "host_cache_units_total", "result=\"hit\"", "Units of weights asked of the host cache")           \
    X(cache_misses, N, "host_cache_units_total", "result=\"miss\"", "")                                                \
    X(cache_hit_bytes, N, "host_cache_read_bytes_total", "result=\"hit\"", "Bytes of these units")                     \
    X(cache_missed_bytes, N, "host_cache_read_bytes_total", "result=\"miss\"", "")                                     \
    X(cache_filled_bytes, N, "host_cache_filled_bytes_total", "", "Bytes of weights put into the host cache")          \
    X(cache_dropped_bytes, N, "host_cache_dropped_bytes_total", "", "Bytes of weights taken out of the host cache")    \
    X(cache_repaired, N, "host_cache_repaired_total", "", "Units read again because their checksum was wrong")         \
    X(cache_failures, N, "host_cache_failures_total", "", "Units that could not be had")                               \
    X(cache_wait_s, S, "host_cache_wait_seconds_total", "", "Seconds in which copies waited for units to be ready")    \
    X(disk_bytes, N, "disk_read_bytes_total", "", "Bytes read from model folders")                                     \
    X(disk_s, S, "disk_read_seconds_total", "", "Seconds of reading, summed over units read at the same time")         \
    X(checked_bytes, N, "checksum_bytes_total", "", "Bytes of cached weights that were verified")                      \
    X(checked_s, S, "checksum_seconds_total", "", "Seconds of verifying, summed over units")                           \
    X(cache_bytes, N, "host_cache_bytes", "", "Bytes of weights in the host cache, of all devices of the node")        \
    X(cache_limit_bytes, N, "host_cache_limit_bytes", "", "What they may be at most")                                  \
    X(device_weight_bytes, N, "device_weight_bytes", "", "Bytes of weights on the device")                             \
    X(device_kv_bytes, N, "device_kv_bytes", "", "Bytes of KV on the device")                                          \
    X(host_kv_bytes, N, "host_kv_bytes", "", "Bytes of KV in host memory")                                             \
    X(host_kv_limit_bytes, N, "host_kv_limit_bytes", "", "What they may be at most")

#define BR_TRANSFERS(X) BR_TRANSFERS_OF_REPORT(X) BR_TRANSFERS_OF_THEIR_OWN(X)

#define BR_TRANSFERS_TYPE_N uint64_t
#define BR_TRANSFERS_TYPE_S double
#define BR_TRANSFERS_MEMBER(member, type, ...) BR_TRANSFERS_TYPE_##type member;
struct br_transfers {
    BR_TRANSFERS(BR_TRANSFERS_MEMBER)
};
#undef BR_TRANSFERS_MEMBER

struct br_transfer_counter {
    const char *name;   /* the member's, and the key in JSON */
    const char *metric; /* without the program's prefix */
    const char *label;  /* "", or as it stands between braces in the Prometheus text format */
    const char *help;   /* of the first of its metric */
    bool seconds;
    size_t at; /* in struct br_transfers */
};

/* All of them, in the order of the list. */
const struct br_transfer_counter *br_transfer_counters(uint32_t *n);
double br_transfer_value(const struct br_transfers *transfers, const struct br_transfer_counter *counter);
/* value < 0 is 0, and so is NaN; what is no number of seconds is rounded down. */
void br_transfer_set(struct br_transfers *transfers, const struct br_transfer_counter *counter, double value);
bool br_transfer_is_gauge(const struct br_transfer_counter *counter);
void br_transfers_add(struct br_transfers *sum, const struct br_transfers *more);

/* report and report->transfers take what transfers says; msg is what report->transfers becomes. */
void br_transfers_to_pb(const struct br_transfers *transfers, Briareus__Transfers *msg, Briareus__StepReport *report);
/* What a report says; of one without Transfers (an older worker) the rest is 0. NaN, negative and infinite seconds are
 * 0, more than 2^62 is 2^62. */
void br_transfers_from_pb(const Briareus__StepReport *report, struct br_transfers *out);

#endif
