/* A gateway on a real loop with a backend that the test plays, and raw client sockets, all in one thread: whoever waits
 * turns the loop. */
#ifndef BRIAREUS_TESTS_GATEWAY_NET_H
#define BRIAREUS_TESTS_GATEWAY_NET_H

#include "fixture.h"

enum { NET_MAX_SEQS = 16 };

struct net {
    uv_loop_t loop;
    struct br_gateway *gateway;
    struct br_gateway_config config;
    struct br_gateway_model models[2];

    /* What the backend was told last. */
    struct br_gateway_call *call;
    struct br_seq_spec specs[NET_MAX_SEQS]; /* copies; owned strings are the net's */
    uint32_t n_specs;
    uint64_t cancelled[NET_MAX_SEQS];
    uint32_t n_cancelled, n_submitted;
    uint32_t n_paused, n_resumed;
    uint64_t paced; /* the sequence paused or resumed last */

    /* How it answers. */
    bool echo;           /* at once: the prompt's ids, then eos */
    int refuse;          /* at once, with this status */
    const char *trouble; /* of every model */
    const char *sick;    /* /health */
};

extern const struct br_gateway_config net_config;

struct net *net_open(const struct br_gateway_config *config);
void net_close(struct net *net);

/* A client's socket. */
struct client {
    struct net *net;
    int fd;
    struct br_buf in; /* received so far */
    bool eof;
};

void client_open(struct client *client, struct net *net);
void client_open_port(struct client *client, struct net *net, int port);
void client_close(struct client *client);
void client_reset(struct client *client); /* closes with RST */
void client_send(struct client *client, const char *data, size_t len);
void client_puts(struct client *client, const char *text);
/* POST path with a JSON body. */
void client_post(struct client *client, const char *path, const char *body);
/* Turns the loop once and takes what came. */
void client_turn(struct client *client);
/* Waits for text in what was received from byte `from` on; fails the test after some seconds. Returns where it ends. */
size_t client_await(struct client *client, size_t from, const char *text);
void client_await_eof(struct client *client);
void client_has(struct client *client, const char *text);
void client_has_not(struct client *client, const char *text);
/* Waits for a whole answer with Content-Length; returns the body (in client->in) and drops what came before it. */
const char *client_answer(struct client *client, int status);

void net_await_submits(struct client *client, uint32_t n);
void net_await_cancels(struct client *client, uint32_t n);

/* The backend's words about sequence i of the last call. */
void net_accept(struct net *net);
void net_tokens(struct net *net, uint32_t i, const int32_t *ids, uint32_t n, enum br_end end);
/* The ids of a text by the model of the last call, without BOS. */
void net_text(struct net *net, uint32_t i, const char *text, enum br_end end);

#endif
