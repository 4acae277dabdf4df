#include "proto/transfers.h"

#include <math.h>
#include <string.h>

#define SECONDS_N false
#define SECONDS_S true
#define ROW(member, type, metric, label, help)                                                                         \
    {#member, metric, label, help, SECONDS_##type, offsetof(struct br_transfers, member)},
static const struct br_transfer_counter g_counters[] = {BR_TRANSFERS(ROW)};
#undef ROW

const struct br_transfer_counter *br_transfer_counters(uint32_t *n)
{
    *n = sizeof g_counters / sizeof *g_counters;
    return g_counters;
}

double br_transfer_value(const struct br_transfers *transfers, const struct br_transfer_counter *counter)
{
    const char *at = (const char *)transfers + counter->at;
    return counter->seconds ? *(const double *)(const void *)at : (double)*(const uint64_t *)(const void *)at;
}

void br_transfer_set(struct br_transfers *transfers, const struct br_transfer_counter *counter, double value)
{
    char *at = (char *)transfers + counter->at;
    value = value > 0 ? value : 0;
    if (counter->seconds)
        *(double *)(void *)at = value;
    else
        *(uint64_t *)(void *)at = value < 0x1p62 ? (uint64_t)value : 1ull << 62;
}

bool br_transfer_is_gauge(const struct br_transfer_counter *counter)
{
    static const char grows[] = "_total";
    size_t len = strlen(counter->metric);
    return len < sizeof grows || strcmp(counter->metric + len - (sizeof grows - 1), grows) != 0;
}

void br_transfers_add(struct br_transfers *sum, const struct br_transfers *more)
{
#define ADD(member, ...) sum->member += more->member;
    BR_TRANSFERS(ADD)
#undef ADD
}

void br_transfers_to_pb(const struct br_transfers *t, Briareus__Transfers *msg, Briareus__StepReport *report)
{
    briareus__transfers__init(msg);
#define TO_REPORT(member, ...) report->member = t->member;
#define TO_MESSAGE(member, ...) msg->member = t->member;
    BR_TRANSFERS_OF_REPORT(TO_REPORT)
    BR_TRANSFERS_OF_THEIR_OWN(TO_MESSAGE)
    report->transfers = msg;
}

/* More is nobody's bytes, and would not pass through JSON. */
static uint64_t taken_N(uint64_t value)
{
    return value < 1ull << 62 ? value : 1ull << 62;
}

static double taken_S(double value)
{
    return isfinite(value) && value > 0 ? value : 0;
}

void br_transfers_from_pb(const Briareus__StepReport *report, struct br_transfers *out)
{
    const Briareus__Transfers *msg = report->transfers;
    *out = (struct br_transfers){0};
#define FROM_REPORT(member, type, ...) out->member = taken_##type(report->member);
#define FROM_MESSAGE(member, type, ...) out->member = taken_##type(msg->member);
    BR_TRANSFERS_OF_REPORT(FROM_REPORT)
    if (!msg)
        return;
    BR_TRANSFERS_OF_THEIR_OWN(FROM_MESSAGE)
}
