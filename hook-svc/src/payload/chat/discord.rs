use serde::Serialize;

use super::event::{Commit, IssueComment, Issues, Reviewed};
use super::markdown_link as link;
use super::{
    ChatEvent, Effect, Push, Subject, capital, change_text, effect, first_line, repository_verb, short_id, short_ref,
    shorten,
};
use crate::model::ChatOptions;

/// Limits set by Discord.
const MAX_TITLE_CHARS: usize = 256;
const MAX_DESCRIPTION_CHARS: usize = 4096;
const MAX_FIELD_CHARS: usize = 1024;
const MAX_NAME_CHARS: usize = 80;

#[derive(Serialize)]
struct Message<'a> {
    content: &'static str,
    username: &'a str,
    avatar_url: &'a str,
    embeds: [Embed; 1],
}

#[derive(Default, Serialize)]
struct Embed {
    title: String,
    description: String,
    url: String,
    color: u32,
    footer: Option<Footer>,
    author: Author,
    fields: Option<Vec<Field>>,
}

#[derive(Serialize)]
struct Footer {
    text: String,
}

#[derive(Default, Serialize)]
struct Author {
    name: String,
    url: &'static str,
    icon_url: String,
}

#[derive(Serialize)]
struct Field {
    name: &'static str,
    value: String,
}

pub(in crate::payload) fn render(event: &ChatEvent, options: &ChatOptions) -> Result<String, serde_json::Error> {
    let mut embed = embed(event);
    embed.title = shorten(&embed.title, MAX_TITLE_CHARS);
    embed.description = shorten(&embed.description, MAX_DESCRIPTION_CHARS);
    embed.color = options.color.as_deref().map(color).unwrap_or_default();
    embed.author = Author { name: event.sender.username.clone(), url: "", icon_url: event.sender.avatar_url.clone() };
    serde_json::to_string(&Message {
        content: "",
        username: options.username.as_deref().unwrap_or_default(),
        avatar_url: options.icon_url.as_deref().unwrap_or_default(),
        embeds: [embed],
    })
}

/// Converts a color such as `#36a64f` to a number. Anything else becomes zero.
fn color(text: &str) -> u32 {
    let digits = text.trim().trim_start_matches('#');
    if digits.len() == 6 { u32::from_str_radix(digits, 16).unwrap_or(0) } else { 0 }
}

fn embed(event: &ChatEvent) -> Embed {
    let repo = &event.repository;
    let repository = link(&repo.html_url, &repo.name);
    let source = |name: &str| link(&repo.source(name), name);
    let description = match &event.subject {
        Subject::Create(created) => {
            format!("Created new {}: {repository}/{}", created.ref_type, source(&created.name))
        }
        Subject::Delete(deleted) => format!("Deleted {}: {repository}/{}", deleted.ref_type, deleted.name),
        Subject::Push(push) => pushed(event, push),
        Subject::Issues(issues) => return issue(event, issues, "issue"),
        Subject::PullRequest(pulls) => return issue(event, pulls, "pull request"),
        Subject::Review(reviewed) => return review(event, reviewed),
        Subject::IssueComment(comment) => return commented(event, comment),
        Subject::Fork(fork) => {
            format!("{repository} is forked to {}", link(&fork.forkee.html_url, &fork.forkee.full_name))
        }
        Subject::Release(published) => {
            format!("Published new release {} of {repository}", source(&published.release.tag_name))
        }
        Subject::Repository(changed) => {
            let page = link(&repo.html_url, &repo.full_name);
            let mut text = format!("Repository {}: {page}", repository_verb(&changed.action));
            for (name, change) in &changed.changes {
                text.push_str(&format!("\n{name}: was {}", change_text(change)));
            }
            text
        }
        Subject::Status(status) => {
            let (context, commit) = (link(status.page(), &status.context), link(&status.commit.url, status.short_id()));
            let text = format!("{} {}", status.state, status.description);
            format!("{context} of {commit} in {repository}: {}", text.trim_end())
        }
        Subject::Ping => format!("Tested the webhook of {repository}"),
    };
    Embed { description, url: repo.account_page(&event.sender), ..Embed::default() }
}

fn pushed(event: &ChatEvent, push: &Push) -> String {
    let repo = &event.repository;
    let branch = short_ref(&push.name);
    let compared = |text: String| match push.compare_url.as_str() {
        "" => text,
        url => link(url, &text),
    };
    let line = |commit: &Commit| {
        let id = link(&commit.url, &format!("`{}`", short_id(&commit.id)));
        let summary = shorten(first_line(&commit.message), MAX_NAME_CHARS);
        format!("\n{id} {summary} - {}", shorten(&commit.author.name, MAX_NAME_CHARS))
    };
    let target = format!("{}/{}", link(&repo.html_url, &repo.name), link(&repo.source(branch), branch));
    let mut text = match effect(push) {
        Effect::Commits(count) => format!("Pushed {} to {target}", compared(count)),
        Effect::Branch { at } => format!("Pushed branch {target} at `{at}`, without new commits"),
        Effect::MovedBack { from, to } => {
            format!("Force-pushed {target} {}", compared(format!("from `{from}` to `{to}`")))
        }
    };
    for commit in &push.commits {
        let line = line(commit);
        // Leave out whole lines: cutting one in the middle would break its link.
        if text.chars().count() + line.chars().count() > MAX_DESCRIPTION_CHARS {
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Returns the fields that show the new value of a changed issue.
fn issue_fields(issues: &Issues) -> Vec<Field> {
    let issue = &issues.issue;
    let (name, value) = match issues.action.as_str() {
        "assigned" => ("New Assignee", issue.assignee.as_ref().map(|assignee| assignee.username.clone())),
        "milestoned" => ("New Milestone", issue.milestone.as_ref().map(|milestone| milestone.title.clone())),
        "label_updated" => {
            let labels: Vec<_> = issue.labels.iter().map(|label| label.name.as_str()).collect();
            let value = if labels.is_empty() { "*empty*".to_owned() } else { labels.join(", ") };
            ("Labels", Some(value))
        }
        "review_requested" => ("Requested Reviewer", issues.asked().map(str::to_owned)),
        _ => return Vec::new(),
    };
    value.map(|value| Field { name, value: shorten(&value, MAX_FIELD_CHARS) }).into_iter().collect()
}

/// `noun` is `issue` or `pull request`.
fn issue(event: &ChatEvent, issues: &Issues, noun: &str) -> Embed {
    let action = issues.action.as_str();
    let verb = match action {
        "opened" => format!("New {noun}"),
        _ => format!("{} {}", capital(noun), issues.verb()),
    };
    let has_body = matches!(action, "opened" | "edited");
    Embed {
        title: format!("{verb}: {}", issues.issue.name()),
        description: if has_body { issues.issue.body.clone() } else { String::new() },
        url: issues.issue.html_url.clone(),
        footer: Some(Footer { text: event.repository.full_name.clone() }),
        fields: Some(issue_fields(issues)),
        ..Embed::default()
    }
}

fn review(event: &ChatEvent, reviewed: &Reviewed) -> Embed {
    let (pull, review) = (&reviewed.pull_request, &reviewed.review);
    Embed {
        title: format!("Pull request review {}: {}", review.verdict(), pull.name()),
        description: review.content.clone(),
        url: pull.html_url.clone(),
        footer: Some(Footer { text: event.repository.full_name.clone() }),
        fields: Some(Vec::new()),
        ..Embed::default()
    }
}

fn commented(event: &ChatEvent, comment: &IssueComment) -> Embed {
    let verb = match comment.action.as_str() {
        "created" => "New comment".to_owned(),
        action => format!("Comment {action}"),
    };
    Embed {
        title: format!("{verb}: {}", comment.issue.name()),
        description: comment.comment.body.clone(),
        url: comment.page().to_owned(),
        footer: Some(Footer { text: event.repository.full_name.clone() }),
        fields: Some(Vec::new()),
        ..Embed::default()
    }
}
