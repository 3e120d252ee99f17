//! Recorded deliveries of Gogs.

use serde_json::Value;

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
    let text = std::fs::read_to_string(path).expect("each of the names has a file");
    let recording: Value = serde_json::from_str(&text).expect("a recording is JSON");
    recording["body"].as_str().expect("a recording has a body").to_owned()
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_str(&body(name)).expect("the body is JSON unless it is a form")
}
