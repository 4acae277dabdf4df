br_fuzzer(fuzz_trace SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_trace.c DEPS br_traffic)
