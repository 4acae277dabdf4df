br_fuzzer(fuzz_market SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_market.c DEPS br_traffic)
