#include <string.h>

#include "scheduler/core/policies/policy.h"

static const struct br_pl_policy *const table[] = {&pl_policy_aegaeon, &pl_policy_dedicated,   &pl_policy_multiplex,
                                                   &pl_policy_request, &pl_policy_request_sjf, &pl_policy_slack};

const struct br_pl_policy *pl_policy_find(const char *name, const char **names)
{
    *names = "aegaeon, dedicated, multiplex, request, request-sjf, slack";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}
