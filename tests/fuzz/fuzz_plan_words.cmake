br_fuzzer(fuzz_plan_words SOURCES fuzz_plan_words.c DEPS br_cli_plan)
