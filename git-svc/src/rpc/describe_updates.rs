//! `DescribeUpdates`: commits with messages, people and changed paths, for services that tell others about updates of refs.

use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{self, DescribeUpdatesRequest, DescribeUpdatesResponse, DescribedHead},
    id::RepositoryId,
};
use prost_types::Timestamp;
use tonic::Request;

use super::decode;
use crate::{
    repo::read::{
        self, Deadline, DescribedCommit, DescribedRef, DescriptionLimits, DescriptionRequest, Descriptions, Person,
        UpdateDescription,
        deadline::READ_TIMEOUT,
        describe::{MAX_CHANGED_PATHS, MAX_DESCRIBED_COMMITS, MAX_DESCRIBED_MESSAGE_BYTES, MAX_DESCRIBED_UPDATES},
    },
    state::AppState,
    types::{error::GitError, rpc_error::RpcError},
};

/// Returns the descriptions of the updates, and of the newest commit of the default branch if asked for.
pub(super) async fn describe_updates(
    state: &AppState,
    request: Request<DescribeUpdatesRequest>,
) -> Result<DescribeUpdatesResponse, RpcError> {
    Caller::of(&request).require_service()?;
    let request = request.into_inner();
    let id = RepositoryId(request.repository_id);
    let checked = check(&request)?;
    let table = state.refs.table(id).await?;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let job = move |allows_missing: bool| {
        let (request, table, deadline) =
            (DescriptionRequest { allows_missing, ..checked.clone() }, table.clone(), deadline.clone());
        state.pool.run(id, move |repo| read::describe(repo, &table, &request, &deadline))
    };
    // The pool opens the repository anew when an object is missing, so a missing one is believed at the second time only.
    let described = match job(false).await {
        Err(error) if error.is_missing_object() => job(true).await?,
        described => described?,
    };
    Ok(encode(described))
}

/// Checks the fields of a request.
fn check(request: &DescribeUpdatesRequest) -> Result<DescriptionRequest, GitError> {
    if request.updates.len() > MAX_DESCRIBED_UPDATES {
        return Err(GitError::invalid("updates", "too_long", "at most 64 updates can be asked for at once"));
    }
    let refs = request.updates.iter().enumerate().map(|(index, update)| {
        Ok(DescribedRef {
            name: update.name.clone(),
            old: decode::object_id(&format!("updates[{index}].old_id"), &update.old_id)?,
            new: decode::object_id(&format!("updates[{index}].new_id"), &update.new_id)?,
        })
    });
    let limits = DescriptionLimits {
        commits: decode::parse_limit("commit_limit", request.commit_limit, MAX_DESCRIBED_COMMITS)?,
        paths: decode::parse_limit("path_limit", request.path_limit, MAX_CHANGED_PATHS)?,
        message_bytes: decode::parse_limit(
            "message_bytes_limit",
            request.message_bytes_limit,
            MAX_DESCRIBED_MESSAGE_BYTES,
        )?,
    };
    let refs = refs.collect::<Result<_, GitError>>()?;
    Ok(DescriptionRequest { refs, with_head: request.with_head, limits, allows_missing: false })
}

fn encode(described: Descriptions) -> DescribeUpdatesResponse {
    let update = |update: UpdateDescription| git::UpdateDescription {
        commits: update.commits.into_iter().map(commit).collect(),
        total_commits: i64::try_from(update.total).unwrap_or(i64::MAX),
        is_missing: update.is_missing,
    };
    let head = described.head.map(|head| DescribedHead {
        branch: head.branch.as_bytes().to_vec(),
        commit: Some(commit(head.commit)),
        parent_id: head.parent.map(|id| id.to_string()).unwrap_or_default(),
    });
    DescribeUpdatesResponse { updates: described.updates.into_iter().map(update).collect(), head }
}

fn commit(commit: DescribedCommit) -> git::DescribedCommit {
    git::DescribedCommit {
        id: commit.id.to_string(),
        message: commit.message,
        is_message_cut: commit.is_message_cut,
        author: Some(person(commit.author)),
        committer: Some(person(commit.committer)),
        added: commit.paths.added,
        removed: commit.paths.removed,
        modified: commit.paths.modified,
        are_paths_cut: commit.paths.is_cut,
    }
}

fn person(person: Person) -> git::Person {
    git::Person { name: person.name, email: person.email, time: Some(Timestamp { seconds: person.seconds, nanos: 0 }) }
}
