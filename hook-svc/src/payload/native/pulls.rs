//! The payload of `pull_request`, in the shape of Gitea.

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::Links;
use ferrite_api_types::{PullRequest, Repository, User, Viewer};
use ferrite_proto::events::{IssueAction, IssueUpdated};
use ferrite_proto::repo;
use serde::Serialize;

use super::issues::{Changes, Cutter, issue_action};
use super::{Context, Payload};
use crate::payload::limits::within_limits;

#[derive(Serialize)]
struct PullRequestEvent<'a> {
    action: &'static str,
    number: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
    pull_request: PullRequest,
    repository: &'a Repository,
    sender: &'a User,
    /// The new commit of the head; only of `synchronized`.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_id: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// `head` is the repository of the head, if it is another one that all may see: who reads the
/// payload may not be allowed to see a private fork.
pub(crate) fn pull_request(
    context: &Context,
    updated: &IssueUpdated,
    head: Option<&repo::Repository>,
    links: &Links,
) -> Payload {
    let issue = updated.issue.as_ref().ok_or(MissingField("issue"))?;
    let ends = issue.pull_request.as_ref().ok_or(MissingField("pull_request"))?;
    let action = issue_action(updated.action())?;
    let commit_id = (updated.action() == IssueAction::Synchronized).then_some(ends.head_id.as_str());
    let head = match head {
        _ if ends.head_repository_id == issue.repository_id => Some(context.repository.clone()),
        Some(head) => {
            let mut head = Repository::new(head.clone(), Viewer::Authenticated, links)?;
            head.hide_permissions();
            Some(head)
        }
        None => None,
    };
    within_limits(|cut| {
        let mut cutter = Cutter::new(cut);
        let base = context.repository.clone();
        let pull_request =
            PullRequest::new(cutter.short(issue), None, base, head.clone(), context.accounts, &context.urls)?;
        Ok(serde_json::to_string(&PullRequestEvent {
            action,
            number: issue.number,
            changes: cutter.changes(updated),
            pull_request,
            repository: &context.repository,
            sender: &context.sender,
            commit_id,
            truncated: cutter.is_cut,
        })?)
    })
}
