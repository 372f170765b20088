# What one can do here. `make` alone shows this list.
#
# The recipes are short on purpose: what takes more than two lines lives in scripts/, where it can
# be run, read and checked by itself.

CARGO_TARGET_DIR ?= target
RESPOOL := $(CARGO_TARGET_DIR)/release/respool

# For `make cost`: rounds, and other proxies to compare with. nutcracker (twemproxy) is taken from
# PATH when it is there; predixy is in no distribution, so its binary is named: PREDIXY=/path/to/it
ROUNDS ?= 5
NUTCRACKER ?= $(shell command -v nutcracker)
PREDIXY ?=

.PHONY: help build demo test test-long check clients cost fuzz docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## installs what is missing, builds, runs a private Redis with respool in front of it
	@scripts/install demo
	cargo build --release --package server --bin respool
	$(RESPOOL) demo

test: ## installs what is missing and runs everything; the last line counts the tests
	@scripts/test

test-long: ## the same with long variants (big values, many seeds, fuzzing); up to an hour
	@scripts/test --long

check: ## the quick part of `make test`: tidy, format, clippy, cargo's tests
	cargo xtask ci

build: ## the release binary
	cargo build --release --package server --bin respool

clients: build ## client libraries and Redis' tools against respool
	tests/clients/run --respool $(RESPOOL)

cost: build ## CPU per request beside other proxies (docs/guides/benchmarking.md)
	scripts/cost.py --proxy respool=$(RESPOOL) --rounds $(ROUNDS) --check \
		$(if $(NUTCRACKER),--nutcracker $(NUTCRACKER)) $(if $(PREDIXY),--predixy $(PREDIXY))

fuzz: ## each fuzz target for SECONDS_EACH (60) seconds; needs a nightly toolchain
	@scripts/fuzz

docs: ## writes the generated pages again and builds the documentation of the code
	cargo xtask docs
	cargo doc --workspace --no-deps
