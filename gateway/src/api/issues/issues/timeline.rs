use ferrite_proto::issue::ListTimelineRequest;
use ferrite_proto::operation;

use crate::api::call::Authenticated;
use crate::dto::{RepositoryUrls, TimelineEntry};
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

pub(super) async fn list(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    query: Query,
) -> ApiResult {
    let access = call.access(&path, operation::LIST_TIMELINE).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListTimelineRequest {
        repository_id: access.id,
        number: params.id("index"),
        page: page.number,
        page_size: page.size,
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.issues().list_timeline(request).await?.into_inner();
    let accounts =
        call.accounts_beside_caller(&access, response.entries.iter().flat_map(TimelineEntry::account_ids)).await?;
    let sources = RepositoryUrls::new(response.repositories, &call.links).with(access.id, access.urls.clone());
    let entries = response.entries.into_iter();
    let entries = entries.map(|entry| TimelineEntry::new(entry, &accounts, &sources, &access.urls));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(entries, query.headers(page, response.total_count, &call.links)))
}
