# `make help` lists the targets.

.PHONY: help run build test needs check bench-idle bench-search bench-git

help: ## lists the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

run: build ## builds the release binary and starts everything on this machine
	exec target/release/ferrite up

build: ## builds the release binary, target/release/ferrite
	cargo build --release --locked

test: needs check ## installs what tests need, checks formats and lints, runs every test on both profiles
	cargo test --workspace --locked --doc
	tests/servers.sh cargo test --workspace --locked --all-targets

needs: ## installs PostgreSQL, Redis and git if they are missing
	tests/needs.sh

check: ## formats and lints
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

bench-idle: build ## prints the idle memory of the five processes
	tests/idle.sh target/release/ferrite

bench-search: needs ## measures searches and lists with 10,000 to 1,000,000 repositories; SIZES="10000" for fewer
	tests/servers.sh cargo bench --locked --bench search -- $(SIZES)

bench-git: needs ## measures git through Ferrite against plain git; ROWS="clone push" for some rows, REPO=/path/to/bare.git for your own
	cargo bench --locked --bench git -- $(ROWS) $(if $(REPO),--repository $(REPO))
