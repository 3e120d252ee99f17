use std::collections::BTreeMap;

use ferrite_proto::git::GetLanguagesRequest;
use ferrite_proto::operation;

use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::RepoPath;
use crate::http::response::Json;

operations! {
    "/api/v1/repos/{owner}/{repo}/languages" => get get as operation::GET_LANGUAGES;
}

/// Bytes by language.
type Languages = BTreeMap<String, i64>;

async fn get(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<Json<Languages>> {
    let access = call.access(&path, operation::GET_LANGUAGES).await?;
    let request = GetLanguagesRequest { repository_id: access.id };
    let response = call.clients.git_data().get_languages(call.request_with_grant(&access.grant, request)).await?;
    let languages = response.into_inner().languages.into_iter();
    Ok(Json(languages.map(|language| (language.name, language.size_bytes)).collect()))
}
