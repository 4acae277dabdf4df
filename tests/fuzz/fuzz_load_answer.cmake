br_fuzzer(fuzz_load_answer SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_load_answer.c DEPS br_loadgen)
