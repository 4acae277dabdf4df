/* What `briareus plan` says of a workload on the devices that `briareus serve` is started with: the planner's library,
 * the very same requests. */
#ifndef BRIAREUS_CLI_DEVICES_PREDICT_H
#define BRIAREUS_CLI_DEVICES_PREDICT_H

#include "cli/config.h"
#include "loadgen/session.h"
#include "sim/plan/pool.h"

struct devices_predict {
    struct plan_ask ask;
    struct plan_pool pool;
    struct plan_requests requests;
    struct br_worker_config worker;
    struct br_worker_model *served; /* [worker.n_models] */
    struct br_measured measured;    /* with --costs */
    struct br_gpu device;           /* stands for its device */
};

/* Borrows serve. Simulated GPUs cost what cost/ says, CPU devices what the file load->costs does; the device's memory
 * and link are those that serve is told. BR_ENOTSUP: the planner knows nothing of such devices; err says why. The
 * models of the workload are those of serve, by name (BR_EINVAL else); requests that arrive in the warm-up do not
 * count. */
int devices_predict_open(struct devices_predict *out, const struct cli_config *serve, const struct load_config *load,
                         const struct br_workload *workload, struct br_err *err);
void devices_predict_close(struct devices_predict *predict);

/* Seconds of the planner's clock in one of the wall's: serve's --speed. */
double devices_predict_speed(const struct devices_predict *predict);
/* The fewest devices of `least` to `most` that hold `target` (a share); 0: not even most; < 0: *err. */
int32_t devices_predict_need(struct devices_predict *predict, const char *policy, double target, uint32_t least,
                             uint32_t most, struct br_err *err);
/* A run with n devices, added to the tally; watched, if there is an observer. Its attainment; < 0: *err. */
double devices_predict_run(struct devices_predict *predict, const char *policy, uint32_t n, struct plan_tally *tally,
                           const struct sim_observer *observer, struct br_err *err);

#endif
