//! Issues, including pull requests, and labels.

use ferrite_proto::issue;
use serde::Serialize;

use super::convert::{MissingField, State, Time};
use super::milestone::Milestone;
use super::user::{Accounts, User};
use crate::LongTexts;
use crate::links::{Links, RepositoryLinks};

crate::shape! {
    /// An issue or pull request.
    #[derive(Clone, Debug, Serialize)]
    pub struct Issue {
        id: i64,
        number: i64,
        user: User,
        title: String,
        body: String,
        /// True if `body` is cut off.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        labels: Vec<Label>,
        milestone: Option<Milestone>,
        /// The first of `assignees`.
        assignee: Option<User>,
        assignees: Vec<User>,
        state: State,
        comments: i64,
        created_at: Time,
        updated_at: Time,
        closed_at: Option<Time>,
        due_date: Option<Time>,
        html_url: String,
        repository: IssueRepository,
        #[serde(skip_serializing_if = "Option::is_none")]
        pull_request: Option<IssuePullRequest>,
    }
}

crate::shape! {
    /// The repository of an issue.
    #[derive(Clone, Debug, Serialize)]
    struct IssueRepository {
        id: i64,
        name: String,
        /// The name of the owner.
        owner: String,
        full_name: String,
    }
}

impl IssueRepository {
    fn new(id: i64, urls: &RepositoryLinks) -> Self {
        let full_name = urls.full_name().to_owned();
        let (owner, name) = full_name.split_once('/').unwrap_or_default();
        Self { id, name: name.to_owned(), owner: owner.to_owned(), full_name }
    }
}

crate::shape! {
    /// Present only for pull requests.
    #[derive(Clone, Debug, Serialize)]
    struct IssuePullRequest {
        merged: bool,
        merged_at: Option<Time>,
        /// True if the title begins with `WIP:` or `[WIP]`.
        draft: bool,
        html_url: String,
    }
}

impl IssuePullRequest {
    fn new(pull: &issue::PullRequest, html_url: &str) -> Result<Self, MissingField> {
        Ok(Self {
            merged: pull.is_merged,
            merged_at: Time::optional(pull.merge_time, "merge_time")?,
            draft: pull.is_draft,
            html_url: html_url.to_owned(),
        })
    }
}

impl Issue {
    /// Returns the ids of the accounts in `issue`.
    pub fn account_ids(issue: &issue::Issue) -> impl Iterator<Item = i64> + use<> {
        let fixed = [issue.user_id, issue.assignee_id].into_iter().filter(|id| *id != 0);
        fixed.chain(issue.other_assignee_ids.clone())
    }

    /// Converts an issue. `accounts` holds those of [`Issue::account_ids`]; missing ones are shown
    /// as deleted.
    ///
    /// # Errors
    /// If the state or a time is missing.
    pub fn new(issue: issue::Issue, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let state = State::new(issue.state())?;
        let user = |id| accounts.by_id(id, urls.site());
        let html_url = urls.issue_html(issue.number, issue.pull_request.is_some());
        let pull_request = issue.pull_request.as_ref();
        let pull_request = pull_request.map(|pull| IssuePullRequest::new(pull, &html_url)).transpose()?;
        let assignees = std::iter::once(issue.assignee_id).chain(issue.other_assignee_ids).filter(|id| *id != 0);
        let assignees: Vec<_> = assignees.map(user).collect();
        Ok(Self {
            id: issue.id,
            number: issue.number,
            user: user(issue.user_id),
            title: issue.title,
            body: issue.body,
            truncated: issue.is_truncated,
            labels: issue.labels.into_iter().map(|label| Label::new(label, urls)).collect(),
            milestone: issue.milestone.map(Milestone::new).transpose()?,
            assignee: assignees.first().cloned(),
            assignees,
            state,
            comments: issue.comment_count,
            created_at: Time::new(issue.create_time, "create_time")?,
            updated_at: Time::new(issue.update_time, "update_time")?,
            closed_at: Time::optional(issue.close_time, "close_time")?,
            due_date: Time::optional(issue.due_time, "due_time")?,
            html_url,
            repository: IssueRepository::new(issue.repository_id, urls),
            pull_request,
        })
    }
}

crate::shape! {
    /// A label of a repository or an organization.
    #[derive(Clone, Debug, Serialize)]
    pub struct Label {
        id: i64,
        name: String,
        /// Without `#`, which it has in requests.
        color: String,
        /// What it is for, possibly empty.
        description: String,
        url: String,
    }
}

impl Label {
    /// Converts a label of a repository, or of the organization that owns it.
    #[must_use]
    pub fn new(label: issue::Label, urls: &RepositoryLinks) -> Self {
        let url = match label.organization_id {
            0 => urls.label(label.id),
            _ => urls.organization_label(label.id),
        };
        Self { url, id: label.id, name: label.name, color: label.color, description: label.description }
    }

    /// Converts a label of the organization with this name.
    #[must_use]
    pub fn of_organization(label: issue::Label, organization: &str, links: &Links) -> Self {
        let url = links.organization_label(organization, label.id);
        Self { url, id: label.id, name: label.name, color: label.color, description: label.description }
    }
}

impl LongTexts for Issue {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.body, &mut self.truncated);
        if let Some(milestone) = &mut self.milestone {
            milestone.for_each_text(visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::timestamp;
    use ferrite_proto::issue::IssueState;
    use ferrite_proto::repo;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_pull_request_has_the_key_of_one() {
        let links = Links::new("http://h", "h:22");
        let urls = links.repository("bob", "demo");
        let mut accounts = Accounts::default();
        let bob = repo::User { id: 3, username: "bob".into(), ..Default::default() };
        accounts.insert(bob, &links);
        let plain = issue::Issue {
            repository_id: 7,
            number: 2,
            user_id: 3,
            assignee_id: 4,
            other_assignee_ids: vec![3],
            state: IssueState::Closed.into(),
            create_time: Some(timestamp(0)),
            update_time: Some(timestamp(0)),
            close_time: Some(timestamp(1_000_000)),
            due_time: Some(timestamp(2_000_000)),
            ..Default::default()
        };
        assert_eq!(Issue::account_ids(&plain).collect::<Vec<_>>(), [3, 4, 3]);
        let shown = serde_json::to_value(Issue::new(plain.clone(), &accounts, &urls).unwrap()).unwrap();
        assert_eq!((&shown["user"]["username"], &shown["assignee"]["username"]), (&json!("bob"), &json!("ghost")));
        assert_eq!(
            (&shown["state"], &shown["closed_at"], &shown["html_url"]),
            (&json!("closed"), &json!("1970-01-01T00:00:01Z"), &json!("http://h/bob/demo/issues/2"))
        );
        assert_eq!((shown.get("pull_request"), shown.get("truncated")), (None, None));
        assert_eq!(shown["due_date"], "1970-01-01T00:00:02Z");
        let names: Vec<_> = shown["assignees"].as_array().unwrap().iter().map(|user| &user["username"]).collect();
        assert_eq!(names, ["ghost", "bob"]);
        let repository = json!({"id": 7, "name": "demo", "owner": "bob", "full_name": "bob/demo"});
        assert_eq!(shown["repository"], repository);
        let cut = issue::Issue { is_truncated: true, ..plain.clone() };
        let cut = serde_json::to_value(Issue::new(cut, &accounts, &urls).unwrap()).unwrap();
        assert_eq!(cut["truncated"], true);
        for (merge_time, merged_at) in [(None, json!(null)), (Some(timestamp(0)), json!("1970-01-01T00:00:00Z"))] {
            let is_merged = merge_time.is_some();
            let pull_request = issue::PullRequest { is_merged, merge_time, is_draft: !is_merged, ..Default::default() };
            let pull = issue::Issue { pull_request: Some(pull_request), ..plain.clone() };
            let shown = serde_json::to_value(Issue::new(pull, &accounts, &urls).unwrap()).unwrap();
            let html_url = "http://h/bob/demo/pulls/2";
            let merged = !merged_at.is_null();
            let expected = json!({"merged": merged, "merged_at": merged_at, "draft": !merged, "html_url": html_url});
            assert_eq!((&shown["pull_request"], &shown["html_url"]), (&expected, &json!(html_url)));
        }
    }
}
