use ferrite_proto::issue::{self, IssueState};
use serde::Serialize;

use super::convert::{MissingField, time};
use super::user::{Accounts, User};
use crate::http::links::Links;

/// An issue.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Issue {
    id: i64,
    number: i64,
    user: User,
    title: String,
    body: String,
    // There are no operations for labels, milestones and assignees yet, so no issue has one.
    labels: [(); 0],
    milestone: Option<()>,
    assignee: Option<()>,
    state: &'static str,
    comments: i64,
    created_at: String,
    updated_at: String,
}

impl Issue {
    pub(crate) fn new(issue: issue::Issue, accounts: &Accounts, links: &Links) -> Result<Self, MissingField> {
        let state = match issue.state() {
            IssueState::Open => "open",
            IssueState::Closed => "closed",
            IssueState::Unspecified => return Err(MissingField("state")),
        };
        Ok(Self {
            id: issue.id,
            number: issue.number,
            user: accounts.by_id(issue.user_id, links),
            title: issue.title,
            body: issue.body,
            labels: [],
            milestone: None,
            assignee: None,
            state,
            comments: issue.comment_count,
            created_at: time(issue.create_time, "create_time")?,
            updated_at: time(issue.update_time, "update_time")?,
        })
    }
}
