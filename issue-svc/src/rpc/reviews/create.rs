//! CreateReview and SubmitReview.

use std::collections::HashSet;

use ferrite_db::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_markdown::references::{self, TextReferences};
use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::git::{DiffLines, FindLinesRequest};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::*;
use tonic::Request;

use super::find;
use crate::encode;
use crate::error::IssueError;
use crate::model::{self, Body, FullIssue, PullRequest, check_commit_id, position_field};
use crate::rpc::user;
use crate::state::AppState;
use crate::upstream::MAX_QUESTION_REPOSITORIES;
use crate::writer::{ReviewDraft, ReviewTargets, Submission, require_content, require_reviewable};

/// Comments per request, the most that git-svc finds lines for.
const MAX_NEW_COMMENTS: usize = 100;
/// Issues that the texts of a review refer to.
const MAX_TARGETS: usize = MAX_QUESTION_REPOSITORIES;

/// The checked fields of a new review.
struct NewReview {
    state: ReviewState,
    body: Body,
    /// In lowercase; `None` for the head.
    commit_id: Option<String>,
    comments: Vec<model::NewReviewComment>,
}

pub(super) async fn create_review(
    state: &AppState,
    request: Request<CreateReviewRequest>,
) -> Result<CreateReviewResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let author = user(&grant)?;
    let key = IdempotencyKey::of(&request, author.0, "CreateReview")?;
    let request = request.into_inner();
    let (repository, number) = (RepositoryId(request.repository_id), request.number);
    let create = async {
        let full = state.full_pull(repository, number).await?;
        let new = decode(request)?;
        require_reviewable(&full.issue, author, new.state)?;
        let text_bytes = new.comments.iter().map(|comment| comment.body.as_str().len()).sum::<usize>();
        state.limits.count_comment(&grant, new.body.as_str().len() + text_bytes).await?;
        let (event, is_writer) = (new.state, grant.permission >= Permission::Write);
        let seen = state.store.pending_review(state.store.reader(), full.issue.id, author).await?;
        let draft = locate(state, &full, seen.as_ref(), (author, is_writer), new).await?;
        let submission = match event {
            ReviewState::Pending => None,
            event => {
                let old = seen.as_ref().map_or("", |review| review.body.as_str());
                let body = format!("{old}\n\n{}", draft.body.as_str());
                let mut texts = match &seen {
                    Some(review) => state.store.review_comment_texts(review.id).await?,
                    None => Vec::new(),
                };
                texts.extend(draft.comments.iter().map(|comment| comment.body.as_str().to_owned()));
                Some(prepare(state, repository, author, event, (&body, &texts)).await?)
            }
        };
        let mut write = state.writer.begin_pull(repository).await?;
        let (issue, pull) = write.pull(number).await?;
        require_reviewable(&issue, author, event)?;
        let pending = write.pending_review(&issue, author).await?;
        if submission.is_some() {
            require_same(seen.as_ref(), pending.as_ref())?;
        }
        let review = write.draft_review(&issue, &pull.head_id, pending, &draft).await?;
        let review = match submission {
            Some(submission) => {
                state.pulls.retry_merge(&mut write, (repository, issue.id, number)).await?;
                write.submit_review(issue, review, submission).await?
            }
            None => {
                require_content(&review, event)?;
                review
            }
        };
        let (id, response) = (review.id, CreateReviewResponse { review: Some(encode::review(review)) });
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(CreateReviewResponse { review: Some(encode::review(find(state, (repository, number), id, author).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, create).await
}

pub(super) async fn submit_review(
    state: &AppState,
    request: Request<SubmitReviewRequest>,
) -> Result<SubmitReviewResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let author = user(&grant)?;
    let key = IdempotencyKey::of(&request, author.0, "SubmitReview")?;
    let request = request.into_inner();
    let (repository, number, id) = (RepositoryId(request.repository_id), request.number, request.review_id);
    let submit = async {
        let full = state.full_pull(repository, number).await?;
        let seen = pending(find(state, (repository, number), id, author).await?)?;
        let (event, body) = match (outcome(request.state), Body::parse(request.body)) {
            (Ok(event), Ok(body)) => (event, body),
            (event, body) => return Err(IssueError::invalid([event.err(), body.err()])),
        };
        let with_body = |review: model::Review| match body.as_str() {
            "" => review,
            body => model::Review { body: body.to_owned(), ..review },
        };
        require_reviewable(&full.issue, author, event)?;
        state.limits.count_text(&grant, body.as_str().len()).await?;
        let submitted = with_body(seen.clone());
        require_content(&submitted, event)?;
        let texts = state.store.review_comment_texts(id).await?;
        let submission = prepare(state, repository, author, event, (&submitted.body, &texts)).await?;
        let mut write = state.writer.begin_pull(repository).await?;
        let (issue, _) = write.pull(number).await?;
        require_reviewable(&issue, author, event)?;
        let review = pending(write.review(number, id, author).await?)?;
        write.require_review(&review)?;
        require_same(Some(&seen), Some(&review))?;
        state.pulls.retry_merge(&mut write, (repository, issue.id, number)).await?;
        let review = write.submit_review(issue, with_body(review), submission).await?;
        let response = SubmitReviewResponse { review: Some(encode::review(review)) };
        write.commit_with_subject(key.as_ref(), response, id).await
    };
    let rebuild = |id: i64| async move {
        Ok(SubmitReviewResponse { review: Some(encode::review(find(state, (repository, number), id, author).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, submit).await
}

fn decode(request: CreateReviewRequest) -> Result<NewReview, IssueError> {
    let state = match ReviewState::try_from(request.state) {
        Ok(ReviewState::Pending) => Ok(ReviewState::Pending),
        _ => outcome(request.state),
    };
    let body = Body::parse(request.body);
    let commit_id = match request.commit_id.as_str() {
        "" => Ok(None),
        id => check_commit_id("commit_id", id).map(|()| Some(id.to_ascii_lowercase())),
    };
    let mut violations = Vec::new();
    let mut comments = Vec::new();
    if request.comments.len() > MAX_NEW_COMMENTS {
        violations.push(FieldViolation::new("comments", "too_many", "must not list more than 100 comments"));
    } else {
        for (place, comment) in request.comments.into_iter().enumerate() {
            match model::NewReviewComment::parse(place, comment) {
                Ok(comment) => comments.push(comment),
                Err(found) => violations.extend(found),
            }
        }
    }
    match (state, body, commit_id) {
        (Ok(state), Ok(body), Ok(commit_id)) if violations.is_empty() => {
            Ok(NewReview { state, body, commit_id, comments })
        }
        (state, body, commit_id) => {
            violations.splice(0..0, [state.err(), body.err(), commit_id.err()].into_iter().flatten());
            Err(IssueError::Invalid(violations))
        }
    }
}

/// Parses what a review is submitted as.
fn outcome(state: i32) -> Result<ReviewState, FieldViolation> {
    use ReviewState::{Approved, ChangesRequested, Commented};
    match ReviewState::try_from(state) {
        Ok(state @ (Commented | Approved | ChangesRequested)) => Ok(state),
        _ => Err(FieldViolation::new("event", "unknown", "must be an outcome of a review")),
    }
}

/// Finds the reviewed commit and the lines of the comments. A review stays of the commit that it was
/// begun for, unless the request names another.
async fn locate(
    state: &AppState,
    full: &FullIssue,
    pending: Option<&model::Review>,
    (author, is_writer): (UserId, bool),
    new: NewReview,
) -> Result<ReviewDraft, IssueError> {
    let PullRequest { head_id, merge_base_id, .. } = full.pull_request.clone().ok_or(IssueError::PullNotFound)?;
    let NewReview { body, commit_id, mut comments, .. } = new;
    let (commit_id, merge_base_id) = match (commit_id, pending) {
        (None, Some(review)) => (review.commit_id.clone(), review.merge_base_id.clone()),
        (commit_id, _) => (commit_id.unwrap_or_else(|| head_id.clone()), merge_base_id),
    };
    let is_head = commit_id == head_id || state.store.had_head(full.issue.id, &commit_id).await?;
    if !is_head || !comments.is_empty() {
        let lines = comments.iter().map(|comment| DiffLines {
            path: comment.path.clone(),
            is_old_side: comment.is_old_side,
            line: comment.line,
            line_count: comment.line_count,
        });
        let request = FindLinesRequest {
            repository_id: full.issue.repository.0,
            // The head does not contain an earlier one after a force push.
            head_id: if is_head { commit_id.clone() } else { head_id },
            merge_base_id: merge_base_id.clone(),
            lines: lines.collect(),
            commit_id: if is_head { String::new() } else { commit_id.clone() },
            user_id: author.0,
        };
        let found = state.pulls.find_lines(request).await?;
        let mut violations = Vec::new();
        for (place, (comment, found)) in comments.iter_mut().zip(found).enumerate() {
            if !found.exists {
                let (field, message) = match found.is_file_missing {
                    true => ("path", "no such file in this commit, or it is not a text of at most 1 MiB"),
                    false => (position_field(comment.is_old_side), "no such line in this file"),
                };
                violations.push(FieldViolation::new(format!("comments[{place}].{field}"), "unknown", message));
            }
            comment.diff_hunk = found.diff_hunk;
        }
        if !violations.is_empty() {
            return Err(IssueError::Invalid(violations));
        }
    }
    Ok(ReviewDraft { author, is_writer, body, commit_id, merge_base_id, comments })
}

/// Asks repo-svc what a submission needs to know: what the author may do, and who and what the
/// texts, a body and those of the comments, mention.
async fn prepare(
    state: &AppState,
    repository: RepositoryId,
    author: UserId,
    event: ReviewState,
    (body, comments): (&str, &[String]),
) -> Result<Submission, IssueError> {
    let described = state.repo.reviewers(repository, &[], &[author.0], &[]).await?;
    let reviewer = described.users.into_iter().next().unwrap_or_default();
    let body = references::parse(body);
    let comments: Vec<_> = comments.iter().map(|text| references::parse(text)).collect();
    let mut seen = HashSet::new();
    let issues = body.issues.iter().chain(comments.iter().flat_map(|found| &found.issues));
    let issues: Vec<_> = issues.filter(|issue| seen.insert(*issue)).take(MAX_TARGETS).cloned().collect();
    let targets = state.repo.targets(repository, author, TextReferences { mentions: Vec::new(), issues }).await?;
    let targets = ReviewTargets {
        body: body.mentions,
        comments: comments.into_iter().map(|found| found.mentions).collect(),
        issues: targets.issues,
    };
    Ok(Submission { state: event, is_official: reviewer.can_write, team_ids: reviewer.team_ids, targets })
}

/// Returns a review that can be submitted.
fn pending(review: model::Review) -> Result<model::Review, IssueError> {
    match review.state {
        ReviewState::Pending => Ok(review),
        ReviewState::Requested => Err(IssueError::ReviewNotFound),
        _ => Err(IssueError::ReviewSubmitted),
    }
}

/// Checks that nothing was added to a pending review since its texts were read.
fn require_same(seen: Option<&model::Review>, now: Option<&model::Review>) -> Result<(), IssueError> {
    let state = |review: Option<&model::Review>| {
        review.map(|review| (review.id, review.updated_us, review.comment_count, review.body.clone()))
    };
    if state(seen) == state(now) { Ok(()) } else { Err(IssueError::ReviewChanged) }
}
