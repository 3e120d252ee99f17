//! The commands of `tour.sh`, run in one shell as a person would.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The commands. They use `ADDRESS`.
const COMMANDS: &str = include_str!("tour.sh");
const ADDRESS: &str = "127.0.0.1:3000";

/// Runs the tour against a gateway and returns what it printed.
pub(super) fn run(address: &str, folder: &Path) -> String {
    let home = folder.join("home");
    std::fs::create_dir(&home).unwrap();
    let script = format!("set -eu -o pipefail\n{}", COMMANDS.replace(ADDRESS, address));
    let path = std::env::vars_os().find(|(name, _)| name == "PATH").unwrap().1;
    let mut command = Command::new("bash");
    command.arg("-c").arg(script).current_dir(&home).env_clear();
    command.envs([("HOME", home.as_os_str()), ("TMPDIR", home.as_os_str()), ("PATH", path.as_os_str())]);
    command.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_TERMINAL_PROMPT", "0")]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Checks that no response is an error and that each step had its effect.
pub(super) fn check(output: &str) {
    let mut responses = 0;
    for line in output.lines() {
        let Ok(response) = serde_json::from_str::<Value>(line) else { continue };
        assert!(response.get("message").is_none(), "an error: {line}");
        responses += 1;
    }
    assert!(responses >= 14, "{responses} responses in {output}");
    for mark in [
        "\"username\":\"admin\"",
        "\"full_name\":\"admin/hello\"",
        "# hello",
        "Written through the API.",
        "It says hello to nobody in particular",
        "https://example.com/hook",
        "/admin/hello/releases/download/v1.0/notes.md",
        "hello-again",
        "\"name\":\"ci\"",
        "\"username\":\"ada\"",
        "acme/site",
    ] {
        assert!(output.contains(mark), "no `{mark}` in {output}");
    }
}
