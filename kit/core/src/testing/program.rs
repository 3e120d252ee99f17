use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable shell script: `#!/bin/sh` and `text`.
///
/// A child process writes the file. If this process did, a child that another test forks at that moment would inherit the descriptor,
/// and running the script would fail with "text file busy".
///
/// # Panics
/// When the file cannot be written.
pub fn script(path: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = command.spawn().expect("there is a shell");
    let mut input = shell.stdin.take().expect("it has an input");
    write!(input, "#!/bin/sh\n{text}\n").expect("it reads");
    drop(input);
    assert!(shell.wait().expect("it ends").success(), "cannot write {}", path.display());
}
