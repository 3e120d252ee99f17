//! The program: the launcher (`ferrite up`), the demo, every role, and administration. Each role is
//! a crate.
//!
//! Each module uses only those after it: `cli`, `settings`, `demo`, `admin`, `secrets`,
//! `health`, `launcher`, `role`, `password`, `usage`, `output`.

mod admin;
mod cli;
mod demo;
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
