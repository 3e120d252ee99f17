//! The binary that a bench measures.

use std::process::Command;

/// Returns a command of the shipped binary, or of the one that FERRITE_BENCH_BINARY names, to compare two versions. Its environment has nothing
/// but the search path and what makes failures readable.
pub(crate) fn ferrite() -> Command {
    let binary = std::env::var_os("FERRITE_BENCH_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_ferrite").into());
    let mut command = Command::new(binary);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).env("FERRITE_LOG", "info").env("RUST_BACKTRACE", "1");
    command
}
