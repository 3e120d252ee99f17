use ferrite_api_types::convert::require;
use ferrite_api_types::{Repository, Viewer};
use ferrite_proto::operation;
use ferrite_proto::repo::{
    self, AutoInit, CreateRepositoryRequest, DeleteRepositoryRequest, GetRepositoryRequest, ListRepositoriesRequest,
    RepositoryMode, RepositoryRef, RepositorySort, SearchRepositoriesRequest,
};
use ferrite_rpc::grpc::with_timeout;

use crate::api::access::PermissionCheck;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{OptionalFlag, QueryOf, Search, filters};
use crate::http::page::{Page, SearchList, Total, WholeList};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Checked, Flag, Integer, NonEmpty, OrDefault, RequestBody, Text, Unsupported, Word, fields};
use crate::http::response::{Created, Json, List, NoContent, Paged, SearchResults};
use crate::http::routes::{organization, variant};
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

operations! {
    "/api/v1/user/repos" => get list as operation::LIST_REPOSITORIES, post create as operation::CREATE_REPOSITORY;
    "/api/v1/users/{username}/repos" => get list as variant(operation::LIST_REPOSITORIES, "OfUser");
    "/api/v1/orgs/{org}/repos" =>
        get list as variant(operation::LIST_REPOSITORIES, "OfOrganization"),
        post create as organization(operation::CREATE_REPOSITORY);
    "/api/v1/org/{org}/repos" => post create as variant(organization(operation::CREATE_REPOSITORY), "Alias");
    "/api/v1/repos/search" => get search as operation::SEARCH_REPOSITORIES;
    "/api/v1/repos/{owner}/{repo}" => get get as operation::GET_REPOSITORY, delete remove as operation::DELETE_REPOSITORY;
    "/api/v1/repositories/{id}" => get get_by_id as variant(operation::GET_REPOSITORY, "ById");
}

words! {
    enum SearchSort: RepositorySort {
        "alpha" = RepositorySort::Name,
        "created" = RepositorySort::Created,
        "updated" = RepositorySort::Updated,
        "size" = RepositorySort::Size,
        "id" = RepositorySort::Id,
        "stars" = RepositorySort::Stars,
        "forks" = RepositorySort::Forks,
    }
}

words! {
    /// Whether the order is reversed.
    enum SearchOrder: bool { "asc" = false, "desc" = true }
}

words! {
    enum SearchMode: RepositoryMode {
        "source" = RepositoryMode::Source,
        "fork" = RepositoryMode::Fork,
        "mirror" = RepositoryMode::Mirror,
        "collaborative" = RepositoryMode::Collaborative,
    }
}

words! {
    enum ObjectFormat: () { "sha1" = () }
}

words! {
    enum TrustModel: () { "default" = () }
}

words! {
    enum LabelSet: repo::LabelSet { "Default" = repo::LabelSet::Default }
}

filters! {
    /// Filters and order of a repository search.
    struct SearchTerms {
        /// A part of the name or description, or `owner/part`, ignoring case. The default matches
        /// every repository.
        q: Search = "demo",
        /// A topic of the repositories. With `true`, `q` is the topic; `false` counts as absent.
        topic: Search = "rust",
        /// The order. The default is by id, which also breaks ties.
        sort: Word<SearchSort> = "updated",
        /// `desc` reverses the order.
        order: Word<SearchOrder> = "desc",
        /// The kind of repository. `source` means neither forks nor mirrors, `collaborative` those
        /// of others that the caller collaborates on or has a team for. The default is every kind.
        mode: Word<SearchMode> = "source",
        /// The id of the owner. Zero means every owner. The caller's own id also means repositories
        /// of others that the caller collaborates on or has a team for.
        uid: Integer = 7,
        /// Whether `uid` means only repositories that the account owns.
        exclusive: Flag = true,
        /// `true`: only archived; `false`: only unarchived; default: both.
        archived: OptionalFlag = false,
        /// `true` for only private repositories, `false` for only public ones. The default is both.
        is_private: OptionalFlag = false,
        /// `false` leaves private repositories out. The default is true.
        private: OptionalFlag = true,
        /// The id of a user who starred them. Zero means any.
        starred_by as "starredBy": Integer = 7,
        /// The id of a team that has them. Zero means any. Only for those who may see the team.
        team_id: Integer = 3,
    }
}

/// Ids are positive, so a negative one matches nothing, like the largest; zero means any.
fn searched_id(id: Option<i64>) -> i64 {
    id.map_or(0, |id| if id < 0 { i64::MAX } else { id })
}

impl SearchTerms {
    fn request(self, page: Page) -> SearchRepositoriesRequest {
        // Names of topics are lower case.
        let (query, topic) = match self.topic.to_ascii_lowercase().as_str() {
            "true" => (String::new(), self.q),
            "false" => (self.q, String::new()),
            _ => (self.q, self.topic),
        };
        SearchRepositoriesRequest {
            query,
            owner_id: searched_id(self.uid),
            page: page.number,
            page_size: page.size,
            sort: self.sort.unwrap_or_default().into(),
            is_descending: self.order.unwrap_or_default(),
            mode: self.mode.unwrap_or_default().into(),
            topic,
            is_archived: self.archived,
            is_exclusive: self.exclusive,
            is_private: self.is_private,
            excludes_private: self.private == Some(false),
            starred_by_user_id: searched_id(self.starred_by),
            team_id: searched_id(self.team_id),
        }
    }
}

fields! {
    /// A new repository.
    pub(crate) struct NewRepository {
        name: Checked<Text<100>> = "demo",
        description: OrDefault<Text<255>> = "An example.",
        /// Whether only callers with access can see the repository.
        is_private as "private": OrDefault<Flag> = true,
        /// Whether to create a first commit from the templates in the other fields.
        auto_init: OrDefault<Flag> = true,
        /// Comma-separated names of .gitignore templates, at most 100, in order.
        gitignores: OrDefault<Text> = "Rust,Vim",
        /// The name of a licence; empty for none.
        license: OrDefault<Text<255>> = "MIT License",
        /// The name of a README template; empty for `Default`.
        readme: OrDefault<Text<255>> = "Default",
        /// The default branch; empty for that of the site.
        default_branch: OrDefault<Text<250>> = "main",
        /// The hash function of object ids. Only `sha1` is supported.
        object_format_name: NonEmpty<Word<ObjectFormat>> = "sha1",
        /// How signatures of commits are trusted. Only `default` is supported.
        trust_model: NonEmpty<Word<TrustModel>> = "default",
        /// Whether other repositories can be made of it. Not supported: must be false.
        template: Unsupported<Flag> = false,
        /// A set of labels to begin with; empty for none.
        issue_labels: NonEmpty<Word<LabelSet>> = "Default",
    }
}

impl ApiCall {
    /// As [`Self::repositories`], for one.
    pub(crate) fn repository(&self, repository: Option<repo::Repository>) -> Result<Repository, ApiError> {
        Ok(Repository::new(require(repository, "repository")?, self.viewer(), &self.links)?)
    }

    pub(crate) fn created_repository(
        &self,
        repository: Option<repo::Repository>,
    ) -> Result<Created<Repository>, ApiError> {
        let repository = require(repository, "repository")?;
        let owner = repository.owner.as_ref().map_or("", |owner| owner.username.as_str());
        let location = self.links.repository(owner, &repository.name).api();
        Ok(Created::at(location, self.repository(Some(repository))?))
    }

    /// Converts repositories. E-mail addresses are blank for a request without credentials.
    pub(crate) fn repositories(&self, repositories: Vec<repo::Repository>) -> Result<Vec<Repository>, ApiError> {
        let viewer = self.viewer();
        // Repositories are large, and a vector of unknown length moves all its entries each time it
        // grows.
        let mut converted = Vec::with_capacity(repositories.len());
        for repository in repositories {
            converted.push(Repository::new(repository, viewer, &self.links)?);
        }
        Ok(converted)
    }

    fn viewer(&self) -> Viewer {
        if self.is_anonymous() { Viewer::Anonymous } else { Viewer::Authenticated }
    }
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath) -> ApiResult<Json<Repository>> {
    find(&call, path.repository()).await
}

async fn get_by_id(MaybeAuthenticated(call): MaybeAuthenticated, path: Params) -> ApiResult<Json<Repository>> {
    find(&call, RepositoryRef::by_id(path.id("id"))).await
}

async fn find(call: &ApiCall, repository: RepositoryRef) -> ApiResult<Json<Repository>> {
    let request = call.request(GetRepositoryRequest { repository: Some(repository) });
    let response = call.clients.repositories().get_repository(request).await?.into_inner();
    Ok(Json(call.repository(response.repository)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath) -> ApiResult<NoContent> {
    let request = call.request(DeleteRepositoryRequest { repository: Some(path.repository()) });
    call.clients.repositories().delete_repository(request).await?;
    Ok(NoContent)
}

/// Lists the repositories that the caller can access, or those of the user or organization in the
/// path.
async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: Params,
    query: WholeList,
) -> ApiResult<List<Repository>> {
    let (username, organization) = (path.optional_name("username"), path.optional_name("org"));
    let request = call.request(ListRepositoriesRequest {
        is_organization: organization.is_some(),
        owner: username.or(organization).unwrap_or_default(),
        page: query.page.number,
        page_size: query.page.size,
    });
    let response = call.clients.repositories().list_repositories(request).await?.into_inner();
    Ok(query.list(call.repositories(response.repositories)?, response.total_count, &call.links))
}

async fn search(
    MaybeAuthenticated(call): MaybeAuthenticated,
    query: SearchList,
    terms: QueryOf<SearchTerms>,
) -> ApiResult<Paged<SearchResults<Repository>>> {
    let check = PermissionCheck::of(operation::SEARCH_REPOSITORIES);
    let request = call.after_permission(check, terms.read()).await?.request(query.page);
    let response = call.clients.repositories().search_repositories(call.request(request)).await?.into_inner();
    let data = call.repositories(response.repositories)?;
    let total = Total::counted(response.total_count, response.is_partial);
    Ok(query.paged(SearchResults { data, ok: true }, total, &call.links))
}

/// Creates a repository of the caller, of the organization in the path, or, for an administrator,
/// of the user in the path.
pub(crate) async fn create(
    Authenticated(call): Authenticated,
    path: Params,
    body: RequestBody<NewRepository>,
) -> ApiResult<Created<Repository>> {
    let check = PermissionCheck::of(operation::CREATE_REPOSITORY);
    let (check, owner, as_administrator) = match (path.optional_name("username"), path.optional_name("org")) {
        (Some(name), _) => (check.by_administrator(true), name, true),
        (None, Some(name)) => (check.on_organization(&name), name, false),
        (None, None) => (check, String::new(), false),
    };
    let NewRepository {
        name,
        description,
        is_private,
        auto_init,
        gitignores,
        license,
        readme,
        default_branch,
        object_format_name: None | Some(()),
        trust_model: None | Some(()),
        template: (),
        issue_labels,
    } = call.checked_body(check, body).await?;
    let gitignores = gitignores.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    let auto_init = auto_init.then_some(AutoInit { gitignores, license, readme });
    let request = call.request(CreateRepositoryRequest {
        name,
        description,
        is_private,
        auto_init,
        owner,
        as_administrator,
        default_branch,
        label_set: issue_labels.unwrap_or_default().into(),
    });
    let response =
        call.clients.repositories().create_repository(with_timeout(request, LONG_CALL_DEADLINE)).await?.into_inner();
    call.created_repository(response.repository)
}
