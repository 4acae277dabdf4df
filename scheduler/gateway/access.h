/* Who may do what: public paths, paths that need an API key when keys are asked for, and those of operators, which are
 * on a listener of their own when there is one. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_ACCESS_H
#define BRIAREUS_SCHEDULER_GATEWAY_ACCESS_H

#include "scheduler/gateway/http.h"

/* True: go on; http->client is whose key it came with (NULL: keys are not asked for here). False: it has been answered
 * with 401, 403 or 404. */
bool br_access(struct br_http *http);

#endif
