br_fuzzer(fuzz_model_list SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_model_list.c DEPS br_cost)
