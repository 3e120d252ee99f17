//! The one program of Ferrite: the launcher (`ferrite up`), every role, and administration.
//!
//! Not here: anything that knows a table, a route or a rule. Each role is a crate of its own; this one parses the command line,
//! gives a role its process, and watches over processes.

mod admin;
mod cli;
mod launcher;
mod output;
mod role;

use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The name under which git starts this program while it receives a push.
const HOOK: &str = "proc-receive";

fn main() -> ExitCode {
    let called_as = std::env::args_os().next().unwrap_or_default();
    if Path::new(&called_as).file_name().is_some_and(|name| name == HOOK) {
        return git_svc::hook::main();
    }
    cli::run()
}
