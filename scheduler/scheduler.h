/* The scheduler daemon: gateway + service + queue + link in one libuv loop. */
#ifndef BRIAREUS_SCHEDULER_SCHEDULER_H
#define BRIAREUS_SCHEDULER_SCHEDULER_H

#include "base/options.h"

struct br_scheduler_config {
    struct br_option_list models; /* NAME=DIR */
    struct br_option_list terms;  /* NAME=KEY=VALUE,...: model_terms.h */
    char *models_from;            /* file of models without a folder (cost/model_list.h); NULL: none */
    char *host;
    uint32_t port;        /* 0: any */
    char *worker_address; /* "unix:/path" or "tcp:host:port": where workers connect */
    char *worker_token;   /* shared secret; NULL: none */
    char *redis;          /* "unix:/path" or "tcp:host:port" */
    char *redis_prefix;
    char *chat_template;
    char *placement;   /* policy of core/fleet */
    double hysteresis; /* of slack, here and in the workers that this process starts */
    bool admission;
    const char *trace; /* file that requests are written to (report/trace.h); NULL: none */
    uint64_t trace_bytes;
    uint32_t max_model_len;
    char *generation_config; /* "auto": sampling defaults from each model's folder; "vllm": none */
    double shutdown_timeout_s, hung_s, ping_s;
    double ttft_s, tbt_s, adopt_s, group_commit_s, keep_ended_s;
    bool keep_tokens;
    uint32_t max_unfinished, max_devices, max_connections, max_choices;
    uint32_t slow_tokens;
    uint64_t max_head_bytes, max_body_bytes, max_out_bytes, slow_out_bytes;
    double request_timeout_s, idle_timeout_s;
    /* Reads the configuration again and calls use with it, for as long as that takes; an error of either. At SIGHUP,
     * and when config_file or models_from has changed. Of what it says the models are taken. NULL: never. */
    int (*again)(void *ctx, int (*use)(void *use_ctx, const struct br_scheduler_config *config, struct br_err *err),
                 void *use_ctx, struct br_err *err);
    void *again_ctx;
    const char *config_file;  /* NULL: none */
    char *admin_listen;       /* "host:port" of operators' endpoints; NULL: among the others */
    char *tls_cert, *tls_key; /* PEM files; NULL: plain HTTP */
    char *traces;             /* where spans go (gateway/otlp.h); NULL: nowhere */
    bool log_content;         /* prompts and answers go to the log */
    char *api_keys;           /* file of keys (gateway/auth.h); NULL: nobody is asked for one */
    int ready_fd;             /* the port is written here, as text and a newline, when it serves; -1: nobody asks */
};

/* Serves until SIGTERM or SIGINT; 0 after a clean stop. */
int br_scheduler_run(const struct br_scheduler_config *config, struct br_err *err);

#endif
