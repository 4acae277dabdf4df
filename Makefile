# The two commands: `make demo` and `make test`. Everything else is for people who work on Briareus.
SHELL := /bin/bash
BUILD ?= build
export BRIAREUS_SHARED ?= $(abspath ../shared)

.PHONY: deps build asan demo test test-asan bench fuzz format format-check clean

deps:
	deploy/install-deps.sh

build: deps
	cmake --preset release -B $(BUILD)
	cmake --build $(BUILD)

demo: build
	demo/run.sh $(BUILD)/bin/briareus

test: build
	tests/run.sh release

test-asan: deps
	tests/run.sh asan

bench: build
	tests/bench/transfers.sh $(BUILD)/bin/briareus --threads 2
	tests/bench/run.sh $(BUILD)/bin/briareus

fuzz: deps
	tests/fuzz/run.sh

format:
	git ls-files '*.c' '*.h' '*.cpp' '*.cu' | xargs clang-format -i

format-check:
	git ls-files '*.c' '*.h' '*.cpp' '*.cu' | xargs clang-format --dry-run -Werror

clean:
	rm -rf build build-*
