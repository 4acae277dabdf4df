br_fuzzer(fuzz_config SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_config.c DEPS br_weights)
