/* A whole scheduler in one loop: gateway and link on real sockets, the queue in memory, scripted devices and clients.
 * Everything is awaited by running the loop until a condition holds. */
#ifndef BRIAREUS_TESTS_SERVICE_FIXTURE_H
#define BRIAREUS_TESTS_SERVICE_FIXTURE_H

#include "scheduler/service.h"
#include "tests/unit/scheduler/service/http_client.h"

enum { FIX_MAX_ASSIGNS = 64, FIX_TOKENS = 8 };

struct fix_assign {
    uint64_t seq, fence;
    uint32_t tokens; /* given with it */
    double age_s;
};

struct fix_device {
    struct fixture *f;
    const char *node; /* NULL: "n" */
    uint32_t number;
    uint64_t incarnation;
    double step_s;         /* of both models; 0: 10 ms */
    uint64_t memory_bytes; /* models have 1000 bytes each; 0: unknown */
    struct br_link_client *link;
    struct fix_assign assigns[FIX_MAX_ASSIGNS];
    uint32_t n_assigns, n_cancels, n_welcomes, n_adopted, acknowledged;
    uint64_t cancelled;
    uint32_t n_forgotten, n_handed; /* of the cancels; of these, with KV to be handed over */
    uint32_t kv_from;               /* of the last assign */
    uint32_t n_pauses, n_resumes, n_terms;
    uint64_t paced;
    double ttft_s, weight; /* of model m2, as told by the last terms */
    bool pinned;
    /* what Register reports as running */
    uint64_t running_seq, running_fence;
    uint32_t running_tokens;
    const struct fix_assign *runs; /* these instead, if there are any */
    uint32_t n_runs;
    /* Set: takes frames instead of what is counted above (welcomes are counted all the same). */
    void (*heard)(struct fix_device *device, const Briareus__Frame *frame);
};

struct fix_client {
    struct http_client *client;
    uint32_t tokens;
    bool done, ok;
    char why[300];
};

struct fixture {
    uv_loop_t loop;
    uv_timer_t limit;
    bool late;
    char dir[64], address[128];
    struct br_queue *queue;
    struct br_models *models;
    struct br_service *service;
    struct br_link_server *link;
    struct br_gateway *gateway;
    bool ready;
    const char *terms; /* model-terms of m2; NULL: none */
    bool admission;
    double hung_s;
};

/* Models m and m2, the same folder. */
void fixture_open(struct fixture *f, double adopt_s, uint32_t max_unfinished);
/* With what *f says of terms and admission. */
void fixture_open_with(struct fixture *f, double adopt_s, uint32_t max_unfinished);
void fixture_close(struct fixture *f);
/* Runs the loop until the condition holds; fails the test after ten seconds. */
#define FIX_UNTIL(f, condition)                                                                                        \
    do {                                                                                                               \
        fixture_arm(f);                                                                                                \
        while (!(condition) && !(f)->late)                                                                             \
            uv_run(&(f)->loop, UV_RUN_ONCE);                                                                           \
        if ((f)->late)                                                                                                 \
            fail_msg("waited ten seconds for: %s", #condition);                                                        \
    } while (0)
void fixture_arm(struct fixture *f);

void device_connect(struct fixture *f, struct fix_device *d, uint32_t number, uint64_t incarnation);
void device_leave(struct fix_device *d);
/* Sends n tokens (ids 100 + index) from index first; end may be BR_END_NONE. */
void device_tokens(struct fix_device *d, uint64_t seq, uint64_t fence, uint32_t first, uint32_t n, enum br_end end);

/* Reports so many steps done in all, and sequences running of m. */
void device_reports(struct fix_device *d, uint64_t steps, uint32_t running);
/* Reports so many bytes of weights of m and m2. */
void device_holds(struct fix_device *d, uint64_t m_bytes, uint64_t m2_bytes);

void client_ask(struct fixture *f, struct fix_client *c, uint32_t max_tokens);
/* Of this model, for FIX_TOKENS, with further members of the body: "" or ",\"name\":value". */
void client_ask_with(struct fixture *f, struct fix_client *c, const char *model, const char *more);

#endif
