br_fuzzer(fuzz_request SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/fuzz_request.c DEPS br_gateway)
