//! The program: the launcher (`ferrite up`), the demo, every role, and administration. Each role is
//! a separate crate. This one parses the command line, runs a role in its process, and supervises
//! processes.
//!
//! # Overview
//!
//! Ferrite hosts git repositories. It runs as five processes that share only the contracts; each
//! service has its own database.
//!
//! | role | crate | has |
//! |---|---|---|
//! | gateway | [`gateway`](../gateway/index.html) | REST, git over HTTP and SSH; no data |
//! | repo-svc | [`repo_svc`](../repo_svc/index.html) | accounts, organizations, repositories, releases; decides about access |
//! | issue-svc | [`issue_svc`](../issue_svc/index.html) | issues, comments, labels, milestones |
//! | hook-svc | [`hook_svc`](../hook_svc/index.html) | webhooks, deliveries, feeds of events |
//! | git-svc | [`git_svc`](../git_svc/index.html) | transfers, imports and maintenance of repositories on disk |
//!
//! | shared crates | purpose |
//! |---|---|
//! | [`ferrite_proto`](../ferrite_proto/index.html) | contracts, operations with their rules, error kinds, grants |
//! | [`ferrite_core`](../ferrite_core/index.html), [`ferrite_listener`](../ferrite_listener/index.html) | settings, lifecycle, logs, metrics; servers and limits on clients |
//! | [`ferrite_rpc`](../ferrite_rpc/index.html), [`ferrite_events`](../ferrite_events/index.html) | calls between services, and events |
//! | [`ferrite_db`](../ferrite_db/index.html) | one handle for PostgreSQL and SQLite |
//! | [`git_store`](../git_store/index.html) | bare repositories on a disk |
//! | [`ferrite_api_types`](../ferrite_api_types/index.html), [`ferrite_markdown`](../ferrite_markdown/index.html) | JSON of responses and webhooks; Markdown |
//! | [`ferrite_outbound`](../ferrite_outbound/index.html) | requests to users' URLs |
//!
//! A noun has one name and one file in each layer: `proto/ferrite/issue/v1/label.proto`, and
//! `labels.rs` below `issue-svc/src/store/`, `issue-svc/src/rpc/`, `gateway/src/api/issues/` and
//! `tests/blackbox/`. `docs/architecture.md` has the whole table and the life of a request,
//! `CONTRIBUTING.md` lists which file to change for what.
//!
//! # This crate
//!
//! Each module uses only those after it: `cli`, `settings`, `demo`, `admin`, `secrets`, `health`,
//! `launcher`, `password`, `role`, `environment`, `usage`, `output`.

mod admin;
mod cli;
mod demo;
mod environment;
mod health;
mod launcher;
mod output;
mod password;
mod role;
mod secrets;
mod settings;
mod usage;

use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let program = std::env::args_os().next().unwrap_or_default();
    // During pushes and fetches, git runs this program under the names of its hooks.
    if Path::new(&program).file_name().is_some_and(git_svc::hook::is_name) {
        return git_svc::hook::main();
    }
    cli::run()
}
