//! Settings of a repository and of its wiki.

use ferrite_proto::operation;
use ferrite_proto::repo::{RepositoryRef, UpdateRepositoryRequest, UpdateWikiRequest};
use ferrite_rpc::grpc::with_timeout;

use crate::api::call::{Authenticated, routes};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::RepoPath;
use crate::upstream::clients::LONG_CALL_DEADLINE;

routes! {
    "/api/v1/repos/{owner}/{repo}" => patch update as operation::UPDATE_REPOSITORY;
    "/api/v1/repos/{owner}/{repo}/wiki" => patch update_wiki as operation::UPDATE_WIKI;
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let (mut repository, (decoded, mirror_interval)) =
        call.decode_repository_body(&path, operation::UPDATE_REPOSITORY, body, decode).await?;
    if let Some(seconds) = mirror_interval {
        repository = RepositoryRef::by_id(call.set_mirror_interval(repository, seconds).await?);
    }
    let request = call.request(UpdateRepositoryRequest { repository: Some(repository), ..decoded });
    let mut response =
        call.clients.repositories().update_repository(with_timeout(request, LONG_CALL_DEADLINE)).await?.into_inner();
    let mirror = response.repository.as_mut().and_then(|repository| repository.mirror.as_mut());
    // The store tells repo-svc of the interval a moment later.
    if let (Some(mirror), Some(seconds)) = (mirror, mirror_interval) {
        mirror.interval_seconds = seconds;
    }
    Ok(json::ok(call.repository(response.repository)?))
}

/// Reads the fields, and the interval of a mirror in seconds. An empty name or branch counts as absent.
fn decode(fields: &mut FieldReader) -> (UpdateRepositoryRequest, Option<i64>) {
    let request = UpdateRepositoryRequest {
        repository: None,
        name: fields.optional_non_empty("name"),
        description: fields.optional_text("description"),
        website: fields.optional_text("website"),
        is_private: fields.optional_flag("private"),
        default_branch: fields.optional_non_empty("default_branch"),
        is_archived: fields.optional_flag("archived"),
    };
    (request, fields.optional_duration("mirror_interval"))
}

async fn update_wiki(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let (repository, decoded) = call.decode_repository_body(&path, operation::UPDATE_WIKI, body, decode_wiki).await?;
    let request = call.request(UpdateWikiRequest { repository: Some(repository), ..decoded });
    call.clients.repositories().update_wiki(request).await?;
    Ok(json::no_content())
}

fn decode_wiki(fields: &mut FieldReader) -> UpdateWikiRequest {
    UpdateWikiRequest {
        repository: None,
        enable_wiki: fields.optional_flag("enable_wiki"),
        allow_public_wiki: fields.optional_flag("allow_public_wiki"),
        enable_external_wiki: fields.optional_flag("enable_external_wiki"),
        external_wiki_url: fields.optional_text("external_wiki_url"),
    }
}
