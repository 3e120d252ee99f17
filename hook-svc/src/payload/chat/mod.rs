//! Converts native payloads into messages of chat services.
//!
//! User texts are cut to the limits of each service, which would otherwise reject the whole
//! message.

pub(super) mod dingtalk;
pub(super) mod discord;
mod event;
pub(super) mod slack;
#[cfg(test)]
mod tests;

pub(super) use event::ChatEvent;
use event::{Account, Change, Issue, IssueComment, Push, Repo, Subject};
use ferrite_api_types::links::encode_path;

const SHORT_ID_CHARS: usize = 7;

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_end()
}

fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID_CHARS).unwrap_or(id)
}

/// Returns at most `max` characters, with an ellipsis if the text is longer.
fn shorten(text: &str, max: usize) -> String {
    if text.chars().nth(max).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max - 1).collect();
    short.push('\u{2026}');
    short
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn markdown_link(url: &str, text: &str) -> String {
    format!("[{text}]({url})")
}

/// The effect of a push on its branch.
enum Effect<'a> {
    /// Added commits, counted in words such as `2 new commits`.
    Commits(String),
    /// Created the branch at an existing commit.
    Branch { at: &'a str },
    /// Moved the branch back to one of its earlier commits.
    MovedBack { from: &'a str, to: &'a str },
}

fn effect(push: &Push) -> Effect<'_> {
    let (from, to) = (short_id(&push.before), short_id(&push.after));
    match push.total_commits {
        0 if push.before.bytes().all(|byte| byte == b'0') => Effect::Branch { at: to },
        0 => Effect::MovedBack { from, to },
        1 => Effect::Commits("1 new commit".to_owned()),
        count => Effect::Commits(format!("{count} new commits")),
    }
}

fn short_ref(name: &str) -> &str {
    name.strip_prefix("refs/heads/").or_else(|| name.strip_prefix("refs/tags/")).unwrap_or(name)
}

impl Repo {
    /// Returns the URL of a branch or tag.
    fn source(&self, name: &str) -> String {
        format!("{}/src/{}", self.html_url, encode_path(name.as_bytes()))
    }

    /// Returns the URL of an account on the same site.
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
    /// Returns the URL of the comment, or of its issue once the comment is deleted.
    fn page(&self) -> &str {
        if self.action == "deleted" { &self.issue.html_url } else { &self.comment.html_url }
    }
}

fn repository_verb(action: &str) -> &str {
    if action == "visibility" { "visibility changed" } else { action }
}

/// Returns the previous value as text.
fn change_text(change: &Change) -> String {
    match &change.from {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
