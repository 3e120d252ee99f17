//! What the pages of issues read of the API's responses.

use serde::Deserialize;

use super::timeline::PAGE_SIZE;
use crate::pages::components::{Count, Time};
use crate::pages::repositories::RepositoryVisit;
use crate::pages::view::{Account, Label, Repository};

/// An issue or a pull request.
#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Issue {
    pub(in crate::pages) id: i64,
    pub(in crate::pages) number: i64,
    pub(in crate::pages) user: Account,
    pub(in crate::pages) title: String,
    #[serde(default)]
    pub(in crate::pages) body: String,
    pub(in crate::pages) labels: Vec<Label>,
    pub(in crate::pages) milestone: Option<Milestone>,
    pub(in crate::pages) assignees: Vec<Account>,
    pub(in crate::pages) state: String,
    pub(in crate::pages) comments: u64,
    pub(in crate::pages) created_at: Time,
    pub(in crate::pages) closed_at: Option<Time>,
    pub(in crate::pages) due_date: Option<Time>,
    repository: IssueRepository,
    pub(in crate::pages) pull_request: Option<PullState>,
}

#[derive(Clone, Debug, Deserialize)]
struct IssueRepository {
    full_name: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(in crate::pages) struct PullState {
    pub(in crate::pages) merged: bool,
    pub(in crate::pages) draft: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub(in crate::pages) struct Milestone {
    pub(in crate::pages) id: i64,
    pub(in crate::pages) title: String,
    #[serde(default)]
    pub(in crate::pages) description: String,
    pub(in crate::pages) state: String,
    pub(in crate::pages) open_issues: u64,
    pub(in crate::pages) closed_issues: u64,
    pub(in crate::pages) due_on: Option<Time>,
}

impl Issue {
    pub(in crate::pages) fn is_open(&self) -> bool {
        self.state == "open"
    }

    /// The name of the repository, with its owner.
    pub(in crate::pages) fn repository(&self) -> &str {
        &self.repository.full_name
    }

    /// The path of its page.
    pub(in crate::pages) fn path(&self) -> String {
        let page = if self.pull_request.is_some() { "pulls" } else { "issues" };
        format!("/{}/{page}/{}", self.repository.full_name, self.number)
    }

    /// What it is called.
    pub(in crate::pages) fn noun(&self) -> &'static str {
        if self.pull_request.is_some() { "pull request" } else { "issue" }
    }

    /// Icon, word and class of the badge for its state.
    fn badge(&self) -> (&'static str, &'static str, &'static str) {
        match self.pull_request {
            Some(PullState { merged: true, .. }) => ("merge", "Merged", "done"),
            Some(PullState { draft: true, .. }) if self.is_open() => ("draft", "Draft", ""),
            Some(_) if self.is_open() => ("pull", "Open", "good"),
            Some(_) => ("pull", "Closed", "bad"),
            None if self.is_open() => ("issue", "Open", "good"),
            None => ("closed", "Closed", "done"),
        }
    }

    pub(in crate::pages) fn icon(&self) -> &'static str {
        self.badge().0
    }

    pub(in crate::pages) fn state_word(&self) -> &'static str {
        self.badge().1
    }

    pub(in crate::pages) fn state_class(&self) -> &'static str {
        self.badge().2
    }

    pub(in crate::pages) fn comment_count(&self) -> String {
        Count(self.comments, "comment").to_string()
    }

    pub(in crate::pages) fn is_overdue(&self) -> bool {
        self.is_open() && self.due_date.is_some_and(Time::is_past)
    }

    /// The path of a new comment, on the last page of the conversation.
    pub(in crate::pages) fn path_of_new_comment(&self, id: i64) -> String {
        let last = (self.comments + 1).div_ceil(PAGE_SIZE);
        let page = if last > 1 { format!("?page={last}") } else { String::new() };
        format!("{}{page}#issuecomment-{id}", self.path())
    }
}

impl Milestone {
    pub(in crate::pages) fn is_open(&self) -> bool {
        self.state == "open"
    }

    pub(in crate::pages) fn total(&self) -> u64 {
        self.open_issues + self.closed_issues
    }

    pub(in crate::pages) fn percent(&self) -> u64 {
        (self.closed_issues * 100).checked_div(self.total()).unwrap_or(0)
    }

    pub(in crate::pages) fn is_overdue(&self) -> bool {
        self.is_open() && self.due_on.is_some_and(Time::is_past)
    }
}

/// Returns whether the visitor may change labels, milestones and assignees.
pub(in crate::pages) fn is_writer(at: &RepositoryVisit) -> bool {
    let Repository { permissions, archived, .. } = &at.repository;
    at.visit.shell.viewer.is_some() && permissions.push && !archived
}

/// Returns whether the visitor may comment.
pub(in crate::pages) fn can_comment(at: &RepositoryVisit) -> bool {
    at.visit.shell.viewer.is_some() && !at.repository.archived
}

/// Returns whether the visitor may change title, text and state.
pub(in crate::pages) fn can_change(at: &RepositoryVisit, issue: &Issue) -> bool {
    let is_author = |viewer: &Account| viewer.id == issue.user.id;
    can_comment(at) && (at.visit.shell.viewer.as_ref().is_some_and(is_author) || at.repository.permissions.push)
}

/// The due date that a date of a form means: the end of that day. An empty date is no due date.
pub(super) fn end_of_day(date: &str) -> String {
    match date.trim() {
        "" => String::new(),
        date => format!("{date}T23:59:59Z"),
    }
}

/// An entry of a list to choose from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) value: String,
    pub(super) text: String,
    pub(super) is_chosen: bool,
}

impl Choice {
    pub(super) fn new(value: &str, text: &str, chosen: &[String]) -> Self {
        let is_chosen = chosen.iter().any(|chosen| chosen == value);
        Self { value: value.to_owned(), text: text.to_owned(), is_chosen }
    }

    /// Adds what is chosen, but not in the list, in front.
    pub(super) fn with_others(choices: Vec<Self>, chosen: &[String]) -> Vec<Self> {
        let is_missing = |value: &&String| !value.is_empty() && choices.iter().all(|choice| choice.value != **value);
        let missing = chosen.iter().filter(is_missing);
        let missing: Vec<_> = missing.map(|value| Self::new(value, value, chosen)).collect();
        [missing, choices].concat()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn issue(state: &str, comments: u64, pull: &Value) -> Issue {
        let issue = json!({
            "id": 1, "number": 5, "user": {"id": 1, "login": "ada"}, "title": "x", "labels": [], "milestone": null,
            "assignees": [], "state": state, "comments": comments, "created_at": "2026-01-01T00:00:00Z",
            "repository": {"full_name": "ada/x"}, "pull_request": pull,
        });
        serde_json::from_value(issue).unwrap()
    }

    #[test]
    fn a_new_comment_is_on_the_last_page() {
        let path = |comments| issue("open", comments, &Value::Null).path_of_new_comment(9);
        assert_eq!(path(0), "/ada/x/issues/5#issuecomment-9");
        assert_eq!(path(PAGE_SIZE - 1), "/ada/x/issues/5#issuecomment-9");
        assert_eq!(path(PAGE_SIZE), "/ada/x/issues/5?page=2#issuecomment-9");
    }

    #[test]
    fn a_pull_request_has_a_page_and_states_of_its_own() {
        let pull = |state, merged, draft| issue(state, 0, &json!({"merged": merged, "draft": draft}));
        assert_eq!(pull("open", false, false).path(), "/ada/x/pulls/5");
        let word = |issue: Issue| issue.state_word();
        assert_eq!((word(pull("closed", true, false)), word(pull("open", false, true))), ("Merged", "Draft"));
        assert_eq!((word(pull("closed", false, true)), word(issue("closed", 0, &Value::Null))), ("Closed", "Closed"));
    }

    #[test]
    fn what_is_chosen_stays_in_the_list() {
        let chosen = ["7".to_owned(), String::new()];
        let choices = Choice::with_others(vec![Choice::new("1", "bug", &chosen)], &chosen);
        let shown: Vec<_> = choices.iter().map(|choice| (choice.text.as_str(), choice.is_chosen)).collect();
        assert_eq!(shown, [("7", true), ("bug", false)]);
        assert_eq!(end_of_day(" "), "");
    }
}
