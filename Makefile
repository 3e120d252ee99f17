# `make help` lists the targets.

.PHONY: help run build test test-slow needs check bench-idle bench-search bench-issues bench-outbox bench-hooks bench-mirrors bench-git stress

help: ## lists the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

run: build ## builds the release binary and starts everything on this machine
	exec target/release/ferrite up

build: ## builds the release binary, target/release/ferrite
	cargo build --release --locked

# Many tests wait: for processes, for answers, for time that passes.
TEST_THREADS ?= $(shell echo $$((4 * $$(getconf _NPROCESSORS_ONLN))))

test: needs ## installs what tests need and runs every test; stress tests run a tenth of their rounds
	tests/servers.sh cargo test --workspace --locked --lib --bins --tests -- --test-threads=$(TEST_THREADS)

test-slow: needs ## runs the tests that kill processes and cut off clients, for all of their rounds
	FERRITE_TEST_SLOW=1 tests/servers.sh cargo test --locked --test blackbox -- --nocapture crashes cut_clients

needs: ## installs PostgreSQL, Redis and git if they are missing
	tests/needs.sh

check: ## formats and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

bench-idle: build ## prints the idle memory of the five processes
	tests/idle.sh target/release/ferrite

bench-search: needs ## measures searches and lists with 10,000 to 1,000,000 repositories; SIZES="10000" for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh cargo bench --locked --bench search -- $(SIZES)

bench-issues: needs ## measures the issue tracker with 1,000 and 1,000,000 issues in a repository; SIZES="1000 100000" for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh cargo bench --locked --bench issues -- $(SIZES)

bench-outbox: needs ## measures the outbox with 1,000 and 1,000,000 events that wait; SIZES="1000 100000" for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh cargo bench --locked --bench outbox -- $(SIZES)

bench-hooks: needs ## measures webhooks: latency, queued deliveries, the cost of a push; ROWS="latency" for one of cost, latency, backlog
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh cargo bench --locked --bench hooks -- $(ROWS)

bench-mirrors: needs ## syncs 5,000 mirrors that are due at once against a local server; COUNT=500 for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh cargo bench --locked --bench mirrors -- $(if $(COUNT),--mirrors $(COUNT))

bench-git: needs ## measures git through Ferrite against plain git; ROWS="clone push" for some rows, REPO=/path/to/bare.git for your own
	cargo bench --locked --bench git -- $(ROWS) $(if $(REPO),--repository $(REPO))

stress: needs ## attacks an installation with everything known for 10 minutes, beside an honest client; SECONDS=60 for less, ATTACKS="streams passwords"
	TMPDIR=$${TMPDIR:-/tmp} cargo bench --locked --bench stress -- $(if $(SECONDS),--seconds $(SECONDS)) $(ATTACKS)
