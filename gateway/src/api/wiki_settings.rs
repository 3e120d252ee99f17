//! Settings of a repository's wiki.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::UpdateWikiRequest;

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::path::RepoPath;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/wiki" => patch update as operation::UPDATE_WIKI;
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::UPDATE_WIKI).on_repository(path.repository());
    let decoded = api.decode_body(&context, check, body, decode).await?;
    let request = context.request(UpdateWikiRequest { repository: Some(path.repository()), ..decoded });
    api.clients.repositories().update_wiki(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn decode(fields: &mut FieldReader) -> UpdateWikiRequest {
    UpdateWikiRequest {
        repository: None,
        enable_wiki: fields.optional_flag("enable_wiki"),
        allow_public_wiki: fields.optional_flag("allow_public_wiki"),
        enable_external_wiki: fields.optional_flag("enable_external_wiki"),
        external_wiki_url: fields.optional_text("external_wiki_url"),
    }
}
