//! RPC `ListTimeline`.

use ferrite_kit::page::Page;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::issue::{ListTimelineRequest, ListTimelineResponse, NamedRepository};
use ferrite_proto::repo::IssueAccess;
use tonic::Request;

use crate::error::IssueError;
use crate::rpc::{IssueRpc, encode};
use crate::store::TimelineEntry;

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) async fn list_timeline(
    service: &IssueRpc,
    request: Request<ListTimelineRequest>,
) -> Result<ListTimelineResponse, IssueError> {
    let grant = service.authorize(&request, request.get_ref().repository_id).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let (store, repository) = (&service.store, RepositoryId(request.repository_id));
    let issue = service.issue(repository, request.number).await?;
    let sources = store.sources(issue.id, repository).await?;
    // Most issues are referred to from their own repository alone, which the caller may see.
    let accesses = match grant.user.as_ref().filter(|user| user.token_id != 0) {
        Some(user) if !sources.is_empty() => service.repo.access_of_user(user, &sources).await?.accesses,
        Some(_) | None => Vec::new(),
    };
    let visible: Vec<_> =
        accesses.iter().map(|access| RepositoryId(access.repository_id)).chain([repository]).collect();
    let (entries, total_count) = store.timeline(issue.id, &visible, page).await?;
    let repositories = accesses.into_iter().map(named).collect();
    let show = |mut entry: TimelineEntry| {
        // An issue that was closed is closed for all, by which commit only for those who may see that.
        if entry.source_repository_id != 0 && !visible.contains(&RepositoryId(entry.source_repository_id)) {
            entry.commit_id.clear();
            entry.source_repository_id = 0;
        }
        encode::entry(entry, repository.0)
    };
    let entries = entries.into_iter().map(show).collect();
    Ok(ListTimelineResponse { entries, total_count, repositories })
}

/// Converts an access to the name of its repository.
pub(super) fn named(access: IssueAccess) -> NamedRepository {
    NamedRepository { repository_id: access.repository_id, owner: access.owner, name: access.name }
}
