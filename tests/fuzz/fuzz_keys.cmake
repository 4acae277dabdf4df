br_fuzzer(fuzz_keys SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_keys.c DEPS br_gateway)
