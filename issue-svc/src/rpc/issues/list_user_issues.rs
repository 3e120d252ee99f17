//! RPC `ListUserIssues`.

use std::collections::HashMap;

use ferrite_kit::auth::{AuthError, Caller, OperationSubject};
use ferrite_kit::page::Page;
use ferrite_proto::id::UserId;
use ferrite_proto::issue::{ListUserIssuesRequest, ListUserIssuesResponse};
use tonic::Request;

use super::list_timeline::named;
use crate::error::IssueError;
use crate::model::Class;
use crate::rpc::{IssueRpc, encode};
use crate::upstream::MAX_QUESTION_REPOSITORIES;

const MAX_PAGE_SIZE: i32 = 50;
/// Repositories whose issues one list has. Others may assign issues to a user without asking, so their number needs a bound.
const MAX_LISTED_REPOSITORIES: i64 = 10_000;

pub(super) async fn list_user_issues(
    service: &IssueRpc,
    request: Request<ListUserIssuesRequest>,
) -> Result<ListUserIssuesResponse, IssueError> {
    let grant = service.access.authorize_subject(&Caller::of(&request), OperationSubject::User).await?;
    let viewer = grant.user.as_ref().ok_or(AuthError::CredentialsRequired)?;
    let user = UserId(viewer.id);
    let request = request.into_inner();
    let is_closed = encode::is_closed(request.state)?;
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(IssueError::Invalid)?;
    let states = is_closed.map_or(vec![false, true], |is_closed| vec![is_closed]);
    let classes: Vec<_> = states.into_iter().map(|is_closed| Class { is_pull_request: false, is_closed }).collect();
    let store = &service.store;
    let assigned = store.assigned_repositories(user, &classes, MAX_LISTED_REPOSITORIES).await?;
    let mut visible = HashMap::new();
    for chunk in assigned.chunks(MAX_QUESTION_REPOSITORIES) {
        let ids: Vec<_> = chunk.iter().map(|(id, _)| *id).collect();
        let answer = service.repo.access_of_user(viewer, &ids).await?;
        visible.extend(answer.accesses.into_iter().map(|access| (access.repository_id, access)));
    }
    let (shown, hidden): (Vec<_>, Vec<_>) = assigned.iter().partition(|(id, _)| visible.contains_key(&id.0));
    let total_count: i64 = shown.iter().map(|(_, count)| count).sum();
    let shown: Vec<_> = shown.into_iter().map(|(id, _)| id).collect();
    let is_all = hidden.is_empty() && i64::try_from(assigned.len()).is_ok_and(|count| count < MAX_LISTED_REPOSITORIES);
    let issues = if page.offset() < total_count {
        store.list_assigned(user, &classes, (!is_all).then_some(shown.as_slice()), page).await?
    } else {
        Vec::new()
    };
    let repositories = issues.iter().filter_map(|full| visible.remove(&full.issue.repository.0)).map(named).collect();
    Ok(ListUserIssuesResponse { issues: issues.into_iter().map(encode::issue).collect(), total_count, repositories })
}
