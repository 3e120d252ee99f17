//! `ResolveFeedAccess`: a new decision about the reader of a feed, and which of some events it may read.

use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{ReadableRelease, ResolveFeedAccessRequest, ResolveFeedAccessResponse};
use ferrite_proto::{Permission, operation, text_digest};
use tonic::Request;

use super::reauthorize_access::decide;
use crate::access::Unit;
use crate::error::RepoError;
use crate::rpc::permit::Permit;
use crate::state::AppState;

/// Most repositories, and most releases, of one question: the events of a page.
const MAX_IDS: usize = 100;

pub(super) async fn handle(
    state: &AppState,
    _: Permit,
    request: Request<ResolveFeedAccessRequest>,
) -> Result<ResolveFeedAccessResponse, RepoError> {
    let asked = request.get_ref();
    for (field, ids) in [("repository_ids", &asked.repository_ids), ("release_ids", &asked.release_ids)] {
        if ids.len() > MAX_IDS {
            return Err(RepoError::field(field, "too_long", "must be at most 100"));
        }
    }
    let access = asked.access.as_ref().ok_or_else(|| RepoError::field("access", "required", "is required"))?;
    if ![operation::LIST_EVENTS, operation::WATCH_EVENTS].contains(&access.operation.as_str()) {
        return Err(RepoError::field("access.operation", "invalid", "must be the reading of events"));
    }
    let (permit, repository) = decide(state, &request, access).await?;
    let viewer = permit.viewer();
    let can_read_issues =
        repository.has_issues() && repository.access().token_level(viewer, Unit::Issues) >= Permission::Read;
    let repositories = match asked.repository_ids.as_slice() {
        [] => Vec::new(),
        ids => state.repositories.find_many_visible(ids, viewer).await?,
    };
    let sees_drafts = permit.level(&repository) >= Permission::Write;
    let releases = match asked.release_ids.as_slice() {
        [] => Vec::new(),
        ids => state.releases.find_notes(RepositoryId(repository.id), ids, sees_drafts).await?,
    };
    let release = |(id, notes): (i64, String)| ReadableRelease { id, notes_digest: text_digest(&notes).to_vec() };
    Ok(ResolveFeedAccessResponse {
        can_read_issues,
        repository_ids: repositories.into_iter().map(|found| found.id).collect(),
        releases: releases.into_iter().map(release).collect(),
    })
}
