//! DingTalk messages. Their text is Markdown.

use serde::Serialize;

use super::event::{Account, Changed, IssueComment, Issues, Release, Reviewed};
use super::markdown_link as link;
use super::{
    ChatEvent, Effect, Push, Subject, capital, change_text, effect, first_line, repository_verb, short_id, short_ref,
    shorten,
};

const TITLE: &str = "Ferrite Notification";
/// Longest user text in a message. DingTalk accepts 20,000 bytes in total.
const MAX_BODY_CHARS: usize = 4_000;
/// Longest name or first line in a list.
const MAX_NAME_CHARS: usize = 100;

#[derive(Serialize)]
struct Message {
    msgtype: &'static str,
    at: At,
    #[serde(rename = "actionCard")]
    card: Card,
}

#[derive(Serialize)]
struct At {
    #[serde(rename = "atMobiles")]
    mobiles: Option<[&'static str; 0]>,
    #[serde(rename = "isAtAll")]
    is_all: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Card {
    title: &'static str,
    text: String,
    hide_avatar: &'static str,
    btn_orientation: &'static str,
    single_title: String,
    #[serde(rename = "singleURL")]
    single_url: String,
}

struct Parts {
    text: String,
    button: String,
    url: String,
}

pub(in crate::payload) fn render(event: &ChatEvent) -> Result<String, serde_json::Error> {
    let parts = parts(event);
    serde_json::to_string(&Message {
        msgtype: "actionCard",
        at: At { mobiles: None, is_all: false },
        card: Card {
            title: TITLE,
            text: parts.text,
            hide_avatar: "",
            btn_orientation: "",
            single_title: parts.button,
            single_url: parts.url,
        },
    })
}

fn display_name(account: &Account) -> &str {
    if account.full_name.is_empty() { &account.username } else { &account.full_name }
}

fn body(text: &str) -> String {
    shorten(text, MAX_BODY_CHARS)
}

fn parts(event: &ChatEvent) -> Parts {
    let repo = &event.repository;
    let repository = link(&repo.html_url, &repo.name);
    let parts = |text: String, button: &str, url: &str| Parts { text, button: button.to_owned(), url: url.to_owned() };
    match &event.subject {
        Subject::Create(created) => {
            let kind = capital(&created.ref_type);
            let url = repo.source(&created.name);
            let name = link(&url, &created.name);
            let text = format!("# New {kind} Create Event\n- Repo: **{repository}**\n- New {kind}: **{name}**");
            parts(text, &format!("View {kind}"), &url)
        }
        Subject::Delete(deleted) => {
            let kind = capital(&deleted.ref_type);
            let text = format!("# {kind} Delete Event\n- Repo: **{repository}**\n- {kind}: **{}**", deleted.name);
            parts(text, "View Repo", &repo.html_url)
        }
        Subject::Push(push) => pushed(event, push),
        Subject::Issues(issues) => issue(issues, "Issue"),
        Subject::PullRequest(pulls) => issue(pulls, "Pull Request"),
        Subject::Review(reviewed) => review(reviewed),
        Subject::IssueComment(comment) => commented(comment),
        Subject::Fork(fork) => {
            let forkee = link(&fork.forkee.html_url, &fork.forkee.full_name);
            let text = format!("# Repo Fork Event\n- From Repo: **{repository}**\n- To Repo: **{forkee}**");
            parts(text, "View Forkee", &fork.forkee.html_url)
        }
        Subject::Release(published) => released(event, &published.release),
        Subject::Repository(changed) => changed_repository(event, changed),
        Subject::Status(status) => {
            let commit = link(&status.commit.url, status.short_id());
            let text = format!(
                "# Commit Status Event\n- Repo: **{repository}**\n- Commit: **{commit}**\n- Context: **{}**\n- State: **{}**\n{}",
                status.context, status.state, status.description
            );
            parts(text, "View Details", status.page())
        }
        Subject::Ping => parts(format!("# Webhook Test Event\n- Repo: **{repository}**"), "View Repo", &repo.html_url),
    }
}

fn pushed(event: &ChatEvent, push: &Push) -> Parts {
    let repo = &event.repository;
    let branch = short_ref(&push.name);
    let source = repo.source(branch);
    let heading = match effect(push) {
        Effect::Commits(_) => format!("Total {} commits(s)", push.total_commits),
        Effect::Branch { at } => format!("Branch at {at}, without new commits"),
        Effect::MovedBack { from, to } => format!("Force-pushed from {from} to {to}"),
    };
    let mut text = format!(
        "# Repo Push Event\n- Repo: **{}**\n- Ref: **{}**\n- Pusher: **{}**\n## {heading}\n",
        link(&repo.html_url, &repo.name),
        link(&source, branch),
        display_name(&push.pusher),
    );
    for (index, commit) in push.commits.iter().enumerate() {
        let id = link(&commit.url, short_id(&commit.id));
        let author = shorten(&commit.author.name, MAX_NAME_CHARS);
        let summary = shorten(first_line(&commit.message), MAX_NAME_CHARS);
        text.push_str(&format!("> {index}. {id} {author} - {summary}\n"));
    }
    // A new branch has nothing to compare with.
    let url = if push.compare_url.is_empty() { source } else { push.compare_url.clone() };
    Parts { text, button: "View Changes".to_owned(), url }
}

/// `noun` is `Issue` or `Pull Request`.
fn issue(issues: &Issues, noun: &str) -> Parts {
    let issue = &issues.issue;
    let action = if issue.merged && issues.action == "closed" { "merged" } else { &issues.action };
    let page = link(&issue.html_url, &issue.name());
    let mut text = format!("# {noun} Event {}\n- {noun}: **{page}**", capital(action));
    match (issues.action.as_str(), &issue.assignee, &issue.milestone) {
        ("assigned", Some(assignee), _) => {
            text.push_str(&format!("\n- New Assignee: **{}**", assignee.username));
        }
        ("milestoned", _, Some(milestone)) => text.push_str(&format!("\n- New Milestone: **{}**", milestone.title)),
        ("label_updated", ..) => {
            let labels: Vec<_> = issue.labels.iter().map(|label| label.name.as_str()).collect();
            let labels = if labels.is_empty() { "empty".to_owned() } else { labels.join(",") };
            text.push_str(&format!("\n- Labels: **{}**", body(&labels)));
        }
        _ => {}
    }
    if let Some(name) = issues.asked() {
        text.push_str(&format!("\n- Requested Reviewer: **{name}**"));
    }
    if !issue.body.is_empty() {
        text.push_str(&format!("\n> {}", body(&issue.body)));
    }
    Parts { text, button: format!("View {noun}"), url: issue.html_url.clone() }
}

fn review(reviewed: &Reviewed) -> Parts {
    let (pull, review) = (&reviewed.pull_request, &reviewed.review);
    let page = link(&pull.html_url, &pull.name());
    let mut text = format!("# Pull Request Review {}\n- Pull Request: **{page}**", capital(review.verdict()));
    if !review.content.is_empty() {
        text.push_str(&format!("\n> {}", body(&review.content)));
    }
    Parts { text, button: "View Pull Request".to_owned(), url: pull.html_url.clone() }
}

fn commented(comment: &IssueComment) -> Parts {
    let issue = &comment.issue;
    let text = format!(
        "# Issue Comment {}\n- Issue: {}\n- Comment content: \n> {}",
        capital(&comment.action),
        link(&issue.html_url, &issue.name()),
        body(&comment.comment.body),
    );
    Parts { text, button: "View Issue Comment".to_owned(), url: comment.page().to_owned() }
}

fn released(event: &ChatEvent, release: &Release) -> Parts {
    let repo = &event.repository;
    let url = repo.source(&release.tag_name);
    let text = format!(
        "# New Release Published\n- Repo: **{}**\n- Tag: **{}**\n- Author: **{}**\n- Draft?: **{}**\n- Pre Release?: **{}**\n\
         - Title: {}\n- Note: {}",
        link(&repo.html_url, &repo.name),
        link(&url, &release.tag_name),
        display_name(&release.author),
        release.draft,
        release.prerelease,
        release.name,
        body(&release.body),
    );
    Parts { text, button: "View Release".to_owned(), url }
}

fn changed_repository(event: &ChatEvent, changed: &Changed) -> Parts {
    let repo = &event.repository;
    let mut text = format!(
        "# Repository {}\n- Repo: **{}**\n- By: **{}**",
        capital(repository_verb(&changed.action)),
        link(&repo.html_url, &repo.full_name),
        display_name(&event.sender),
    );
    for (name, change) in &changed.changes {
        text.push_str(&format!("\n- {}: was {}", capital(name), change_text(change)));
    }
    Parts { text, button: "View Repo".to_owned(), url: repo.html_url.clone() }
}
