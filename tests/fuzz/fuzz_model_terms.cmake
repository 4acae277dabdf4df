br_fuzzer(fuzz_model_terms SOURCES ${CMAKE_CURRENT_LIST_DIR}/fuzz_model_terms.c DEPS br_scheduler)
