//! Output of the program: single lines on standard output and standard error. A closed output is not an error.

use std::io::Write;

/// Writes one line to standard output and flushes it.
pub(crate) fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes one line to standard error.
pub(crate) fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Returns an error and its causes as one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors repeat their cause in their own text.
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = error.source();
    }
    line.replace('\n', " ")
}
