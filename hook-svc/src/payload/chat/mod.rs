//! Messages of chat services, made of native payloads.
//!
//! Texts of users are cut to what the services take, so that a long one does not cost the message.

pub(super) mod dingtalk;
pub(super) mod discord;
mod event;
pub(super) mod slack;
#[cfg(test)]
mod tests;

pub(super) use event::ChatEvent;
use event::{Account, Change, Issue, IssueComment, Push, Repo, Subject};
use ferrite_api_types::links::encode_path;

/// Characters of an id that are shown.
const SHORT_ID_CHARS: usize = 7;

/// Returns the first line of a text, of which a chat shows no more.
fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end()
}

/// Returns the beginning of an object id.
fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID_CHARS).unwrap_or(id)
}

/// Returns at most `max` characters of a text, with an ellipsis if it is longer.
fn shorten(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max - 1).collect();
    short.push('\u{2026}');
    short
}

/// Returns a link in Markdown.
fn markdown_link(url: &str, text: &str) -> String {
    format!("[{text}]({url})")
}

/// The effect of a push on its branch.
enum Effect<'a> {
    /// It brought commits, whose number this is in words.
    Commits(String),
    /// It made the branch, at a commit that was there before.
    Branch { at: &'a str },
    /// It moved the branch back, to a commit that was in it before.
    MovedBack { from: &'a str, to: &'a str },
}

/// Returns the effect of a push, with short ids.
fn effect(push: &Push) -> Effect<'_> {
    let (from, to) = (short_id(&push.before), short_id(&push.after));
    match push.total_commits {
        0 if push.before.bytes().all(|byte| byte == b'0') => Effect::Branch { at: to },
        0 => Effect::MovedBack { from, to },
        1 => Effect::Commits("1 new commit".to_owned()),
        count => Effect::Commits(format!("{count} new commits")),
    }
}

/// Returns the short name of a ref.
fn short_ref(name: &str) -> &str {
    name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/")).unwrap_or(name)
}

impl Repo {
    /// Returns the page of a branch or tag.
    fn source(&self, name: &str) -> String {
        format!("{}/src/{}", self.html_url, encode_path(name.as_bytes()))
    }

    /// Returns the page of an account of the same site.
    fn account_page(&self, account: &Account) -> String {
        let root = self.html_url.strip_suffix(&self.full_name).unwrap_or(&self.html_url);
        format!("{}/{}", root.trim_end_matches('/'), account.username)
    }
}

impl Issue {
    fn name(&self) -> String {
        format!("#{} {}", self.number, self.title)
    }
}

impl IssueComment {
    /// Returns the page of the comment, or of its issue if it was deleted.
    fn page(&self) -> &str {
        if self.action == "deleted" { &self.issue.html_url } else { &self.comment.html_url }
    }
}

/// Returns the words for a change of an issue, such as `labels updated`.
fn issue_verb(action: &str) -> String {
    match action {
        "reopened" => "re-opened".to_owned(),
        "label_updated" => "labels updated".to_owned(),
        "label_cleared" => "labels cleared".to_owned(),
        other => other.replace('_', " "),
    }
}

/// Returns the words for a change of a repository.
fn repository_verb(action: &str) -> &str {
    if action == "visibility" { "visibility changed" } else { action }
}

/// Returns the value of a change of a repository before it, as text.
fn change_text(change: &Change) -> String {
    match &change.from {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
