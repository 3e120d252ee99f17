//! Test support: polling, scripts, and settings of the test run. Other crates get it with the
//! feature `testing`.

use std::future::Future;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Writes an executable `#!/bin/sh` script.
///
/// A child process writes the file. If this process did, a child that another test forks at that
/// moment would inherit the descriptor, and running the script would fail with "text file busy".
///
/// # Panics
/// If the file cannot be written.
pub fn script(path: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut shell = command.spawn().expect("there is a shell");
    let mut input = shell.stdin.take().expect("it has an input");
    write!(input, "#!/bin/sh\n{text}\n").expect("it reads");
    drop(input);
    assert!(shell.wait().expect("it ends").success(), "cannot write {}", path.display());
}

/// Returns the environment variable `name` of the test run.
#[expect(clippy::disallowed_methods, reason = "settings of tests are no settings of a service")]
#[must_use]
pub fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Polls until `check` returns true.
///
/// # Panics
/// With `fact` as its text, after 20 seconds.
pub async fn eventually<F, T>(fact: &str, mut check: F)
where
    F: FnMut() -> T,
    T: Future<Output = bool>,
{
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !check().await {
        assert!(tokio::time::Instant::now() < deadline, "never: {fact}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
