br_fuzzer(fuzz_profile SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_profile.c DEPS br_cost)
