#include "tests/unit/scheduler/queue/conformance.h"

static struct br_queue *create(uv_loop_t *loop)
{
    struct br_queue *q = 0;
    struct br_err err;
    br_queue_mem_create(loop, &q, &err);
    return q;
}

int main(void)
{
    return conformance_run(create);
}
