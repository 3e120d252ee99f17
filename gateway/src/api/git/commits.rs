//! Commits: the history of a branch or path, and one commit.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use ferrite_proto::git::{GetCommitRequest, ListCommitsRequest};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;

use super::response::read_error;
use crate::api::access::Emails;
use crate::api::call::{Authenticated, routes};
use crate::dto::{Commit, require};
use crate::http::error::ApiResult;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::RepoPath;
use crate::http::query::Query;

/// Deadline of a list. For the commits of a path, git-svc waits for a permit and then runs git.
const LIST_TIMEOUT: Duration = Duration::from_secs(70);

routes! {
    "/api/v1/repos/{owner}/{repo}/commits" => get list as operation::LIST_COMMITS;
    "/api/v1/repos/{owner}/{repo}/commits/{*sha}" => get get as operation::GET_COMMIT;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_COMMITS).await?;
    let page = query.page_with_size_names(PageLimits::COMMITS, &["limit", "pageSize"]);
    let request = ListCommitsRequest {
        repository_id: access.id,
        revision: query.bytes("sha").unwrap_or_default(),
        path: query.bytes("path").unwrap_or_default(),
        page: page.number,
        page_size: page.size,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LIST_TIMEOUT);
    let response = call.clients.git_data().list_commits(request).await?.into_inner();
    let accounts = call.accounts_by_email(Emails::of(&response.commits)).await?;
    let commits = response.commits.into_iter().map(|commit| Commit::new(commit, &accounts, &access.urls));
    let commits = commits.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(
        commits,
        query.headers_of_uncounted(page, response.total_count, response.has_more, &call.links),
    ))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, headers: HeaderMap) -> ApiResult {
    let access = call.access(&path, operation::GET_COMMIT).await?;
    let request = GetCommitRequest { repository_id: access.id, revision: path.rest };
    let found = call.clients.git().get_commit(call.request_with_grant(&access.grant, request)).await;
    let commit = require(found.map_err(read_error)?.into_inner().commit, "commit")?;
    if wants_id(&headers) {
        let mut response = Response::new(Body::from(commit.id));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        return Ok(response);
    }
    let accounts = call.accounts_by_email(Emails::of([&commit])).await?;
    Ok(json::ok(Commit::new(commit, &accounts, &access.urls)?))
}

/// Returns whether the client asks for the plain id, by a media type `application/vnd.<anything>.sha`.
fn wants_id(headers: &HeaderMap) -> bool {
    let is_id = |kind: &str| {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind.strip_prefix("application/vnd.").is_some_and(|rest| rest.ends_with(".sha"))
    };
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| value.split(',').any(is_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vendor_type_of_any_name_asks_for_the_id() {
        for (value, expected) in [
            ("application/vnd.gogs.sha", true),
            ("application/json, Application/vnd.ferrite.SHA;q=1", true),
            ("application/vnd.sha", false),
            ("application/json", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(value));
            assert_eq!(wants_id(&headers), expected, "{value}");
        }
    }
}
