br_fuzzer(fuzz_generation SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_generation.c DEPS br_scheduler)
