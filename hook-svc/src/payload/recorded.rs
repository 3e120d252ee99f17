//! Recorded deliveries of Gogs, which tests compare with.

use serde_json::Value;

/// The recordings, by name.
pub(crate) const NAMES: [&str; 14] = [
    "dingtalk-push",
    "discord-push",
    "form-push",
    "native-create-branch",
    "native-create-tag",
    "native-delete-branch",
    "native-fork",
    "native-issue-comment-created",
    "native-issues-edited",
    "native-issues-opened",
    "native-push",
    "native-release",
    "slack-issues-opened",
    "slack-push",
];

/// Returns the body of a recording as it was sent.
pub(crate) fn body(name: &str) -> String {
    let path = format!("{}/tests/recorded/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let recording: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    recording["body"].as_str().unwrap().to_owned()
}

/// Returns the body of a recording in JSON, parsed.
pub(crate) fn json(name: &str) -> Value {
    serde_json::from_str(&body(name)).unwrap()
}
