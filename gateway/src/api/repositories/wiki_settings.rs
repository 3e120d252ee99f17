//! Settings of a repository's wiki.

use ferrite_proto::operation;
use ferrite_proto::repo::UpdateWikiRequest;

use crate::api::call::{Authenticated, routes};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::RepoPath;

routes! {
    "/api/v1/repos/{owner}/{repo}/wiki" => patch update as operation::UPDATE_WIKI;
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let (repository, decoded) = call.decode_repository_body(&path, operation::UPDATE_WIKI, body, decode).await?;
    let request = call.request(UpdateWikiRequest { repository: Some(repository), ..decoded });
    call.clients.repositories().update_wiki(request).await?;
    Ok(json::no_content())
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
