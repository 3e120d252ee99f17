//! UpdatePull.

use ferrite_db::idempotency::{IdempotencyKey, once_or_rebuild};
use ferrite_proto::Permission;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::Grant;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::*;
use tonic::Request;

use super::create::same_ends;
use crate::encode;
use crate::error::IssueError;
use crate::model::{Body, IssueChange, PullEnds, Title, check_branch};
use crate::pulls::Update;
use crate::rpc::issues::{assignees, owners_of_labels};
use crate::rpc::{due_change, require_author_or, user};
use crate::state::AppState;
use crate::upstream::StagedHead;
use crate::writer::{IssueLabelChange, MAX_ISSUE_LABELS, TextTargets, known_labels, require_open, unknown_milestone};

/// A checked change.
struct PullChange {
    issue: IssueChange,
    labels: Option<Vec<i64>>,
    targets: TextTargets,
    /// The new base with the commits of both ends.
    base: Option<(String, StagedHead)>,
}

pub(super) async fn update_pull(
    state: &AppState,
    request: Request<UpdatePullRequest>,
) -> Result<UpdatePullResponse, IssueError> {
    let grant = state.authorize_pulls(&request, request.get_ref().repository_id).await?;
    let actor = user(&grant)?;
    let key = IdempotencyKey::of(&request, actor.0, "UpdatePull")?;
    let request = request.into_inner();
    let (repository, number) = (RepositoryId(request.repository_id), request.number);
    // Readers get a grant to edit too. Check who may edit this one even if the request is a repeat.
    let full = state.full_pull(repository, number).await?;
    require_author_or(&grant, full.issue.author, Permission::Write)?;
    let update = async {
        let change = decode(state, &grant, request).await?;
        let text_bytes = change.issue.body.as_ref().map_or(0, |body| body.as_str().len());
        state.limits.count_text(&grant, text_bytes).await?;
        let mut write = state.writer.begin_pull(repository).await?;
        let (mut issue, pull) = write.pull(number).await?;
        require_author_or(&grant, issue.author, Permission::Write)?;
        write.require_issue(&issue).await?;
        let mut moves_head = issue.class.is_closed && change.issue.is_closed == Some(false);
        if let Some((branch, staged)) = &change.base
            && *branch != pull.base_branch
        {
            issue = write.change_base(issue, &pull, (branch, &staged.merge_base_id), actor).await?;
            // Approvals were given for what the other base lacks.
            write.dismiss_stale_approvals(issue.id, "").await?;
            moves_head = true;
        }
        if let Some(ids) = change.labels {
            let labels = IssueLabelChange {
                kind: LabelChange::Replace,
                ids: ids.into_iter().collect(),
                names: Vec::new(),
                organization: grant.organization_id(),
            };
            write.change_labels(&issue, labels, actor).await?;
            // The change of labels may have set a new time.
            (issue, _) = write.pull(number).await?;
        }
        let full = write.change(issue, change.issue, &change.targets, actor).await?;
        if moves_head {
            let (head, now_us) = (Update::Head { number }, write.now_us());
            state.pulls.queue.record(write.tx(), repository, &head, actor, now_us).await?;
        }
        let response = UpdatePullResponse { pull: Some(encode::issue(full)) };
        let response = write.commit_with_subject(key.as_ref(), response, number).await?;
        state.pulls.queue.wake();
        Ok(response)
    };
    let rebuild = |number: i64| async move {
        Ok(UpdatePullResponse { pull: Some(encode::issue(state.full_pull(repository, number).await?)) })
    };
    once_or_rebuild(state.store.db(), key.as_ref(), rebuild, update).await
}

async fn decode(state: &AppState, grant: &Grant, request: UpdatePullRequest) -> Result<PullChange, IssueError> {
    let (repository, store) = (RepositoryId(request.repository_id), &state.store);
    let is_writer = grant.permission >= Permission::Write;
    let milestone_id = request.milestone_id.filter(|_| is_writer);
    let assignees = match request.assignees.as_ref().filter(|_| is_writer) {
        Some(names) => assignees(state, repository, true, ("", &names.usernames)).await?.map(Some),
        None => Ok(None),
    };
    let labels = match request.labels.filter(|_| is_writer) {
        Some(LabelIds { mut ids }) => {
            ids.sort_unstable();
            ids.dedup();
            match ids.len() > MAX_ISSUE_LABELS {
                true => Err(FieldViolation::new("labels", "too_many", "a pull request can have at most 100 labels")),
                false => known_labels(store, store.reader(), &owners_of_labels(grant), &ids).await?.map(|_| Some(ids)),
            }
        }
        None => Ok(None),
    };
    let title = request.title.as_deref().map(Title::parse).transpose();
    let body = request.body.map(Body::parse).transpose();
    let is_closed = encode::is_closed(request.state);
    let branch = request.base_branch.as_deref().map(|branch| check_branch("base", branch)).transpose();
    let due_us = due_change(grant, request.due_time, request.clear_due_time);
    let (issue, labels) = match (title, body, is_closed, assignees, labels, branch, due_us) {
        (Ok(title), Ok(body), Ok(is_closed), Ok(assignees), Ok(labels), Ok(_), Ok(due_us)) => {
            (IssueChange { title, body, is_closed, assignees, milestone_id, due_us }, labels)
        }
        (title, body, is_closed, assignees, labels, branch, due_us) => {
            let milestone = unknown_milestone(store, store.reader(), repository, milestone_id.unwrap_or(0)).await?;
            let found = [title.err(), body.err(), branch.err(), assignees.err()];
            let others = [milestone, due_us.err(), labels.err(), is_closed.err()];
            return Err(IssueError::invalid(found.into_iter().chain(others)));
        }
    };
    let targets = match &issue.body {
        Some(body) => state.targets(repository, user(grant)?, body.as_str()).await?,
        None => TextTargets::default(),
    };
    let base = match request.base_branch {
        Some(branch) => new_base(state, repository, request.number, branch).await?,
        None => None,
    };
    Ok(PullChange { issue, labels, targets, base })
}

/// Returns the commits of a pull request with another base; `None` if it has this base.
async fn new_base(
    state: &AppState,
    repository: RepositoryId,
    number: i64,
    branch: String,
) -> Result<Option<(String, StagedHead)>, IssueError> {
    let full = state.full_pull(repository, number).await?;
    let pull = full.pull_request.ok_or(IssueError::PullNotFound)?;
    if pull.base_branch == branch {
        return Ok(None);
    }
    require_open(&full.issue, &pull)?;
    let ends = PullEnds {
        repository,
        base_branch: branch.clone(),
        head_repository: RepositoryId(pull.head_repository_id),
        head_branch: pull.head_branch,
    };
    if let Some(violation) = same_ends(&ends) {
        return Err(FieldViolation { field: "base".to_owned(), ..violation }.into());
    }
    // The author brings the commits into the base, whoever changes it.
    let staged = state.pulls.stage(&ends, full.issue.author).await?;
    Ok(Some((branch, staged)))
}
