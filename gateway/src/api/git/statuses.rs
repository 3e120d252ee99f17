//! Commit statuses. Gogs does not have them; the shapes are Gitea's.

use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, Repository, Time, User, shape};
use ferrite_proto::git::{
    self, CreateStatusRequest, GetCombinedStatusRequest, ListStatusesRequest, ListStatusesResponse, StatusState,
};
use ferrite_proto::operation;
use ferrite_proto::repo::{GetRepositoryRequest, RepositoryRef};
use serde::Serialize;

use super::response::read_error;
use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{QueryOf, filters};
use crate::http::page::ExtensionList;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{OrDefault, RequestBody, Required, Text, Word, fields};
use crate::http::response::{Created, List, Paged};
use crate::http::routes::variant;
use crate::http::words::{Words, words};

operations! {
    "/api/v1/repos/{owner}/{repo}/statuses/{*sha}" =>
        get list as operation::LIST_STATUSES,
        post create as operation::CREATE_STATUS;
    "/api/v1/repos/{owner}/{repo}/commits/{sha}/statuses" =>
        get list_of_commit as variant(operation::LIST_STATUSES, "OfCommit");
    "/api/v1/repos/{owner}/{repo}/commits/{sha}/status" => get combined as operation::GET_COMBINED_STATUS;
}

/// The words of states.
enum State {}

impl Words for State {
    type Meaning = StatusState;

    const WORDS: &'static [(&'static str, StatusState)] = &StatusState::WORDS;
}

words! {
    /// Whether the oldest come first.
    enum StatusSort: bool {
        "recentupdate" = false,
        "highestindex" = false,
        "oldest" = true,
        "leastupdate" = true,
        "leastindex" = true,
    }
}

filters! {
    /// Filters of the statuses of a commit.
    struct StatusFilters {
        /// Only statuses with this state.
        state: Word<State> = "failure",
        /// The order: the newest first, unless it is `oldest`, `leastupdate` or `leastindex`.
        sort: Word<StatusSort> = "oldest",
    }
}

fields! {
    /// A status of a commit.
    struct NewStatus {
        state: Required<Word<State>> = "success",
        /// What the status is about. The newest status of each context counts. The default is
        /// `default`.
        context: OrDefault<Text<255>> = "ci/build",
        /// The address of a page with details.
        target_url: OrDefault<Text<2000>> = "https://ci.example.com/builds/7",
        /// A short description.
        description: OrDefault<Text<1000>> = "All tests passed",
    }
}

shape! {
    /// A status of a commit.
    #[derive(Clone, Debug, Serialize)]
    struct CommitStatus {
        id: i64,
        /// The state: `pending`, `success`, `error`, `failure`, `warning` or `skipped`.
        status: &'static str,
        /// A page with details; empty if there is none.
        target_url: String,
        description: String,
        /// The URL of the statuses of the commit.
        url: String,
        /// What the status is about.
        context: String,
        /// The user who reported it.
        creator: User,
        created_at: Time,
        /// The same as `created_at`: a status never changes.
        updated_at: Time,
    }
}

shape! {
    /// The newest status of each context of a commit.
    #[derive(Debug, Serialize)]
    struct CombinedStatus {
        /// The worst state of all contexts, in the order `error`, `failure`, `warning`, `pending`,
        /// `success`, `skipped`; `pending` if there is none.
        state: &'static str,
        /// The id of the commit.
        sha: String,
        /// The number of contexts.
        total_count: i64,
        /// The newest status of each context, the newest first.
        statuses: Vec<CommitStatus>,
        repository: Repository,
        commit_url: String,
        url: String,
    }
}

impl CommitStatus {
    fn new(status: git::CommitStatus, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let created_at = Time::new(status.created_time, "created_time")?;
        Ok(Self {
            id: status.id,
            status: status.state().word(),
            url: urls.statuses(&status.commit_id),
            target_url: status.target_url,
            description: status.description,
            context: status.context,
            creator: accounts.by_id(status.user_id, urls.site()),
            updated_at: created_at.clone(),
            created_at,
        })
    }
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewStatus>,
) -> ApiResult<Created<CommitStatus>> {
    let revision = path.rest.clone();
    let (access, NewStatus { state, context, target_url, description }, _permit) =
        call.access_and_body(&path, operation::CREATE_STATUS, body).await?;
    let state = state.into();
    let request = CreateStatusRequest { repository_id: access.id, revision, state, context, target_url, description };
    let request = call.request_with_grant(&access.grant, request);
    let made = call.clients.statuses().create_status(request).await?.into_inner();
    let made = require(made.status, "status")?;
    let location = access.urls.statuses(&made.commit_id);
    let mut shown = convert(&call, vec![made], &access).await?;
    Ok(Created::at(location, require(shown.pop(), "status")?))
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: ExtensionList,
    filters: QueryOf<StatusFilters>,
) -> ApiResult<List<CommitStatus>> {
    list_of(&call, &path, path.rest.clone(), &query, &filters).await
}

async fn list_of_commit(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: ExtensionList,
    filters: QueryOf<StatusFilters>,
) -> ApiResult<List<CommitStatus>> {
    list_of(&call, &path, params.bytes("sha"), &query, &filters).await
}

async fn list_of(
    call: &ApiCall,
    path: &RepoPath,
    revision: Vec<u8>,
    query: &ExtensionList,
    filters: &QueryOf<StatusFilters>,
) -> ApiResult<List<CommitStatus>> {
    let access = call.access(path, operation::LIST_STATUSES).await?;
    let StatusFilters { state, sort } = filters.read()?;
    let request = ListStatusesRequest {
        repository_id: access.id,
        revision,
        state: state.unwrap_or_default().into(),
        is_oldest_first: sort.unwrap_or(false),
        page: query.page.number,
        page_size: query.page.size,
    };
    let found = call.clients.statuses().list_statuses(call.request_with_grant(&access.grant, request)).await;
    let ListStatusesResponse { statuses, total_count } = found.map_err(read_error)?.into_inner();
    Ok(query.list(convert(call, statuses, &access).await?, total_count, &call.links))
}

/// Responds with the newest status of each context. One page has them all, unless the client asks
/// for less.
async fn combined(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: ExtensionList,
) -> ApiResult<Paged<CombinedStatus>> {
    let access = call.access(&path, operation::GET_COMBINED_STATUS).await?;
    let request = GetCombinedStatusRequest {
        repository_id: access.id,
        revision: params.bytes("sha"),
        page: query.page.number,
        page_size: query.page.size,
    };
    let (mut statuses, mut repositories) = (call.clients.statuses(), call.clients.repositories());
    let shown = GetRepositoryRequest { repository: Some(RepositoryRef::by_id(access.id)) };
    let (found, repository) = tokio::join!(
        statuses.get_combined_status(call.request_with_grant(&access.grant, request)),
        repositories.get_repository(call.request(shown)),
    );
    let found = found.map_err(read_error)?.into_inner();
    let repository = call.repository(repository?.into_inner().repository)?;
    let (state, total_count) = (found.state().word(), found.total_count);
    let combined = CombinedStatus {
        state,
        total_count,
        statuses: convert(&call, found.statuses, &access).await?,
        repository,
        commit_url: access.urls.commit(&found.commit_id),
        url: format!("{}/status", access.urls.commit(&found.commit_id)),
        sha: found.commit_id,
    };
    Ok(query.paged(combined, total_count, &call.links))
}

/// Converts statuses, with their accounts.
async fn convert(
    call: &ApiCall,
    statuses: Vec<git::CommitStatus>,
    access: &ResolvedAccess,
) -> Result<Vec<CommitStatus>, ApiError> {
    let accounts = call.accounts_by_id(statuses.iter().map(|status| status.user_id)).await?;
    let shown = statuses.into_iter().map(|status| CommitStatus::new(status, &accounts, &access.urls));
    Ok(shown.collect::<Result<_, _>>()?)
}
