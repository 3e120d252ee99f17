//! Settings of a repository and of its wiki.

use ferrite_api_types::Repository;
use ferrite_proto::MAX_MIRROR_INTERVAL_SECS;
use ferrite_proto::operation;
use ferrite_proto::repo::{RepositoryRef, UpdateRepositoryRequest, UpdateWikiRequest};
use ferrite_rpc::grpc::with_timeout;

use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::RepoPath;
use crate::http::request::{Flag, NonEmpty, Optional, RequestBody, Seconds, Text, fields};
use crate::http::response::{Json, NoContent};
use crate::upstream::clients::LONG_CALL_DEADLINE;

operations! {
    "/api/v1/repos/{owner}/{repo}" => patch update as operation::UPDATE_REPOSITORY;
    "/api/v1/repos/{owner}/{repo}/wiki" => patch update_wiki as operation::UPDATE_WIKI;
}

fields! {
    /// Changes of a repository.
    struct ChangedRepository {
        /// The name, with the rules for a new repository. An empty one changes nothing. The old
        /// name redirects here until another repository takes it.
        name: NonEmpty<Text<100>> = "demo-2",
        description: Optional<Text<255>> = "An example.",
        website: Optional<Text<1_024>> = "https://demo.example.com",
        /// Whether only callers with access can see the repository.
        is_private as "private": Optional<Flag> = true,
        /// The default branch, which must exist. An empty name changes nothing.
        default_branch: NonEmpty<Text<255>> = "main",
        /// Whether the repository is archived. Only its settings can then be changed.
        is_archived as "archived": Optional<Flag> = false,
        /// The interval between two syncs of a mirror, from 10 minutes to 365 days: a Go duration or
        /// a number of seconds. If it is invalid, no setting is changed.
        mirror_interval: NonEmpty<Seconds<MAX_MIRROR_INTERVAL_SECS>> = "8h0m0s",
    }
}

fields! {
    /// Changes of the settings of a wiki.
    struct ChangedWiki {
        enable_wiki: Optional<Flag> = true,
        allow_public_wiki: Optional<Flag> = false,
        enable_external_wiki: Optional<Flag> = true,
        external_wiki_url: Optional<Text<2_048>> = "https://wiki.example.com/demo",
    }
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ChangedRepository>,
) -> ApiResult<Json<Repository>> {
    let (mut repository, changed, _permit) = call.repository_body(&path, operation::UPDATE_REPOSITORY, body).await?;
    let ChangedRepository { name, description, website, is_private, default_branch, is_archived, mirror_interval } =
        changed;
    // repo-svc changes the interval with the other settings, in one step and under the precondition
    // of the request. The store follows.
    if let Some(seconds) = mirror_interval {
        repository = RepositoryRef::by_id(call.check_mirror_interval(repository, seconds).await?);
    }
    let of_mirror = mirror_interval.map(|seconds| (repository.clone(), seconds));
    let request = call.request(UpdateRepositoryRequest {
        repository: Some(repository),
        name,
        description,
        website,
        is_private,
        default_branch,
        is_archived,
        mirror_interval_seconds: mirror_interval,
    });
    let response =
        call.clients.repositories().update_repository(with_timeout(request, LONG_CALL_DEADLINE)).await?.into_inner();
    if let Some((repository, seconds)) = of_mirror {
        call.set_mirror_interval(repository, seconds).await?;
    }
    Ok(Json(call.repository(response.repository)?))
}

async fn update_wiki(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ChangedWiki>,
) -> ApiResult<NoContent> {
    let (repository, changed, _permit) = call.repository_body(&path, operation::UPDATE_WIKI, body).await?;
    let ChangedWiki { enable_wiki, allow_public_wiki, enable_external_wiki, external_wiki_url } = changed;
    let request = call.request(UpdateWikiRequest {
        repository: Some(repository),
        enable_wiki,
        allow_public_wiki,
        enable_external_wiki,
        external_wiki_url,
    });
    call.clients.repositories().update_wiki(request).await?;
    Ok(NoContent)
}
