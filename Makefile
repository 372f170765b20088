# What one can do here. `make` alone shows this list.
#
# The recipes are short on purpose: what takes more than two lines lives in scripts/, where it can
# be run, read and checked by itself.

CARGO_TARGET_DIR ?= target
RESPOOL := $(CARGO_TARGET_DIR)/release/respool
BENCH := $(CARGO_TARGET_DIR)/release/respool-bench

# For `make cost` and `make bench`: other proxies to compare with. nutcracker (twemproxy) is taken from
# PATH when it is there; predixy is in no distribution, so its binary is named: PREDIXY=/path/to/it
ROUNDS ?= 5
PREDIXY ?=
PROGRAMS := --respool $(RESPOOL) $(if $(PREDIXY),--predixy $(PREDIXY))

# For `make test-faults`: seconds of each phase, and the rows to run (all if none is named), as in
# `make test-faults FAULT_S=10 ROWS="row_01 row_13"`
FAULT_S ?= 30
ROWS ?=

# For `make test-clients` and `make test-survival`: set it to write docs/reference/clients.md, or
# docs/reference/survival.md, from the results
TABLE ?=

# For `make test-suite`: which suite, a checkout of its project, and what the suite needs beside:
# make test-suite SUITE=redis-tcl DIR=../redis, make test-suite SUITE=ioredis DIR=../ioredis,
# make test-suite SUITE=redis-py DIR=../redis-py SUITE_WORDS="--python ../venv/bin/python"
SUITE ?= redis-tcl
DIR ?=
SUITE_WORDS ?=

.PHONY: help build build-bench demo test test-long test-faults test-clients test-survival test-admin test-suite check bench cost counts fuzz docs

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## installs what is missing, builds, runs a private Redis with respool in front of it
	@scripts/install demo
	cargo build --release --package server --bin respool
	$(RESPOOL) demo

test: ## installs what is missing and runs everything; the last line counts the tests
	@scripts/test

test-long: ## the same with long variants (big values, many seeds, fuzzing); up to an hour
	@scripts/test --long

test-faults: ## the fault matrix with load before, during and after each fault; half an hour or more
	@scripts/install test
	@RESPOOL_FAULT_S=$(FAULT_S) scripts/test-faults $(ROWS)

test-clients: build ## client libraries and Redis' tools against respool; TABLE=1 writes the page of results
	@scripts/install clients
	tests/clients/run --respool $(RESPOOL) $(if $(TABLE),--strict --table docs/reference/clients.md)

test-survival: build ## applications (Celery, Sidekiq, BullMQ ...) while servers restart and fail over; TABLE=1 writes the page of results
	@scripts/install survival
	tests/survival/run --respool $(RESPOOL) $(if $(TABLE),--strict --table docs/reference/survival.md)

test-admin: build ## the admin listener: its OpenAPI document by schemathesis, the Grafana dashboard and native histograms by a real Prometheus
	tests/admin/run --respool $(RESPOOL)

test-suite: build ## the suite of SUITE in its checkout at DIR, directly and through respool, compared
	tests/suites/run $(SUITE) $(DIR) --respool $(RESPOOL) $(SUITE_WORDS)

check: ## the quick part of `make test`: tidy, format, clippy, cargo's tests
	cargo xtask ci

build: ## the release binary
	cargo build --release --package server --bin respool

build-bench: build
	cargo build --release --package bench --bin respool-bench

bench: build-bench ## direct, respool and nutcracker side by side, a few minutes; prints where the report lies
	@scripts/install bench
	$(BENCH) run predixy-8 --spawn --short $(PROGRAMS)
	$(BENCH) run camellia-4 --spawn --short $(PROGRAMS)

cost: build-bench ## CPU per request beside other proxies, judged by the project's limits
	$(BENCH) run server-cost --spawn --check --rounds $(ROUNDS) $(PROGRAMS)
	$(BENCH) run cost --spawn --check --rounds $(ROUNDS) $(PROGRAMS)

counts: ## instructions of the hot path, compared with those that are committed; a few minutes, needs valgrind
	@scripts/counts --anew

fuzz: ## each fuzz target for SECONDS_EACH (60) seconds; needs a nightly toolchain
	@scripts/fuzz

docs: ## writes the generated pages again and builds the documentation of the code
	cargo xtask docs
	cargo doc --workspace --no-deps
