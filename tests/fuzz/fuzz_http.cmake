br_fuzzer(fuzz_http SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/fuzz_http.c DEPS br_gateway)
