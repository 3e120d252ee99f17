use axum::extract::State;
use axum::response::Response;
use ferrite_proto::issue::ListTimelineRequest;
use ferrite_proto::operation;

use crate::api::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{RepositoryUrls, TimelineEntry};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

pub(super) async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    params: Params,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_TIMELINE).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListTimelineRequest {
        repository_id: access.id,
        number: params.id("index"),
        page: page.number,
        page_size: page.size,
    };
    // With the token as well: it tells which other repositories the caller may see.
    let request = context.request_with_grant_and_token(&access.grant, request);
    let answer = api.clients.issues().list_timeline(request).await?.into_inner();
    let accounts = api
        .accounts_beside_caller(&context, &access, answer.entries.iter().flat_map(TimelineEntry::account_ids))
        .await?;
    let sources = RepositoryUrls::new(answer.repositories, &api.links).with(access.id, access.urls.clone());
    let entries = answer.entries.into_iter();
    let entries = entries.map(|entry| TimelineEntry::new(entry, &accounts, &sources, &access.urls));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(entries, query.headers(page, answer.total_count, &api.links)))
}
