//! The payload of `status`, in the shape of Gitea.

use ferrite_api_types::convert::time;
use ferrite_api_types::{Repository, User};
use ferrite_proto::git::{CommitStatus, DescribedCommit};
use serde::Serialize;

use super::refs::{PayloadCommit, payload_commit};
use super::{Context, Payload};
use crate::payload::limits::within_limits;

#[derive(Serialize)]
struct StatusEvent<'a> {
    id: i64,
    sha: &'a str,
    state: &'static str,
    context: &'a str,
    target_url: &'a str,
    description: &'a str,
    commit: PayloadCommit,
    repository: &'a Repository,
    sender: &'a User,
    created_at: &'a str,
    updated_at: &'a str,
}

pub(crate) fn status(context: &Context, status: &CommitStatus, commit: &DescribedCommit) -> Payload {
    let created_at = time(status.created_time, "created_time")?;
    within_limits(|cut| {
        Ok(serde_json::to_string(&StatusEvent {
            id: status.id,
            sha: &status.commit_id,
            state: status.state().word(),
            context: &status.context,
            target_url: &status.target_url,
            description: &status.description,
            commit: payload_commit(context, commit, cut)?,
            repository: &context.repository,
            sender: &context.sender,
            created_at: &created_at,
            updated_at: &created_at,
        })?)
    })
}
