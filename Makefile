# What people and the CI type; cargo and `cargo xtask` do the work.

# Real servers, and what cargo builds, stay outside the checkout.
export REFLOAT_CACHE ?= $(HOME)/.cache/refloat
export CARGO_TARGET_DIR ?= $(REFLOAT_CACHE)/target

# What is behind a feature is tested with the rest.
features := --features cli/opentelemetry

# Integration tests that need real servers are called real_*. Of the others, the fast ones, those in slow_tests damage everything in
# every way, those in modules called huge take seconds by their size, and those that draw from seeds do it with few: `make test`
# does all of it.
slow_tests := damage damaged_members
tests := $(notdir $(basename $(wildcard crates/*/tests/*.rs)) $(patsubst %/main.rs,%,$(wildcard crates/*/tests/*/main.rs)))
fast_tests := $(filter-out real_% $(slow_tests),$(sort $(tests)))

# The longest takes minutes, and a machine that does much else a few times that. One that hangs is killed, with what it has
# started, and the others are run: what hung is among what has not said that it is ok. (At a terminal, what it has started is left
# to Ctrl-C, which reaches only who is in the foreground.)
TEST_WITHIN ?= 15m
watched := --config "target.'cfg(unix)'.runner = 'timeout --verbose --signal=KILL $(if $(MAKE_TERMOUT),--foreground )$(TEST_WITHIN)'"

# Each a workspace of its own, for they are built with what tells a fuzzer where it has been; that they compile is seen without.
fuzz := $(wildcard crates/*/fuzz/Cargo.toml)

# What `cargo fuzz` builds with, but for the sanitizer, which takes a nightly compiler: there is no unsafe code to watch.
fuzzed := --cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module $(addprefix -Cllvm-args=-, \
  sanitizer-coverage-level=4 sanitizer-coverage-inline-8bit-counters sanitizer-coverage-pc-table sanitizer-coverage-trace-compares)

.PHONY: build run test test-fast fuzz lint bench servers page

build:
	cargo build --release --locked --bin refloat

# An etcd of this machine's own, or else one that is fetched once.
run: build
	@set -e; etcd=$$(command -v etcd || true); \
	if [ -z "$$etcd" ]; then \
	  cargo run --locked --package xtask -- servers etcd-3.5; \
	  etcd=$$(ls -d $(REFLOAT_CACHE)/servers/etcd-3.5*/etcd | sort -V | tail -n 1); \
	fi; \
	exec $(CARGO_TARGET_DIR)/release/refloat standalone --etcd "$$etcd"

# Built first: the tool that gets the servers is built with everything else, and not once more for itself.
test:
	cargo test --workspace --locked $(features) --no-run
	$(CARGO_TARGET_DIR)/debug/xtask servers
	cargo test --workspace --locked $(features) --no-fail-fast $(watched)

# Built first, as what runs them is one of them.
test-fast: fast := --workspace --locked $(features) --lib --bins $(addprefix --test ,$(fast_tests)) --no-run
test-fast: export CASES_PERCENT ?= 5
test-fast:
	cargo test $(fast)
	cargo test $(fast) --quiet --message-format json | $(CARGO_TARGET_DIR)/debug/xtask together --skip huge::

# Every target in turn, or the one that TARGET names. A gibibyte or ten seconds are more than any input may take. What was found,
# and the inputs that go new ways, are kept for the next time.
SECONDS ?= 60
fuzz:
	@set -e; host=$$(rustc -vV | sed -n 's/^host: //p'); found=$(REFLOAT_CACHE)/fuzz; \
	for target in $(wildcard crates/*/fuzz/fuzz_targets/$(or $(TARGET),*).rs); do \
	  name=$$(basename $$target .rs); folder=$${target%/fuzz_targets/*}; mkdir -p $$found/$$name; \
	  RUSTFLAGS="$(fuzzed)" cargo run --release --locked --target $$host --manifest-path $$folder/Cargo.toml --bin $$name -- \
	    -max_total_time=$(SECONDS) -rss_limit_mb=1024 -timeout=10 -artifact_prefix=$$found/$$name- $$found/$$name $$folder/corpus; \
	done

lint:
	cargo fmt --check
	cargo clippy --workspace --all-targets --locked $(features) -- -D warnings
	cargo clippy --workspace --locked -- -D warnings
	set -e; for manifest in $(fuzz); do cargo check --locked --bins --manifest-path $$manifest; done

bench: servers
	cargo run --release --locked --package xtask -- bench

servers:
	cargo run --locked --package xtask -- servers

# The dashboard, from its source; what it makes is checked in.
page:
	cd crates/dashboard/web && npm ci --ignore-scripts && npm run check && npm run build
