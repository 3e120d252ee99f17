//! Output of the program: single lines on standard output and standard error. A closed output is not an error.

use std::io::Write;
use std::process::ExitCode;

pub(crate) use ferrite_kit::startup::error_chain;

/// Writes one line to standard output and flushes it.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Returns the status to end a command with. Prints an error as one line on standard error.
pub(crate) fn exit_code(command: &str, outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            print_error(&format!("ferrite {command}: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Writes one line to standard error.
pub(crate) fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
