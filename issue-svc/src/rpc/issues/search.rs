//! The search over the issues of all repositories.

use std::collections::{BTreeSet, HashMap};

use ferrite_core::page::Page;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::grant::GrantUser;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::{SearchIssuesRequest, SearchIssuesResponse};
use ferrite_proto::repo::IssueAccess;
use ferrite_rpc::auth::{AuthError, Caller, OperationSubject};
use tonic::Request;

use super::{MAX_PAGE_SIZE, kinds, named};
use crate::encode;
use crate::error::IssueError;
use crate::model::Class;
use crate::state::AppState;
use crate::store::{FoundIssue, SearchFilter, WINDOW_ROWS};
use crate::upstream::{MAX_QUESTION_REPOSITORIES, can_read};

/// Windows of issues that one search reads.
const MAX_WINDOWS: usize = 10;
const MAX_NAMES: usize = 100;

pub(super) async fn search_issues(
    state: &AppState,
    request: Request<SearchIssuesRequest>,
) -> Result<SearchIssuesResponse, IssueError> {
    let grant = state.authorizer.authorize_subject(&Caller::of(&request), OperationSubject::User).await?;
    let viewer = grant.user.as_ref().ok_or(AuthError::CredentialsRequired)?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let filter = filter(&request, viewer)?;
    let owner = request.owner.to_lowercase();
    let (store, size) = (&state.store, usize::try_from(page.size()).unwrap_or_default());
    let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let page_end = offset.saturating_add(size);
    let mut accesses = HashMap::new();
    let (mut found, mut below, mut is_end) = (Vec::new(), i64::MAX, false);
    for _ in 0..MAX_WINDOWS {
        let window = store.search_window(&filter, below).await?;
        is_end = i64::try_from(window.len()).is_ok_and(|rows| rows < WINDOW_ROWS);
        let Some(last) = window.last() else { break };
        below = *last;
        let matches = store.search_matches(&filter, &window).await?;
        look_up(state, viewer, &matches, &mut accesses).await?;
        let is_shown = |found: &FoundIssue| {
            let access: Option<&IssueAccess> = accesses.get(&found.repository).and_then(Option::as_ref);
            let is_of_owner = |access: &IssueAccess| owner.is_empty() || access.owner.to_lowercase() == owner;
            access.is_some_and(|access| can_read(access, found.is_pull_request) && is_of_owner(access))
        };
        found.extend(matches.into_iter().filter(is_shown));
        if is_end || found.len() > page_end {
            break;
        }
    }
    let (count, has_more) = (found.len(), found.len() > page_end);
    let total_count = is_end.then(|| i64::try_from(count).unwrap_or(i64::MAX));
    let ids: Vec<_> = found.into_iter().skip(offset).take(size).map(|found| found.id).collect();
    let issues = if ids.is_empty() { Vec::new() } else { store.issues_by_id(&ids).await? };
    let repositories: BTreeSet<_> = issues.iter().map(|full| full.issue.repository.0).collect();
    let repositories =
        repositories.into_iter().filter_map(|id| accesses.remove(&RepositoryId(id)).flatten()).map(named).collect();
    let issues = issues.into_iter().map(encode::issue).collect();
    Ok(SearchIssuesResponse { issues, total_count, has_more, repositories })
}

/// Adds the viewer's access to the repositories of `matches`; `None` for those it may not see.
async fn look_up(
    state: &AppState,
    viewer: &GrantUser,
    matches: &[FoundIssue],
    accesses: &mut HashMap<RepositoryId, Option<IssueAccess>>,
) -> Result<(), IssueError> {
    let ids: BTreeSet<i64> = matches.iter().map(|found| found.repository.0).collect();
    let unknown: Vec<_> = ids.into_iter().map(RepositoryId).filter(|id| !accesses.contains_key(id)).collect();
    for chunk in unknown.chunks(MAX_QUESTION_REPOSITORIES) {
        let response = state.repo.access_of_user(viewer, chunk, true).await?;
        accesses.extend(chunk.iter().map(|id| (*id, None)));
        accesses.extend(response.accesses.into_iter().map(|access| (RepositoryId(access.repository_id), Some(access))));
    }
    Ok(())
}

fn filter(request: &SearchIssuesRequest, viewer: &GrantUser) -> Result<SearchFilter, IssueError> {
    let states = encode::is_closed(request.state)?.map_or(vec![false, true], |is_closed| vec![is_closed]);
    let kinds = kinds(request.kind)?;
    let class = |is_closed: bool| kinds.iter().map(move |kind| Class { is_pull_request: *kind, is_closed });
    for (field, names) in [("labels", &request.labels), ("milestones", &request.milestones)] {
        if names.len() > MAX_NAMES {
            return Err(FieldViolation::new(field, "too_many", "must not list more than 100 names").into());
        }
    }
    Ok(SearchFilter {
        classes: states.into_iter().flat_map(class).collect(),
        user: UserId(viewer.id),
        mentioned: request.is_mentioned.then(|| viewer.username.to_lowercase()),
        is_created: request.is_created,
        is_assigned: request.is_assigned,
        title: request.query.clone(),
        label_keys: request.labels.iter().map(|name| name.to_lowercase()).collect(),
        milestones: request.milestones.clone(),
        since_us: request.since.map(encode::micros),
        before_us: request.before.map(encode::micros),
    })
}
