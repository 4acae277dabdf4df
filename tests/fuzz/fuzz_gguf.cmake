br_fuzzer(fuzz_gguf SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_gguf.c DEPS br_weights)
