/* Orders about a model's weights, as in worker.proto's ModelOrder. */
#ifndef BRIAREUS_PROTO_ORDER_H
#define BRIAREUS_PROTO_ORDER_H

enum br_model_order_what {
    BR_MODEL_LOAD = 1,   /* onto the device, into room that is free or that idle models give up */
    BR_MODEL_UNLOAD = 2, /* off the device; of models without sequences there */
    BR_MODEL_ADD = 3,    /* to be served from now on */
    BR_MODEL_REMOVE = 4, /* unloaded, from the host cache too, and unknown from then on */
};

enum br_model_host {
    BR_HOST_KEEP = 0,   /* the host cache keeps them */
    BR_HOST_MAY_GO = 1, /* sees to it that this process can do without */
    BR_HOST_GO = 2,     /* takes them out; every process of the node has been told the former */
};

#endif
