br_fuzzer(fuzz_measured SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_measured.c DEPS br_cost m)
