//! Output of the program: single lines on standard output and standard error, and the status to end with. A closed output is not an error.

use std::io::Write;
use std::process::ExitCode;

pub(crate) use ferrite_core::startup::error_chain;

/// Status of a process whose settings are missing or wrong.
pub(crate) const USAGE_STATUS: u8 = 2;
const FAILURE_STATUS: u8 = 1;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Returns the failure of a command whose settings are missing or wrong.
    pub(crate) fn of_settings(message: String) -> Self {
        Self { message, status: USAGE_STATUS }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, status: FAILURE_STATUS }
    }
}

/// Writes one line to standard output and flushes it.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Returns the status to end a command with. Prints an error as one line on standard error.
pub(crate) fn exit_code(command: &str, outcome: Result<(), impl Into<Failure>>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let Failure { message, status } = failure.into();
            print_error(&format!("ferrite {command}: {message}"));
            ExitCode::from(status)
        }
    }
}

/// Writes one line to standard error.
pub(crate) fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
