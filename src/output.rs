//! Output lines and exit statuses. Ignores a closed output.

use std::io::Write;
use std::process::ExitCode;

pub(crate) use ferrite_core::startup::error_chain;

/// Exit status for missing or invalid settings.
pub(crate) const USAGE_STATUS: u8 = 2;
const FAILURE_STATUS: u8 = 1;

#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    pub(crate) fn of_settings(message: String) -> Self {
        Self { message, status: USAGE_STATUS }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, status: FAILURE_STATUS }
    }
}

pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints an error as one line and returns the exit status.
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

pub(crate) fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
