use super::content::{OWNER, READER, REPOSITORY};
use super::server::ADMINISTRATOR;

const OPEN_COMMAND: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Returns the text: what there is, five commands to paste, and variables, each below a comment.
pub(super) fn text(url: &str, token: &str, password: &str) -> String {
    let authorized = format!("curl -s -H \"Authorization: token {token}\"");
    let issues = format!("{url}/api/v1/repos/{REPOSITORY}/issues");
    let clone_url = format!("{}/{REPOSITORY}.git", url.replacen("://", &format!("://{token}:@"), 1));
    let lines = [
        format!("address:    {url}"),
        format!("repository: {REPOSITORY}"),
        format!("users:      {OWNER}, {READER}, {ADMINISTRATOR}; password of each: {password}"),
        format!("token:      {token} (of {OWNER})"),
        String::new(),
        "Paste into another terminal:".to_owned(),
        String::new(),
        "# 1. List issues".to_owned(),
        format!("{authorized} {issues}; echo"),
        "# 2. Create an issue; its webhook arrives here".to_owned(),
        format!("{authorized} --json '{{\"title\":\"Hello from the demo\"}}' {issues}; echo"),
        "# 3. Clone".to_owned(),
        format!("cd \"$(mktemp -d)\" && git clone {clone_url} && cd hello"),
        "# 4. Commit and push; its webhook arrives here, too".to_owned(),
        "echo 'Pushed from a clone.' > notes.md && git add notes.md && \
         git -c user.name=Ada -c user.email=ada@example.com commit -m 'Add notes' && git push"
            .to_owned(),
        "# 5. Read about the API and send requests".to_owned(),
        format!("{OPEN_COMMAND} {url}/docs/api"),
        "# Variables for the tour in README.md".to_owned(),
        format!("API={url}/api/v1 TOKEN={token} PASSWORD={password}"),
        String::new(),
        "Ctrl-C stops the demo and removes its data.".to_owned(),
    ];
    lines.join("\n")
}
