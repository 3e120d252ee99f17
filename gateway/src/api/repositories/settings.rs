//! Settings of a repository and of its wiki.

use ferrite_api_types::Repository;
use ferrite_proto::MAX_MIRROR_INTERVAL_SECS;
use ferrite_proto::operation;
use ferrite_proto::repo::{PullSettingsChange, RepositoryRef, UpdateRepositoryRequest, UpdateWikiRequest};
use ferrite_rpc::grpc::with_timeout;

use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::RepoPath;
use crate::http::request::{Flag, NonEmpty, Optional, RequestBody, Seconds, Text, Unsupported, Word, fields};
use crate::http::response::{Json, NoContent};
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

operations! {
    "/api/v1/repos/{owner}/{repo}" => patch update as operation::UPDATE_REPOSITORY;
    "/api/v1/repos/{owner}/{repo}/wiki" => patch update_wiki as operation::UPDATE_WIKI;
}

words! {
    enum MergeStyle: &'static str {
        "merge" = "merge",
        "rebase" = "rebase",
        "rebase-merge" = "rebase-merge",
        "squash" = "squash",
        "fast-forward-only" = "fast-forward-only",
    }
}

fields! {
    /// Changes of a repository.
    struct ChangedRepository {
        ..pulls: ChangedPulls,
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
        /// Whether its own issue tracker is on. `true` also ends the use of an external one.
        has_issues: Optional<Flag> = true,
        /// Whether its own wiki is on. `true` also ends the use of an external one.
        has_wiki: Optional<Flag> = true,
        /// Whether other repositories can be made of it. Not supported: must be false.
        template: Unsupported<Flag> = false,
        /// The interval between two syncs of a mirror, from 10 minutes to 365 days: a Go duration or
        /// a number of seconds. If it is invalid, no setting is changed.
        mirror_interval: NonEmpty<Seconds<MAX_MIRROR_INTERVAL_SECS>> = "8h0m0s",
    }
}

fields! {
    /// How pull requests are merged. Without pull requests, only `has_pull_requests` counts.
    struct ChangedPulls {
        /// Whether pull requests are on.
        has_pull_requests: Optional<Flag> = true,
        /// Whether merge commits are allowed. At least one style must stay allowed.
        allow_merge_commits: Optional<Flag> = true,
        /// Whether the commits of the head may be rebased onto the base.
        allow_rebase: Optional<Flag> = true,
        /// Whether they may be rebased, and then joined by a merge commit.
        allow_rebase_explicit: Optional<Flag> = true,
        /// Whether the commits of the head may be squashed into one.
        allow_squash_merge: Optional<Flag> = true,
        /// Whether the base may move to the head without a new commit.
        allow_fast_forward_only_merge: Optional<Flag> = true,
        /// Whether a head branch may be updated by rebasing it onto the base.
        allow_rebase_update: Optional<Flag> = true,
        /// Whether a merge deletes the head branch if the request does not say.
        default_delete_branch_after_merge: Optional<Flag> = false,
        /// Whether a push that brings the head into the base closes the pull request as merged.
        autodetect_manual_merge: Optional<Flag> = true,
        /// Whether pull requests may be marked as merged by a commit that the base has.
        allow_manual_merge: Optional<Flag> = true,
        /// The style that clients offer first; must be allowed. An empty one changes nothing.
        default_merge_style: NonEmpty<Word<MergeStyle>> = "merge",
    }
}

impl From<ChangedPulls> for PullSettingsChange {
    fn from(changed: ChangedPulls) -> Self {
        if changed.has_pull_requests == Some(false) {
            // Clients that switch pull requests off send `false` for every style, too.
            return Self { has_pulls: Some(false), ..Self::default() };
        }
        Self {
            has_pulls: changed.has_pull_requests,
            allow_merge: changed.allow_merge_commits,
            allow_rebase: changed.allow_rebase,
            allow_rebase_merge: changed.allow_rebase_explicit,
            allow_squash: changed.allow_squash_merge,
            allow_fast_forward_only: changed.allow_fast_forward_only_merge,
            allow_rebase_update: changed.allow_rebase_update,
            delete_branch_after_merge: changed.default_delete_branch_after_merge,
            detects_manual_merges: changed.autodetect_manual_merge,
            allow_manual_merge: changed.allow_manual_merge,
            default_style: changed.default_merge_style.map(str::to_owned),
        }
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
    let ChangedRepository {
        pulls,
        name,
        description,
        website,
        is_private,
        default_branch,
        is_archived,
        has_issues,
        has_wiki,
        template: (),
        mirror_interval,
    } = changed;
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
        has_issues,
        has_wiki,
        pulls: Some(PullSettingsChange::from(pulls)).filter(|pulls| *pulls != PullSettingsChange::default()),
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
