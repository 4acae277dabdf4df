#include "loadgen/stats.h"

#include <string.h>

void load_stats_init(struct load_model_stats *stats)
{
    memset(stats, 0, sizeof *stats);
    br_hist_init(&stats->ttft_us);
    br_hist_init(&stats->tbt_us);
}

static uint64_t to_us(double s)
{
    return s > 0 ? (uint64_t)(s * 1e6 + 0.5) : 0;
}

void load_stats_tokens(struct load_model_stats *stats, struct load_progress *p, const struct load_slo *slo,
                       uint32_t total, double now_s)
{
    uint32_t fresh = total - p->tokens;
    if (total <= p->tokens)
        return;
    for (uint32_t k = p->tokens; k < total; k++)
        p->on_time += now_s <= p->scheduled_s + slo->ttft_s + k * slo->tbt_s;
    if (p->tokens == 0) {
        br_hist_add(&stats->ttft_us, to_us(now_s - p->scheduled_s));
    } else {
        for (uint32_t k = 0; k < fresh; k++) /* tokens that came together share the gap */
            br_hist_add(&stats->tbt_us, to_us((now_s - p->last_s) / fresh));
    }
    p->tokens = total;
    p->last_s = now_s;
}

static void count(struct load_model_stats *stats, const struct load_progress *p)
{
    stats->requests++;
    stats->tokens += p->tokens;
    stats->tokens_on_time += p->on_time;
}

void load_stats_finish(struct load_model_stats *stats, const struct load_progress *p)
{
    count(stats, p);
    stats->finished++;
    stats->tokens_owed += p->tokens;
}

void load_stats_fail(struct load_model_stats *stats, const struct load_progress *p, uint32_t target)
{
    count(stats, p);
    stats->failed++;
    stats->tokens_owed += target > p->tokens ? target : p->tokens;
}

void load_stats_merge(struct load_model_stats *into, const struct load_model_stats *from)
{
    into->requests += from->requests;
    into->finished += from->finished;
    into->failed += from->failed;
    into->tokens += from->tokens;
    into->tokens_on_time += from->tokens_on_time;
    into->tokens_owed += from->tokens_owed;
    into->prompt_tokens += from->prompt_tokens;
    br_hist_merge(&into->ttft_us, &from->ttft_us);
    br_hist_merge(&into->tbt_us, &from->tbt_us);
}

double load_attainment(const struct load_model_stats *stats)
{
    return stats->tokens_owed ? (double)stats->tokens_on_time / (double)stats->tokens_owed : 1.0;
}
