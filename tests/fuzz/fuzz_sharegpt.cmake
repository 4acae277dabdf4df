br_fuzzer(fuzz_sharegpt SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_sharegpt.c DEPS br_traffic)
