//! Output of the program: single lines on standard output and standard error. A closed output is not an error.

use std::io::Write;

pub(crate) use ferrite_kit::startup::error_chain;

/// Writes one line to standard output and flushes it.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes one line to standard error.
pub(crate) fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
