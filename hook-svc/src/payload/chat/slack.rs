use serde::Serialize;

use super::event::{Changed, IssueComment, Issues, Release, Reviewed};
use super::{
    ChatEvent, Effect, Push, Subject, capital, change_text, effect, first_line, repository_verb, short_id, short_ref,
    shorten,
};
use crate::model::ChatOptions;

/// Longest text of an attachment, before escaping.
const MAX_TEXT_CHARS: usize = 8_000;

#[derive(Serialize)]
struct Message<'a> {
    channel: &'a str,
    text: String,
    username: &'a str,
    icon_url: &'a str,
    unfurl_links: u8,
    link_names: u8,
    attachments: Option<[Attachment<'a>; 1]>,
}

#[derive(Serialize)]
struct Attachment<'a> {
    fallback: &'static str,
    color: &'a str,
    title: String,
    text: String,
}

/// The text of a message, with the title and text of its attachment.
struct Parts {
    text: String,
    attachment: Option<(String, String)>,
}

impl From<String> for Parts {
    fn from(text: String) -> Self {
        Self { text, attachment: None }
    }
}

pub(in crate::payload) fn render(event: &ChatEvent, options: &ChatOptions) -> Result<String, serde_json::Error> {
    let color = options.color.as_deref().unwrap_or_default();
    let parts = parts(event);
    let attachment = |(title, text)| [Attachment { fallback: "", color, title, text }];
    serde_json::to_string(&Message {
        channel: options.channel.as_deref().unwrap_or_default(),
        text: parts.text,
        username: options.username.as_deref().unwrap_or_default(),
        icon_url: options.icon_url.as_deref().unwrap_or_default(),
        unfurl_links: 0,
        link_names: 0,
        attachments: parts.attachment.map(attachment),
    })
}

/// Escapes Slack's control characters.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn body(text: &str) -> String {
    escape(&shorten(text, MAX_TEXT_CHARS))
}

fn link(url: &str, text: &str) -> String {
    format!("<{url}|{}>", escape(text))
}

fn parts(event: &ChatEvent) -> Parts {
    let repository = link(&event.repository.html_url, &event.repository.name);
    let sender = escape(&event.sender.username);
    let source = |name: &str| link(&event.repository.source(name), name);
    match &event.subject {
        Subject::Create(created) => {
            format!("[{repository}:{}] {} created by {sender}", source(&created.name), created.ref_type).into()
        }
        Subject::Delete(deleted) => {
            format!("[{repository}:{}] {} deleted by {sender}", escape(&deleted.name), deleted.ref_type).into()
        }
        Subject::Push(push) => pushed(event, push),
        Subject::Issues(issues) => issue(event, issues, "issue"),
        Subject::PullRequest(pulls) => issue(event, pulls, "pull request"),
        Subject::Review(reviewed) => review(event, reviewed),
        Subject::IssueComment(comment) => commented(event, comment),
        Subject::Fork(fork) => {
            format!("{repository} is forked to {}", link(&fork.forkee.html_url, &fork.forkee.full_name)).into()
        }
        Subject::Release(published) => {
            let Release { tag_name, .. } = &published.release;
            format!("[{repository}] new release {} published by {sender}", source(tag_name)).into()
        }
        Subject::Repository(changed) => changed_repository(event, changed),
        Subject::Status(status) => {
            let commit = link(&status.commit.url, status.short_id());
            let text = [&status.state, &status.description].map(|text| escape(text));
            let context = link(status.page(), &status.context);
            format!("[{repository}] {context} of {commit}: {}", text.join(" ").trim_end()).into()
        }
        Subject::Ping => format!("[{repository}] webhook tested by {sender}").into(),
    }
}

fn pushed(event: &ChatEvent, push: &Push) -> Parts {
    let repository = link(&event.repository.html_url, &event.repository.name);
    let branch = short_ref(&push.name);
    let compared = |text: &str| match push.compare_url.as_str() {
        "" => escape(text),
        url => link(url, text),
    };
    let pusher = escape(&push.pusher.username);
    let text = match effect(push) {
        Effect::Commits(count) => format!("{} pushed by {pusher}", compared(&count)),
        Effect::Branch { at } => format!("branch pushed at {at} by {pusher}, without new commits"),
        Effect::MovedBack { from, to } => {
            format!("force-pushed {} by {pusher}", compared(&format!("from {from} to {to}")))
        }
    };
    let line = |commit: &super::event::Commit| {
        let summary = escape(&shorten(first_line(&commit.message), 200));
        format!(
            "{}: {summary} - {}",
            link(&commit.url, short_id(&commit.id)),
            escape(&shorten(&commit.author.name, 100))
        )
    };
    let lines: Vec<_> = push.commits.iter().map(line).collect();
    let branch = link(&event.repository.source(branch), branch);
    Parts { text: format!("[{repository}:{branch}] {text}"), attachment: Some((String::new(), lines.join("\n"))) }
}

/// `noun` is `issue` or `pull request`.
fn issue(event: &ChatEvent, issues: &Issues, noun: &str) -> Parts {
    let page = |account| link(&event.repository.account_page(account), &account.username);
    let sender = page(&event.sender);
    let repository = &event.repository.full_name;
    let title = link(&issues.issue.html_url, &issues.issue.name());
    let attachment = match issues.action.as_str() {
        "opened" => (title.clone(), body(&issues.issue.body)),
        "edited" => (String::new(), body(&issues.issue.body)),
        _ => (String::new(), String::new()),
    };
    let text = match (issues.action.as_str(), &issues.issue.assignee) {
        ("opened", _) => format!("[{repository}] New {noun} created by {sender}"),
        ("assigned", Some(assignee)) => {
            format!("[{repository}] {} assigned to {}: {title} by {sender}", capital(noun), page(assignee))
        }
        _ => {
            let from = issues.asked().map(|name| format!(" from {}", escape(name))).unwrap_or_default();
            format!("[{repository}] {} {}{from}: {title} by {sender}", capital(noun), issues.verb())
        }
    };
    Parts { text, attachment: Some(attachment) }
}

fn review(event: &ChatEvent, reviewed: &Reviewed) -> Parts {
    let sender = link(&event.repository.account_page(&event.sender), &event.sender.username);
    let title = link(&reviewed.pull_request.html_url, &reviewed.pull_request.name());
    let (repository, verdict) = (&event.repository.full_name, reviewed.review.verdict());
    Parts {
        text: format!("[{repository}] Pull request review {verdict}: {title} by {sender}"),
        attachment: Some((String::new(), body(&reviewed.review.content))),
    }
}

fn commented(event: &ChatEvent, comment: &IssueComment) -> Parts {
    let sender = link(&event.repository.account_page(&event.sender), &event.sender.username);
    let verb = match comment.action.as_str() {
        "created" => "New comment created".to_owned(),
        action => format!("Comment {action}"),
    };
    Parts {
        text: format!("[{}] {verb} by {sender}", event.repository.full_name),
        attachment: Some((link(comment.page(), &comment.issue.name()), body(&comment.comment.body))),
    }
}

fn changed_repository(event: &ChatEvent, changed: &Changed) -> Parts {
    let sender = link(&event.repository.account_page(&event.sender), &event.sender.username);
    let repository = link(&event.repository.html_url, &event.repository.full_name);
    let lines: Vec<_> =
        changed.changes.iter().map(|(name, change)| escape(&format!("{name}: was {}", change_text(change)))).collect();
    let attachment = (!lines.is_empty()).then(|| (String::new(), lines.join("\n")));
    Parts { text: format!("Repository {repository} {} by {sender}", repository_verb(&changed.action)), attachment }
}
