//! The one program of Ferrite: the launcher (`ferrite up`), every role, and administration.
//!
//! Each role is a crate of its own; this one parses the command line, runs a role in its process, and supervises processes.
//!
//! Order of the modules, upper to lower; each uses only those below it: `cli`, `settings`, `admin`, `secrets`, `health`,
//! `launcher`, `role`, `password`, `usage`, `output`.
//!
//! Not here: tables, routes and rules.

mod admin;
mod cli;
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
    // git runs this program under the names of its hooks during pushes and fetches.
    if Path::new(&program).file_name().is_some_and(git_svc::hook::is_name) {
        return git_svc::hook::main();
    }
    cli::run()
}
