//! Payloads of `pull_request` and of reviews, in the shape of Gitea.

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::Links;
use ferrite_api_types::{PullRequest, Repository, User, Viewer};
use ferrite_proto::events::{IssueAction, IssueUpdated, PullReviewed};
use ferrite_proto::issue::{Issue, Review, ReviewState};
use ferrite_proto::repo;
use serde::Serialize;

use super::issues::{Changes, Cutter, issue_action};
use super::{Context, Payload};
use crate::model::event_type;
use crate::payload::limits::within_limits;

#[derive(Serialize)]
struct PullRequestEvent<'a> {
    action: &'static str,
    number: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
    pull_request: PullRequest,
    /// Who was asked for a review, or no longer is; null for a team, and in other events.
    requested_reviewer: Option<&'a User>,
    /// The same for a team.
    requested_team: Option<RequestedTeam<'a>>,
    repository: &'a Repository,
    sender: &'a User,
    /// The new commit of the head, or the commit that was reviewed; left out by other events.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_id: Option<&'a str>,
    /// Null if it is no review.
    review: Option<ReviewText>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Clone, Copy, Serialize)]
struct RequestedTeam<'a> {
    id: i64,
    name: &'a str,
}

#[derive(Serialize)]
struct ReviewText {
    id: i64,
    /// The type of the event.
    r#type: &'static str,
    content: String,
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
    let reviewer = (updated.reviewer_id != 0).then(|| context.accounts.by_id(updated.reviewer_id, links));
    let team = updated.reviewing_team.as_ref().map(|team| RequestedTeam { id: team.id, name: &team.name });
    let head = head_repository(context, issue, head, links)?;
    within_limits(|cut| {
        let mut cutter = Cutter::new(cut);
        Ok(serde_json::to_string(&PullRequestEvent {
            action,
            number: issue.number,
            changes: cutter.changes(updated),
            pull_request: shown(context, issue, head.clone(), &mut cutter)?,
            requested_reviewer: reviewer.as_ref(),
            requested_team: team,
            repository: &context.repository,
            sender: &context.sender,
            commit_id,
            review: None,
            truncated: cutter.is_cut,
        })?)
    })
}

/// Builds the payload of a submitted review. `head` is as in [`pull_request`].
pub(crate) fn pull_review(
    context: &Context,
    reviewed: &PullReviewed,
    head: Option<&repo::Repository>,
    links: &Links,
) -> Payload {
    let pull = reviewed.pull.as_ref().ok_or(MissingField("pull"))?;
    let review = reviewed.review.as_ref().ok_or(MissingField("review"))?;
    let r#type = review_type(review)?;
    let head = head_repository(context, pull, head, links)?;
    within_limits(|cut| {
        let mut cutter = Cutter::new(cut);
        let pull_request = shown(context, pull, head.clone(), &mut cutter)?;
        let mut content = review.body.clone();
        cutter.text(&mut content);
        Ok(serde_json::to_string(&PullRequestEvent {
            action: "reviewed",
            number: pull.number,
            changes: None,
            pull_request,
            requested_reviewer: None,
            requested_team: None,
            repository: &context.repository,
            sender: &context.sender,
            commit_id: Some(&review.commit_id),
            review: Some(ReviewText { id: review.id, r#type, content }),
            truncated: cutter.is_cut,
        })?)
    })
}

fn review_type(review: &Review) -> Result<&'static str, MissingField> {
    let name = match review.state() {
        ReviewState::Approved => "pull_request_approved",
        ReviewState::ChangesRequested => "pull_request_rejected",
        ReviewState::Commented => "pull_request_comment",
        ReviewState::Unspecified | ReviewState::Pending | ReviewState::Requested => return Err(MissingField("state")),
    };
    Ok(event_type(name, "", false))
}

fn head_repository(
    context: &Context,
    pull: &Issue,
    head: Option<&repo::Repository>,
    links: &Links,
) -> Result<Option<Repository>, MissingField> {
    let head_id = pull.pull_request.as_ref().map(|ends| ends.head_repository_id);
    if head_id == Some(pull.repository_id) {
        return Ok(Some(context.repository.clone()));
    }
    let shown = head.map(|head| Repository::new(head.clone(), Viewer::Authenticated, links)).transpose()?;
    Ok(shown.map(|mut shown| {
        shown.hide_permissions();
        shown
    }))
}

fn shown(
    context: &Context,
    pull: &Issue,
    head: Option<Repository>,
    cutter: &mut Cutter,
) -> Result<PullRequest, MissingField> {
    let base = context.repository.clone();
    PullRequest::new(cutter.short(pull), None, base, head, context.accounts, &context.urls)
}
