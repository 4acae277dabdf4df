br_fuzzer(fuzz_tokenizer SOURCES fuzz_tokenizer.c DEPS br_text)
