use axum::extract::State;
use axum::response::Response;
use ferrite_proto::hook::{CreateHookRequest, ListHooksRequest};
use ferrite_proto::operation;

use crate::auth::Signed;
use crate::dto::{Hook, present};
use crate::http::body::{Fields, JSON_BYTES, Payload, Slot};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{Query, WHOLE};
use crate::http::path::RepoPath;
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/hooks" => get list as operation::LIST_HOOKS, post create as operation::CREATE_HOOK;
}

async fn list(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::LIST_HOOKS).await?;
    let page = query.page(WHOLE);
    let request = ListHooksRequest { repository_id: access.id, page: page.number, page_size: page.size };
    let answer = gateway.clients.hooks().list_hooks(call.granted(&access.grant, request)).await?.into_inner();
    let hooks = answer.hooks.into_iter().map(Hook::new).collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(hooks, query.headers(page, answer.total_count, &gateway.links)))
}

async fn create(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::CREATE_HOOK).await?;
    let fields = payload.fields(&gateway, JSON_BYTES).await?;
    let (request, _slot) = decode(fields, access.id)?;
    let answer = gateway.clients.hooks().create_hook(call.granted(&access.grant, request)).await?.into_inner();
    Ok(json::created(Hook::new(present(answer.hook, "hook")?)?))
}

fn decode(mut fields: Fields, repository_id: i64) -> Result<(CreateHookRequest, Slot), ApiError> {
    let request = CreateHookRequest {
        repository_id,
        r#type: fields.required("type"),
        config: fields.required_map("config").into_iter().collect(),
        events: fields.texts("events"),
        is_active: fields.flag("active"),
    };
    Ok((request, fields.finish()?))
}
