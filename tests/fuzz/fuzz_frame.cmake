br_fuzzer(fuzz_frame SOURCES fuzz_frame.c DEPS br_link br_proto)
