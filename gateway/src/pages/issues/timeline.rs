//! The conversation of an issue or a pull request: its comments, and the changes between them.
//!
//! The API lists comments and changes apart. A page has a page of the comments, and the changes
//! from its first comment to that of the next page.

use std::collections::HashMap;

use askama::Template;
use serde::Deserialize;

use crate::pages::components::{Pager, Time, filters, page_number};
use crate::pages::error::{PageError, PageResult};
use crate::pages::markdown::render_many;
use crate::pages::repositories::RepositoryVisit;
use crate::pages::view::{Account, Label};

/// Comments on a page.
pub(in crate::pages) const PAGE_SIZE: u64 = 50;
/// Changes that are read for a page.
const MAX_READ_EVENTS: u64 = 1_000;
/// Changes that a page shows; there is a page of all.
const MAX_SHOWN_EVENTS: usize = 200;

#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Comment {
    pub(in crate::pages) id: i64,
    pub(in crate::pages) html_url: String,
    pub(in crate::pages) user: Account,
    pub(in crate::pages) body: String,
    #[serde(default)]
    pub(in crate::pages) truncated: bool,
    pub(in crate::pages) created_at: Time,
    pub(in crate::pages) updated_at: Time,
}

/// A change of the issue, or a reference to it.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Event {
    action: String,
    user: Account,
    created_at: Time,
    assignee: Option<Account>,
    label: Option<Label>,
    milestone: Option<Milestone>,
    rename: Option<Rename>,
    commit: Option<Commit>,
    issue: Option<Source>,
    #[serde(default)]
    body: String,
    requested_team: Option<String>,
    review_id: Option<i64>,
    review_state: Option<String>,
    message: Option<String>,
    #[serde(default)]
    old_ref: String,
    #[serde(default)]
    new_ref: String,
    /// HTML of the review that it is about.
    #[serde(skip)]
    review: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Milestone {
    title: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Rename {
    from: String,
    to: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Commit {
    repository: String,
    sha: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Source {
    repository: String,
    number: i64,
}

/// A comment or a change, in the order of time.
enum Entry {
    Comment(ShownComment),
    Event(Box<Event>),
}

impl From<Event> for Entry {
    fn from(event: Event) -> Self {
        Self::Event(Box::new(event))
    }
}

struct ShownComment {
    comment: Comment,
    html: String,
    can_change: bool,
}

/// The comments and changes of a page; displays as HTML.
#[derive(Template)]
#[template(path = "timeline.html")]
pub(in crate::pages) struct Timeline {
    /// The path of the repository.
    repository: String,
    number: i64,
    page: u64,
    entries: Vec<Entry>,
    is_complete: bool,
}

/// A page of a conversation.
pub(in crate::pages) struct Conversation {
    pub(in crate::pages) timeline: Timeline,
    pub(in crate::pages) pager: Pager,
    /// The HTML of the other texts of the page.
    pub(in crate::pages) html: Vec<String>,
    /// Who wrote the comments of the page, each once.
    pub(in crate::pages) authors: Vec<Account>,
}

impl Event {
    fn icon(&self) -> &'static str {
        match self.action.as_str() {
            "closed" => "closed",
            "reopened" => "issue",
            "labeled" | "unlabeled" => "tag",
            "milestoned" | "demilestoned" => "milestone",
            "assigned" | "unassigned" => "person",
            "merged" | "merge_scheduled" | "merge_cancelled" => "merge",
            "head_moved" => "commit",
            "base_changed" => "pull",
            "reviewed" | "review_dismissed" | "review_undismissed" | "review_requested" | "review_request_removed" => {
                "eye"
            }
            "referenced" => "link",
            _ => "draft",
        }
    }

    /// What a review says.
    fn verdict(&self) -> &'static str {
        match self.review_state.as_deref() {
            Some("APPROVED") => "approved these changes",
            Some("REQUEST_CHANGES") => "requested changes",
            _ => "reviewed",
        }
    }

    /// The new and the old due date.
    fn dates(&self) -> (&str, &str) {
        self.body.split_once('|').unwrap_or((&self.body, ""))
    }

    fn new_date(&self) -> &str {
        self.dates().0
    }

    fn old_date(&self) -> &str {
        self.dates().1
    }

    /// An action without words of its own.
    fn words(&self) -> String {
        self.action.replace('_', " ")
    }
}

impl Commit {
    fn short(&self) -> &str {
        self.sha.get(..10).unwrap_or(&self.sha)
    }
}

impl ShownComment {
    fn is_edited(&self) -> bool {
        self.comment.updated_at > self.comment.created_at
    }
}

impl Conversation {
    /// Reads the page that the visit asks for. `comment_count` is that of the issue; `texts` are
    /// rendered together with the comments.
    pub(in crate::pages) async fn read(
        at: &RepositoryVisit,
        number: i64,
        comment_count: u64,
        texts: Vec<String>,
    ) -> PageResult<Self> {
        let (api, here) = (&at.visit.api, &at.visit.shell.here);
        let page = page_number(here);
        let path = format!("{}/issues/{number}", at.repository.api());
        let (comments_path, events_path, next_path) = (
            format!("{path}/comments?page={page}&limit={PAGE_SIZE}"),
            format!("{path}/timeline?limit={MAX_READ_EVENTS}"),
            format!("{path}/comments?page={}&limit=1", page * PAGE_SIZE + 1),
        );
        let next = async {
            let has_next = comment_count > page * PAGE_SIZE;
            Ok::<_, PageError>(if has_next {
                api.list::<Comment>(&next_path).await?.items.into_iter().next()
            } else {
                None
            })
        };
        let (comments, events, next) =
            tokio::try_join!(api.list::<Comment>(&comments_path), api.list::<Event>(&events_path), next)?;
        let pager = Pager::of(here, PAGE_SIZE, &comments);
        let is_read = events.total.is_none_or(|total| total <= MAX_READ_EVENTS);
        let start = if page == 1 { None } else { Some(comments.items.first().map(|comment| comment.created_at)) };
        let events = between(events.items, start, next.map(|comment| comment.created_at));
        let hidden = events.len().saturating_sub(MAX_SHOWN_EVENTS);
        let events = events.into_iter().skip(hidden).collect();

        let own_count = texts.len();
        let texts = texts.into_iter().chain(comments.items.iter().map(|comment| comment.body.clone())).collect();
        let mut html = render_many(&at.visit, texts, &at.repository.full_name()).await?;
        let rendered = html.split_off(own_count);
        let authors = unique(comments.items.iter().map(|comment| comment.user.clone()));
        let shown = comments.items.into_iter().zip(rendered).map(|(comment, html)| {
            let can_change = can_change_comment(at, &comment);
            ShownComment { comment, html, can_change }
        });
        let entries = merge(shown.collect(), events);
        let is_complete = is_read && hidden == 0;
        let timeline = Timeline { repository: at.repository.path(), number, page, entries, is_complete };
        Ok(Self { timeline, pager, html, authors })
    }
}

impl Timeline {
    /// Puts the HTML of reviews, by their ids, below the changes that tell of them.
    pub(in crate::pages) fn add_reviews(&mut self, mut reviews: HashMap<i64, String>) {
        for entry in &mut self.entries {
            if let Entry::Event(event) = entry
                && event.action == "reviewed"
            {
                event.review = event.review_id.and_then(|id| reviews.remove(&id));
            }
        }
    }

    /// A page of the changes alone.
    pub(super) fn of_events(at: &RepositoryVisit, number: i64, events: Vec<Event>) -> Self {
        let entries = events.into_iter().map(Entry::from).collect();
        Self { repository: at.repository.path(), number, page: 1, entries, is_complete: true }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Returns whether the visitor may change or delete a comment.
pub(super) fn can_change_comment(at: &RepositoryVisit, comment: &Comment) -> bool {
    let viewer = at.visit.shell.viewer.as_ref();
    let is_allowed = |viewer: &Account| viewer.id == comment.user.id || at.repository.permissions.admin;
    !at.repository.archived && viewer.is_some_and(is_allowed)
}

/// Returns each account once, in the order of their first appearance.
pub(in crate::pages) fn unique(accounts: impl Iterator<Item = Account>) -> Vec<Account> {
    let mut found: Vec<Account> = Vec::new();
    for account in accounts {
        if found.iter().all(|other| other.id != account.id) {
            found.push(account);
        }
    }
    found
}

/// Returns the events of a page, whose comments begin at `start` and end before `end`. The first
/// page has no start; one without comments, `Some(None)`, has no events.
fn between(events: Vec<Event>, start: Option<Option<Time>>, end: Option<Time>) -> Vec<Event> {
    let is_after_start = |event: &Event| match start {
        None => true,
        Some(start) => start.is_some_and(|start| event.created_at >= start),
    };
    let is_before_end = |event: &Event| end.is_none_or(|end| event.created_at < end);
    events.into_iter().filter(|event| is_after_start(event) && is_before_end(event)).collect()
}

/// Merges two lists in the order of time. Comments come first of what is equally old, because one
/// that closes the issue is older than that.
fn merge(comments: Vec<ShownComment>, events: Vec<Event>) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(comments.len() + events.len());
    let mut events = events.into_iter().peekable();
    for comment in comments {
        while let Some(event) = events.next_if(|event| event.created_at < comment.comment.created_at) {
            entries.push(event.into());
        }
        entries.push(Entry::Comment(comment));
    }
    entries.extend(events.map(Entry::from));
    entries
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn user() -> Value {
        json!({"id": 1, "login": "ada"})
    }

    fn comment(id: i64, time: &str) -> ShownComment {
        let comment = json!({
            "id": id, "html_url": "", "user": user(), "body": "", "created_at": time, "updated_at": time,
        });
        ShownComment { comment: serde_json::from_value(comment).unwrap(), html: String::new(), can_change: false }
    }

    fn event(action: &str, time: &str, more: &Value) -> Event {
        let mut event = json!({"action": action, "user": user(), "created_at": time});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(event).unwrap()
    }

    fn shown(entries: Vec<Entry>) -> String {
        let timeline = Timeline { repository: "/ada/x".to_owned(), number: 2, page: 1, entries, is_complete: true };
        timeline.render().unwrap()
    }

    #[test]
    fn changes_are_between_the_comments_of_their_time() {
        let day = |day: u32| format!("2026-01-{day:02}T00:00:00Z");
        let events = ["closed", "reopened", "edited"].into_iter().zip(1..);
        let events: Vec<_> = events.map(|(action, at)| event(action, &day(at), &json!({}))).collect();
        let names = |entries: Vec<Entry>| {
            let name = |entry: &Entry| match entry {
                Entry::Comment(comment) => comment.comment.id.to_string(),
                Entry::Event(event) => event.action.clone(),
            };
            entries.iter().map(name).collect::<Vec<_>>()
        };
        let comments = vec![comment(7, &day(2)), comment(8, &day(3))];
        assert_eq!(names(merge(comments, events.clone())), ["closed", "7", "reopened", "8", "edited"]);

        let time = |at: u32| comment(0, &day(at)).comment.created_at;
        let page = |start, end| names(between(events.clone(), start, end).into_iter().map(Entry::from).collect());
        assert_eq!(page(None, None), ["closed", "reopened", "edited"]);
        assert_eq!(page(None, Some(time(2))), ["closed"], "the page that begins with the comment has the second");
        assert_eq!(page(Some(Some(time(2))), Some(time(3))), ["reopened"]);
        assert_eq!(page(Some(None), None), [""; 0], "a page after the last");
    }

    #[test]
    fn every_kind_of_change_has_its_words() {
        let time = "2026-01-02T00:00:00Z";
        let commit = json!({"repository": "ada/x", "sha": "0123456789abcdef0123456789abcdef01234567"});
        for (action, more, expected) in [
            ("closed", json!({"commit": commit}), "closed this in"),
            ("reopened", json!({}), "reopened this"),
            ("renamed", json!({"rename": {"from": "<a>", "to": "b"}}), "changed the title"),
            ("labeled", json!({"label": {"id": 1, "name": "bug", "color": "ff0000"}}), "added the label"),
            ("demilestoned", json!({"milestone": {"title": "v1"}}), "removed this from the milestone"),
            ("assigned", json!({"assignee": {"id": 2, "login": "eve"}}), "assigned"),
            ("referenced", json!({"issue": {"repository": "eve/lib", "number": 3}}), "eve/lib#3"),
            ("reviewed", json!({"review_state": "APPROVED"}), "approved these changes"),
            ("due_date_changed", json!({"body": "2026-03-01|2026-02-01"}), "2026-03-01"),
            ("head_moved", json!({}), "pushed"),
            ("base_changed", json!({"old_ref": "<a>", "new_ref": "next"}), "next</span>"),
            ("review_undismissed", json!({"assignee": {"id": 2, "login": "eve"}}), "let the review count again of"),
            ("something_new", json!({}), "something new"),
        ] {
            let html = shown(vec![event(action, time, &more).into()]);
            assert!(html.contains(expected) && !html.contains("<a>"), "{action}: {html}");
        }
        let reviewed = event("reviewed", time, &json!({"review_id": 8}));
        let entries = vec![reviewed.into()];
        let mut timeline = Timeline { repository: "/ada/x".to_owned(), number: 2, page: 1, entries, is_complete: true };
        assert!(timeline.render().unwrap().contains("href=\"/ada/x/pulls/2/reviews/8\""));
        timeline.add_reviews(HashMap::from([(8, "<b>x</b>".to_owned())]));
        assert!(timeline.render().unwrap().contains("<b>x</b>"));
        let html = shown(vec![Entry::Comment(comment(5, time))]);
        assert!(html.contains("id=\"issuecomment-5\""), "{html}");
    }
}
