/* GET /models and POST /models/load, /models/unload, /models/pin, /models/unpin: what is done about models while they
 * are served. Bodies: {"model": NAME}; unload also "host" (out of the host cache too) and "wait" (for its sequences to
 * end; new ones are refused meanwhile); load also "wait" (false: answered at once). */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_MODELS_ADMIN_H
#define BRIAREUS_SCHEDULER_GATEWAY_MODELS_ADMIN_H

#include "scheduler/gateway/gateway_impl.h"

void br_route_models_state(struct br_http *http, const char *rest);
void br_route_model_order(struct br_http *http, const char *rest); /* rest: "load", "unload", "pin" or "unpin" */
/* The client of an order under way is gone. */
void br_admin_abandon(struct br_gateway_admin *admin);
/* The gateway stops: those under way are answered with 503. */
void br_admin_stop(struct br_gateway *gateway);

#endif
