//! CreatePull.

use ferrite_db::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::{Grant, Subject};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::*;
use ferrite_proto::operation::GET_BRANCH;
use ferrite_rpc::auth::AuthError;
use tonic::Request;

use crate::encode;
use crate::error::IssueError;
use crate::model::{Body, NewIssue, NewPullRequest, PullEnds, Title, check_branch};
use crate::rpc::issues::{assignees, owners_of_labels};
use crate::rpc::review_requests::reviewers;
use crate::rpc::user;
use crate::state::AppState;
use crate::writer::{MAX_ISSUE_LABELS, known_labels, unknown_milestone};

/// Real grants have less than 2 KiB.
const MAX_GRANT_BYTES: usize = 16 * 1024;

pub(super) async fn create_pull(
    state: &AppState,
    mut request: Request<CreatePullRequest>,
) -> Result<CreatePullResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let author = user(&grant)?;
    // A repeated request has another grant.
    let head_grant = std::mem::take(&mut request.get_mut().head_grant);
    let key = IdempotencyKey::of(&request, author.0, "CreatePull")?;
    let request = request.into_inner();
    let repository = RepositoryId(request.repository_id);
    let create = async {
        let (names, teams) = (request.reviewers.clone(), request.reviewing_teams.clone());
        let (mut new, ends) = decode(state, &grant, request).await?;
        check_head_grant(state, &grant, &head_grant, ends.head_repository)?;
        state.limits.count_issue(&grant, new.body.as_str().len()).await?;
        if let Some(number) = state.store.open_between(state.store.reader(), &ends).await? {
            return Err(IssueError::PullExists { number });
        }
        let targets = state.targets(new.repository, new.author, new.body.as_str()).await?;
        let staged = state.pulls.stage(&ends, author).await?;
        new.pull_request = Some(NewPullRequest {
            head_repository: ends.head_repository,
            head_branch: ends.head_branch.clone(),
            base_branch: ends.base_branch.clone(),
            head_id: staged.head_id,
            merge_base_id: staged.merge_base_id,
        });
        // Copying takes time, in which a reviewer may have lost the access.
        let asked = reviewers(state, &grant, author, &names, &teams).await?.map_err(IssueError::Invalid)?;
        let mut write = state.writer.begin_open(&new).await?;
        write.require_no_pull(&ends).await?;
        let mut pull = write.open(&new, &targets).await?;
        if let Some(fields) = pull.pull_request.clone().filter(|_| !asked.is_empty()) {
            (pull, _) = write.request_reviews(pull.issue, &fields, &asked, author).await?;
        }
        let (number, now_us) = (pull.issue.number, write.now_us());
        let claim = state.pulls.queue.record_claimed(write.tx(), repository, number, author, now_us).await?;
        let response = CreatePullResponse { pull: Some(encode::issue(pull)) };
        let response = write.commit_with_subject(key.as_ref(), response, number).await?;
        // A push since the commits were found has seen no pull request, so look at the branch again.
        state.pulls.update_claimed_head(&claim, number).await;
        Ok(response)
    };
    let rebuild = |number: i64| async move {
        Ok(CreatePullResponse { pull: Some(encode::issue(state.full_pull(repository, number).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, create).await
}

/// Checks that the caller may read the head: that the grant is valid, for this repository, and of
/// the same user and token.
fn check_head_grant(
    state: &AppState,
    grant: &Grant,
    head_grant: &str,
    head_repository: RepositoryId,
) -> Result<(), AuthError> {
    let verified = match head_grant.len() {
        1..=MAX_GRANT_BYTES => state.verifier.verify_at(head_grant, state.pulls.clock.now_secs()),
        _ => return Err(AuthError::BadGrant),
    };
    let (head, _) = verified.map_err(|_| AuthError::BadGrant)?;
    let caller = |grant: &Grant| grant.user.as_ref().map(|user| (user.id, user.token_id));
    let is_valid = head.subject == Subject::Repository
        && head.repository_id() == head_repository
        && head.operation == GET_BRANCH
        && head.permission >= Permission::Read
        && caller(&head) == caller(grant);
    if is_valid { Ok(()) } else { Err(AuthError::BadGrant) }
}

async fn decode(
    state: &AppState,
    grant: &Grant,
    request: CreatePullRequest,
) -> Result<(NewIssue, PullEnds), IssueError> {
    let repository = RepositoryId(request.repository_id);
    // Ignore the values of other callers, so that they do not learn what exists.
    let is_writer = grant.permission >= Permission::Write;
    let milestone_id = if is_writer { request.milestone_id } else { 0 };
    let due_us = request.due_time.filter(|_| is_writer).map(encode::due_us);
    let mut label_ids = if is_writer { request.label_ids } else { Vec::new() };
    label_ids.sort_unstable();
    label_ids.dedup();
    let labels = match label_ids.len() > MAX_ISSUE_LABELS {
        true => Err(FieldViolation::new("labels", "too_many", "a pull request can have at most 100 labels")),
        false => Ok(label_ids),
    };
    let ends = PullEnds {
        repository,
        base_branch: request.base_branch,
        head_repository: RepositoryId(request.head_repository_id),
        head_branch: request.head_branch,
    };
    let assignees = match is_writer {
        true => assignees(state, repository, true, ("", &request.assignees)).await?,
        false => Ok(Vec::new()),
    };
    let author = user(grant)?;
    let asked = reviewers(state, grant, author, &request.reviewers, &request.reviewing_teams).await?;
    match (Title::parse(&request.title), Body::parse(request.body), assignees, labels, check_ends(&ends), asked) {
        (Ok(title), Ok(body), Ok(assignees), Ok(label_ids), Ok(()), Ok(_)) => {
            let new = NewIssue {
                repository,
                organization: grant.organization_id(),
                author,
                title,
                body,
                is_closed: false,
                assignees,
                milestone_id,
                due_us,
                label_ids,
                pull_request: None,
            };
            Ok((new, ends))
        }
        (title, body, assignees, labels, ends, asked) => {
            // Report everything at once, also what the write would find.
            let store = &state.store;
            let milestone = unknown_milestone(store, store.reader(), repository, milestone_id).await?;
            let labels = match labels {
                Ok(ids) => known_labels(store, store.reader(), &owners_of_labels(grant), &ids).await?.err(),
                Err(violation) => Some(violation),
            };
            let ends = ends.err().unwrap_or_default().into_iter().map(Some);
            let asked = asked.err().unwrap_or_default().into_iter().map(Some);
            let others = [title.err(), body.err(), assignees.err(), milestone, labels];
            Err(IssueError::invalid(ends.chain(others).chain(asked)))
        }
    }
}

fn check_ends(ends: &PullEnds) -> Result<(), Vec<FieldViolation>> {
    let checks = [check_branch("base", &ends.base_branch), check_branch("head", &ends.head_branch)];
    let mut violations: Vec<_> = checks.into_iter().filter_map(Result::err).collect();
    if violations.is_empty() {
        violations.extend(same_ends(ends));
        if ends.head_repository.0 <= 0 {
            violations.push(FieldViolation::new("head", "required", "must name a repository"));
        }
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

/// Returns the violation of a pull request from a branch into itself.
pub(super) fn same_ends(ends: &PullEnds) -> Option<FieldViolation> {
    let is_same = ends.repository == ends.head_repository && ends.base_branch == ends.head_branch;
    is_same.then(|| FieldViolation::new("head", "invalid", "must be another branch than the base"))
}
