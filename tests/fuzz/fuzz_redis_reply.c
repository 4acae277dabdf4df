/* Bytes from a server that calls itself Redis: through hiredis' reader into every function that takes a reply. */
#include <stdint.h>
#include <stdlib.h>

#include "scheduler/queue/redis_reply.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_entry(const redisReply *reply)
{
    struct br_entry entry;
    struct br_err err;
    if (br_reply_entry(reply, 9, &entry, &err))
        return;
    br_seq_spec_free(&entry.spec);
    free(entry.tokens);
}

static void try_reply(const redisReply *reply)
{
    int64_t arrival_us;
    uint64_t number;
    char sha[41];
    size_t n = 0;
    br_reply_error(reply);
    br_reply_code(reply);
    br_reply_accept(reply, &arrival_us, &number);
    br_reply_lease(reply, &number);
    br_reply_sha(reply, sha);
    if (br_reply_page(reply, &n) == 0)
        for (size_t i = 0; i < n; i++)
            br_reply_member(reply->element[2 * i], &number);
    try_entry(reply);
}

/* hiredis sets memory aside for as many elements or bytes as a header claims, which is Redis' to be trusted with; here
 * it would only be noise. */
static int claims_much(const uint8_t *data, size_t size)
{
    size_t digits = 0;
    for (size_t i = 0; i < size; i++) {
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
        if (digits > 4 && i >= digits && (data[i - digits] == '*' || data[i - digits] == '$'))
            return 1;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redisReader *reader;
    void *reply = NULL;
    if (claims_much(data, size))
        return 0;
    reader = redisReaderCreate();
    redisReaderFeed(reader, (const char *)data, size);
    while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
        try_reply(reply);
        freeReplyObject(reply);
        reply = NULL;
    }
    redisReaderFree(reader);
    return 0;
}
