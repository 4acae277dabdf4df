br_fuzzer(fuzz_redis_reply SOURCES fuzz_redis_reply.c DEPS br_queue)
