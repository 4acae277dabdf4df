/* The OpenAI-compatible HTTP server: requests in, sequences to the backend, tokens back as JSON or SSE.
 *
 * It knows HTTP, JSON, tokenizers and chat templates; not queues, devices or workers: those stand behind the backend
 * table. One libuv loop; tokenising of long prompts runs on libuv's thread pool. */
#ifndef BRIAREUS_SCHEDULER_GATEWAY_GATEWAY_H
#define BRIAREUS_SCHEDULER_GATEWAY_GATEWAY_H

#include <uv.h>

#include "proto/seq.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct br_gateway;
struct br_key_list;
struct br_gateway_call; /* one client request with its sequences (n choices x prompts) */

/* Sampling parameters of requests that do not say, from the model's generation_config.json as in vLLM. */
enum br_default {
    BR_DEFAULT_TEMPERATURE = 1,
    BR_DEFAULT_TOP_P = 2,
    BR_DEFAULT_TOP_K = 4,
    BR_DEFAULT_MIN_P = 8,
    BR_DEFAULT_REPETITION = 16,
    BR_DEFAULT_MAX_TOKENS = 32,
};

struct br_gateway_defaults {
    unsigned given; /* br_default: which of these count */
    float temperature, top_p, min_p, repetition_penalty;
    int32_t top_k; /* 0: off */
    uint32_t max_tokens;
};

struct br_gateway_model {
    const char *name;
    const struct br_tokenizer *tokenizer; /* borrowed; a model lives as long as br_gateway_uses it */
    bool has_chat;
    struct br_chat_template chat; /* see text/chat.h; has_chat false: chat completions are refused with a clear 400 */
    uint32_t max_context;         /* positions: prompt + output */
    uint32_t vocab;
    int64_t created_s;
    double ttft_s, tbt_s; /* SLO */
    double weight;        /* of its requests beside other models'; 0: 1 */
    struct br_gateway_defaults defaults;
};

struct br_gateway_config {
    const char *host;
    int port; /* 0: any; see br_gateway_port */
    uint32_t max_connections;
    uint32_t max_header_bytes, max_body_bytes;
    uint32_t max_choices;       /* n x prompts of one request */
    uint32_t header_timeout_ms; /* slow clients: whole head and body within this */
    uint32_t idle_timeout_ms;   /* keep-alive */
    uint32_t ping_ms;           /* a silent stream gets a comment line this often (proxies, dead clients); 0: 30 s */
    uint64_t max_out_bytes;     /* waiting for one client that does not read; more: its sequences are cancelled */
    uint64_t slow_out_bytes;    /* above this tokens are kept instead of text; 0: 16 KiB */
    uint32_t slow_tokens;       /* kept for a client above which its sequences are to pause; 0: 1024 */
    const char *tls_cert, *tls_key; /* PEM files; NULL: plain HTTP. The operators' listener is always plain */
    const char *traces;             /* where spans go (otlp.h); NULL: nowhere */
    bool log_content;               /* prompts and answers go to the log */
    const char *admin_listen;       /* "host:port" where operators' endpoints are instead; NULL: none */
};

/* What a client asks to be done about a model: POST /models/... */
struct br_gateway_admin;
enum br_gateway_order_what { BR_GATEWAY_LOAD, BR_GATEWAY_UNLOAD, BR_GATEWAY_PIN, BR_GATEWAY_UNPIN };

struct br_gateway_order {
    enum br_gateway_order_what what;
    const char *model; /* as the client wrote it: it may be none */
    bool host;         /* unload: out of the host cache too */
    bool wait;         /* load: until it is there; unload: until its sequences have ended */
};

struct br_gateway_backend {
    void *ctx;
    /* Looks a model up by name; NULL: 404. */
    const struct br_gateway_model *(*model)(void *ctx, const char *name);
    uint32_t (*n_models)(void *ctx);
    const struct br_gateway_model *(*model_at)(void *ctx, uint32_t i);
    /* Why a known model cannot be served now (no device has it, failed to load); NULL: it can. */
    const char *(*model_trouble)(void *ctx, const struct br_gateway_model *model);
    /* The sequences of one call (specs are borrowed during the call; ids are set). Exactly one of br_gateway_accepted
     * or br_gateway_refused follows, at once or later; then tokens. */
    void (*submit)(void *ctx, struct br_gateway_call *call, const struct br_seq_spec *specs, uint32_t n);
    /* The client is gone (or the gateway stops): nobody waits for this sequence. No word about it may come afterwards,
     * nor about the call once all its unfinished sequences are cancelled. Never called from inside br_gateway_tokens:
     * a sequence that met its stop string is ended by the worker (BR_END_STOP_TEXT), the gateway only cuts the text. */
    void (*cancel)(void *ctx, struct br_gateway_call *call, uint64_t seq);
    /* The gateway stops and nobody waits for this accepted sequence any more, but it stays: as cancel otherwise. NULL:
     * it is cancelled. */
    void (*leave)(void *ctx, struct br_gateway_call *call, uint64_t seq);
    /* The client of this unfinished sequence does not read what it gets (pause), or reads again. Never called from
     * inside br_gateway_tokens. NULL: nobody cares. */
    void (*pace)(void *ctx, uint64_t seq, bool pause);
    bool (*healthy)(void *ctx, const char **why);
    /* Why new requests had better go elsewhere (in a buffer that stands until the next call); NULL: they may come, or
     * the function: when `healthy`. For GET /health/ready. */
    const char *(*unready)(void *ctx);
    /* A request asks for its model to stay loaded this long after it (0: not at all; below 0: for ever). NULL: nobody
     * listens. */
    void (*keep_alive)(void *ctx, const struct br_gateway_model *model, double seconds);
    /* Appends a JSON list for GET /running: models that hold memory or have work; NULL: there is no such path. */
    void (*running)(void *ctx, struct br_buf *out);
    /* Appends a JSON object for GET /stats; NULL: there is no such path. */
    void (*stats)(void *ctx, struct br_buf *out);
    /* POST /models/...: exactly one of br_gateway_ordered or br_gateway_order_refused follows, at once or later, unless
     * order_forget comes before: then none. NULL: there are no such paths. The order is borrowed during the call. */
    void (*order)(void *ctx, struct br_gateway_admin *admin, const struct br_gateway_order *order);
    void (*order_forget)(void *ctx, struct br_gateway_admin *admin);
    /* Appends a JSON object for GET /models; NULL: there is no such path. */
    void (*models_state)(void *ctx, struct br_buf *out);
    /* Appends what it counts to GET /metrics (base/metrics.h); NULL: nothing. */
    void (*metrics)(void *ctx, struct br_buf *out);
};

int br_gateway_start(uv_loop_t *loop, const struct br_gateway_config *config, const struct br_gateway_backend *backend,
                     struct br_gateway **out, struct br_err *err);
/* What is under way goes on; new requests get 503 with this Retry-After, /health/ready says so. */
void br_gateway_drain(struct br_gateway *gateway, double retry_after_s);
bool br_gateway_uses(const struct br_gateway *gateway, const struct br_gateway_model *model); /* some call does */
uint32_t br_gateway_open_calls(const struct br_gateway *gateway);
/* Stops listening, leaves open calls and ends them with 503 or an SSE error, frees. Handles close and tokenising under
 * way ends while the loop runs on: models and tokenizers must live until uv_run has returned. */
void br_gateway_stop(struct br_gateway *gateway);
int br_gateway_port(const struct br_gateway *gateway);
int br_gateway_admin_port(const struct br_gateway *gateway); /* -1: none */
/* Reads the files of tls_cert and tls_key again; an error changes nothing. */
int br_gateway_reload_tls(struct br_gateway *gateway, struct br_err *err);
/* From now on only these keys are let in; takes the list's keys (see auth.h). Requests under way go on. */
void br_gateway_set_keys(struct br_gateway *gateway, struct br_key_list *keys);

/* What the backend says of a call. All from the loop's thread, at once from inside submit or later. A call that the
 * client has left is gone when the last of its sequences is cancelled: the backend must not use it afterwards. */
void br_gateway_accepted(struct br_gateway_call *call);
/* status 429 or 503 (with Retry-After) or 500; message for the client. The call is gone afterwards. */
void br_gateway_refused(struct br_gateway_call *call, int status, double retry_after_s, const char *message);
/* KV of so many tokens of the sequence's prompt was known and not computed; to be said before br_gateway_tokens. */
void br_gateway_cached(struct br_gateway_call *call, uint64_t seq, uint32_t tokens);
/* n tokens of one sequence, in order, each once; with end other than BR_END_NONE these are the last (n may be 0). The
 * eos or stop id that ended a sequence (BR_END_STOP) is among its tokens; its text is left out unless include_stop.
 * error: for the client, with BR_END_FAILED; may be NULL. When every sequence of the call has ended, the answer is
 * completed and the call is gone. */
void br_gateway_tokens(struct br_gateway_call *call, uint64_t seq, const struct br_token *tokens, uint32_t n,
                       enum br_end end, const char *error);

/* What became of an order; admin is gone afterwards. json: the answer's body. */
void br_gateway_ordered(struct br_gateway_admin *admin, const char *json);
void br_gateway_order_refused(struct br_gateway_admin *admin, int status, double retry_after_s, const char *message);
/* Of a sequence of this call: its first step began so long after it was accepted. */
void br_gateway_first_step(struct br_gateway_call *call, double queue_s);

/* What a device did for a sequence. */
enum br_moment_kind { BR_MOMENT_TURN, BR_MOMENT_SWAP_OUT, BR_MOMENT_SWAP_IN };
struct br_gateway_moment {
    enum br_moment_kind kind;
    int64_t begin_ns, end_ns; /* monotonic, of this process */
    uint32_t steps, rows;     /* TURN: of the sequence */
    uint64_t bytes;           /* SWAP: KV */
    const char *device;
};
/* For traces; ignored when nobody traces the call. */
void br_gateway_moment(struct br_gateway_call *call, uint64_t seq, const struct br_gateway_moment *moment);

#endif
