/* `briareus scheduler` and `briareus worker`: the daemons alone. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli/config.h"
#include "cli/serve.h"

static int finish(const char *program, struct cli_config *config, int rc, const struct br_err *err)
{
    cli_config_free(config);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", program, err->msg);
    if (rc < 0)
        return err->code == BR_EINVAL ? 2 : 1;
    return 0;
}

int br_cli_scheduler(int argc, char **argv)
{
    struct cli_config config;
    struct br_err err;
    int rc = cli_config_read(&config, CLI_SCHEDULER, "briareus scheduler",
                             "Serves the OpenAI API and hands sequences to workers.", argc, argv, &err);
    if (rc == 0 && !config.scheduler.worker_address)
        config.scheduler.worker_address = br_strdup("tcp:127.0.0.1:8001");
    if (rc == 0)
        rc = br_scheduler_run(&config.scheduler, &err);
    return finish("briareus scheduler", &config, rc, &err);
}

static void default_node(struct cli_config *config)
{
    char host[HOST_NAME_MAX + 1] = "node";
    if (config->node)
        return;
    gethostname(host, sizeof host - 1);
    config->node = br_strdup(host);
}

int br_cli_worker(int argc, char **argv)
{
    struct cli_config config;
    struct br_worker_config worker;
    struct br_worker_model *models = NULL;
    struct br_err err;
    int rc = cli_config_read(&config, CLI_WORKER, "briareus worker",
                             "Runs models on this machine's devices for a scheduler.", argc, argv, &err);
    if (rc == 0) {
        default_node(&config);
        rc = cli_worker_config(&config, &worker, &models, &err);
    }
    if (rc == 0) {
        rc = br_worker_run(&worker, &err);
        cli_worker_models_free(models, worker.n_models);
    }
    return finish("briareus worker", &config, rc, &err);
}
