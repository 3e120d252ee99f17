use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a shell script that can be run: `text` without its first line.
///
/// Another process writes it. If this one did, a child that another test starts at that moment would still have the file open for
/// writing, and it could not be run ("text file busy").
///
/// # Panics
///
/// When it cannot be written.
pub fn script(path: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = command.spawn().expect("there is a shell");
    let mut input = shell.stdin.take().expect("it has an input");
    write!(input, "#!/bin/sh\n{text}\n").expect("it reads");
    drop(input);
    assert!(shell.wait().expect("it ends").success(), "cannot write {}", path.display());
}
