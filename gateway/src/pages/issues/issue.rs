//! The page of an issue.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use serde::Deserialize;

use super::reply::{Draft, Outcome, Reply, send};
use super::timeline::{Conversation, Event, Timeline, unique};
use super::view::{Issue, can_change, is_writer};
use super::{RepositoryForm, number};
use crate::pages::components::{Count, Pager, filters, page_number};
use crate::pages::error::PageResult;
use crate::pages::layout::{Content, with_status};
use crate::pages::repositories::{RepositoryVisit, Tab};
use crate::pages::view::Account;

/// Changes on a page of them alone.
const CHANGES_PAGE_SIZE: u64 = 50;
const MAX_REACTIONS: u64 = 1_000;
/// Reactions of the API, with the pictures that stand for them.
const REACTIONS: [(&str, &str); 8] = [
    ("+1", "👍"),
    ("-1", "👎"),
    ("laugh", "😄"),
    ("hooray", "🎉"),
    ("confused", "😕"),
    ("heart", "❤️"),
    ("rocket", "🚀"),
    ("eyes", "👀"),
];

#[derive(Deserialize)]
struct Reaction {
    content: String,
}

/// How many visitors reacted in one way.
pub(in crate::pages) struct ReactionCount {
    pub(in crate::pages) picture: &'static str,
    pub(in crate::pages) title: String,
    pub(in crate::pages) count: u64,
}

#[derive(Template)]
#[template(path = "issues/issue.html")]
struct IssuePage<'a> {
    issue: &'a Issue,
    repository: String,
    body: String,
    reactions: Vec<ReactionCount>,
    can_change: bool,
    is_writer: bool,
    participants: Vec<Account>,
    timeline: Timeline,
    pager: Pager,
    reply: Reply,
}

impl Content for IssuePage<'_> {
    fn title(&self) -> String {
        format!("{} (#{})", self.issue.title, self.issue.number)
    }
}

#[derive(Template)]
#[template(path = "issues/changes.html")]
struct Changes<'a> {
    issue: &'a Issue,
    timeline: Timeline,
    pager: Pager,
}

impl Content for Changes<'_> {
    fn title(&self) -> String {
        format!("Changes of #{}", self.issue.number)
    }
}

pub(super) async fn show(at: RepositoryVisit) -> PageResult {
    let issue = read(&at, number(&at)?).await?;
    if issue.pull_request.is_some() {
        // Browsers keep the fragment of the link.
        let query = at.visit.query();
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        let target = format!("{}{}{query}", at.visit.shell.site.root, issue.path());
        return Ok(Redirect::permanent(&target).into_response());
    }
    page(&at, &issue, Draft::default()).await
}

pub(super) async fn answer(RepositoryForm { at, fields }: RepositoryForm) -> PageResult {
    let number = number(&at)?;
    let issue = read(&at, number).await?;
    let draft = match send(&at, &issue, &fields).await? {
        Outcome::Done(response) => return Ok(response),
        Outcome::Again(draft) => draft,
    };
    let status = if draft.message.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    // A comment may have been added before what failed.
    let issue = if draft.message.is_some() { read(&at, number).await? } else { issue };
    Ok(with_status(status, page(&at, &issue, draft).await?))
}

/// The changes of an issue without its comments.
pub(super) async fn changes(at: RepositoryVisit) -> PageResult {
    let number = number(&at)?;
    let here = &at.visit.shell.here;
    let page = page_number(here);
    let path = format!("{}/issues/{number}/timeline?page={page}&limit={CHANGES_PAGE_SIZE}", at.repository.api());
    let (issue, events) = tokio::try_join!(read(&at, number), at.visit.api.list::<Event>(&path))?;
    let pager = Pager::of(here, CHANGES_PAGE_SIZE, &events);
    let timeline = Timeline::of_events(&at, number, events.items);
    at.page(tab(&issue), &Changes { issue: &issue, timeline, pager })
}

/// Reads an issue or a pull request.
pub(in crate::pages) async fn read(at: &RepositoryVisit, number: i64) -> PageResult<Issue> {
    at.visit.api.get(&format!("{}/issues/{number}", at.repository.api())).await
}

pub(super) fn tab(issue: &Issue) -> Tab {
    if issue.pull_request.is_some() { Tab::Pulls } else { Tab::Issues }
}

/// Counts the reactions to an issue or a pull request.
pub(in crate::pages) async fn reactions(at: &RepositoryVisit, number: i64) -> PageResult<Vec<ReactionCount>> {
    let path = format!("{}/issues/{number}/reactions?limit={MAX_REACTIONS}", at.repository.api());
    let found = at.visit.api.list::<Reaction>(&path).await?.items;
    Ok(counts(&found.iter().map(|reaction| reaction.content.as_str()).collect::<Vec<_>>()))
}

fn counts(contents: &[&str]) -> Vec<ReactionCount> {
    let count = |&(name, picture): &(&str, &'static str)| {
        let count = contents.iter().filter(|content| **content == name).count() as u64;
        let title = format!("{} with {name}", Count(count, "reaction"));
        (count > 0).then_some(ReactionCount { picture, title, count })
    };
    REACTIONS.iter().filter_map(count).collect()
}

async fn page(at: &RepositoryVisit, issue: &Issue, draft: Draft) -> PageResult {
    let mut texts = vec![issue.body.clone()];
    texts.extend(draft.is_preview.then(|| draft.body.clone()));
    let conversation = Conversation::read(at, issue.number, issue.comments, texts);
    let (conversation, reactions) = tokio::try_join!(conversation, reactions(at, issue.number))?;
    let Conversation { timeline, pager, html, authors } = conversation;
    let mut html = html.into_iter();
    let (body, preview) = (html.next().unwrap_or_default(), html.next());
    let participants = std::iter::once(issue.user.clone()).chain(issue.assignees.iter().cloned()).chain(authors);
    at.page(
        Tab::Issues,
        &IssuePage {
            issue,
            repository: at.repository.path(),
            body,
            reactions,
            can_change: can_change(at, issue),
            is_writer: is_writer(at),
            participants: unique(participants),
            timeline,
            pager,
            reply: Reply::new(at, issue, draft, preview),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reactions_are_counted_in_a_fixed_order() {
        let found = ["heart", "+1", "heart", "unknown"];
        let counts = counts(&found);
        let shown: Vec<_> = counts.iter().map(|reaction| (reaction.picture, reaction.title.as_str())).collect();
        assert_eq!(shown, [("👍", "1 reaction with +1"), ("❤️", "2 reactions with heart")]);
    }
}
