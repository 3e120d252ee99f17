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

fn main() -> ExitCode {
    let called_as = std::env::args_os().next().unwrap_or_default();
    // git starts this program under other names while it serves pushes and fetches.
    if Path::new(&called_as).file_name().is_some_and(git_svc::hook::is_name) {
        return git_svc::hook::main();
    }
    cli::run()
}
