//! Webhooks of a repository.

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::hook::{CreateHookRequest, ListHooksRequest};
use ferrite_proto::operation;

use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Hook, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::{LargeBodyPermit, MAX_JSON_BYTES};
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/hooks" => get list as operation::LIST_HOOKS, post create as operation::CREATE_HOOK;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_HOOKS).await?;
    let page = query.page(PageLimits::WHOLE_LIST);
    let request = ListHooksRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let answer = api.clients.hooks().list_hooks(context.request_with_grant(&access.grant, request)).await?.into_inner();
    let hooks = answer.hooks.into_iter().map(Hook::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(hooks, query.headers(page, answer.total_count, &api.links)))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::CREATE_HOOK).await?;
    let fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let (request, _permit) = decode(fields, access.id)?;
    let answer =
        api.clients.hooks().create_hook(context.request_with_grant(&access.grant, request)).await?.into_inner();
    Ok(json::created(Hook::new(require(answer.hook, "hook")?)?))
}

fn decode(mut fields: FieldReader, repository_id: i64) -> Result<(CreateHookRequest, LargeBodyPermit), ApiError> {
    let request = CreateHookRequest {
        repository_id,
        r#type: fields.required_non_empty("type"),
        config: fields.required_map("config").into_iter().collect(),
        events: fields.texts("events"),
        is_active: fields.flag("active"),
    };
    Ok((request, fields.finish()?))
}
