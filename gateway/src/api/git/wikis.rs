//! Pages of wikis. Their files are also served raw, by `raw`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::shape;
use ferrite_proto::git::{
    self, CreateWikiPageRequest, DeleteWikiPageRequest, GetWikiPageRequest, ListWikiPagesRequest,
    ListWikiRevisionsRequest, UpdateWikiPageRequest,
};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::commits::Signature;
use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::{CommitList, ExtensionList};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Base64, Checked, Optional, OrDefault, RequestBody, Text, fields};
use crate::http::response::{Created, Json, List, NoContent, Paged};
use crate::upstream::clients::LONG_CALL_DEADLINE;

operations! {
    "/api/v1/repos/{owner}/{repo}/wiki/pages" => get list as operation::LIST_WIKI_PAGES;
    "/api/v1/repos/{owner}/{repo}/wiki/new" => post create as operation::CREATE_WIKI_PAGE;
    "/api/v1/repos/{owner}/{repo}/wiki/page/{name}" =>
        get get as operation::GET_WIKI_PAGE,
        patch update as operation::UPDATE_WIKI_PAGE,
        delete remove as operation::DELETE_WIKI_PAGE;
    "/api/v1/repos/{owner}/{repo}/wiki/revisions/{name}" => get revisions as operation::LIST_WIKI_REVISIONS;
}

fields! {
    /// A wiki page to create.
    struct NewWikiPage {
        /// The title. `_pages`, `_new`, `_edit` and `raw` are reserved. The name of the file, which has
        /// most punctuation encoded, has at most 255 bytes.
        title: Checked<Text<255>> = "Getting started",
        /// The Markdown text in base64, at most 1 MiB.
        content_base64: Optional<Base64> = "IyBIZWxsbwo=",
        /// The commit message, at most 16 KiB. The default names the file, as in `Add Home.md`.
        message: OrDefault<Text<16_384>> = "Say how to start.",
    }
}

fields! {
    /// Changes of a wiki page.
    struct ChangedWikiPage {
        /// The new title. The page keeps its title if this is empty.
        title: OrDefault<Text<255>> = "First steps",
        /// The Markdown text in base64, at most 1 MiB. Without it, the page keeps its text.
        content_base64: Optional<Base64> = "IyBIZWxsbwo=",
        /// The commit message, at most 16 KiB. The default names the file, as in `Update Home.md`.
        message: OrDefault<Text<16_384>> = "Say how to start.",
        /// The `sha` of the page. The change fails if the page has another one.
        sha: OrDefault<Text<40>> = "f328e4d9d04c31d0d70d16d21a07d1613be9d577",
    }
}

shape! {
    /// A page of a wiki, without its text.
    #[derive(Clone, Debug, Serialize)]
    struct WikiPageMetaData {
        title: String,
        html_url: String,
        /// The name of the page in URLs, encoded.
        sub_url: String,
        /// The id of the blob of the file.
        sha: String,
        /// The last commit that changed the page; null if it is too old to be found.
        last_commit: Option<WikiCommit>,
    }
}

shape! {
    /// A page of a wiki.
    #[derive(Clone, Debug, Serialize)]
    struct WikiPage {
        #[serde(flatten)]
        page: WikiPageMetaData,
        /// The Markdown text in base64; empty if it has more than 1 MiB.
        content_base64: String,
        /// True if the response leaves out the text; absent otherwise.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        /// The number of commits that changed the page.
        commit_count: i64,
        /// The Markdown text of the page `_Sidebar` in base64; empty without one.
        sidebar: String,
        /// The Markdown text of the page `_Footer` in base64; empty without one.
        footer: String,
    }
}

shape! {
    /// A commit of a wiki.
    #[derive(Clone, Debug, Serialize)]
    struct WikiCommit {
        sha: String,
        author: Signature,
        /// The committer, under the name that Gitea has for it.
        commiter: Signature,
        message: String,
    }
}

shape! {
    /// The commits that changed a page.
    #[derive(Clone, Debug, Serialize)]
    struct WikiCommitList {
        /// Newest first.
        commits: Vec<WikiCommit>,
        /// The number of commits on all pages.
        count: i64,
    }
}

impl WikiCommit {
    fn new(commit: git::Commit) -> Result<Self, MissingField> {
        Ok(Self {
            author: Signature::new(&require(commit.author, "author")?)?,
            commiter: Signature::new(&require(commit.committer, "committer")?)?,
            message: text(&commit.message),
            sha: commit.id,
        })
    }
}

impl WikiPageMetaData {
    fn new(page: git::WikiPage, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            title: page.title,
            html_url: format!("{}/wiki/{}", urls.html(), page.name),
            sub_url: page.name,
            sha: page.blob_id,
            last_commit: page.last_commit.map(WikiCommit::new).transpose()?,
        })
    }
}

impl WikiPage {
    fn new(found: Option<git::WikiPageContent>, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let found = require(found, "page")?;
        Ok(Self {
            page: WikiPageMetaData::new(require(found.page, "page.page")?, urls)?,
            truncated: found.content.is_none(),
            content_base64: STANDARD.encode(found.content.unwrap_or_default()),
            commit_count: found.commit_count,
            sidebar: STANDARD.encode(found.sidebar),
            footer: STANDARD.encode(found.footer),
        })
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: ExtensionList,
) -> ApiResult<List<WikiPageMetaData>> {
    let access = call.access(&path, operation::LIST_WIKI_PAGES).await?;
    let request =
        ListWikiPagesRequest { repository_id: access.id, page: query.page.number, page_size: query.page.size };
    let response =
        call.clients.wikis().list_wiki_pages(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let pages = response.pages.into_iter().map(|page| WikiPageMetaData::new(page, &access.urls));
    let pages = pages.collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(pages, response.total_count, &call.links))
}

async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<WikiPage>> {
    let access = call.access(&path, operation::GET_WIKI_PAGE).await?;
    let request = GetWikiPageRequest { repository_id: access.id, name: params.sent("name").to_owned() };
    let response = call.clients.wikis().get_wiki_page(call.request_with_grant(&access.grant, request)).await?;
    Ok(Json(WikiPage::new(response.into_inner().page, &access.urls)?))
}

async fn revisions(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: CommitList,
) -> ApiResult<Paged<WikiCommitList>> {
    let access = call.access(&path, operation::LIST_WIKI_REVISIONS).await?;
    let request = ListWikiRevisionsRequest {
        repository_id: access.id,
        name: params.sent("name").to_owned(),
        page: query.page.number,
        page_size: query.page.size,
    };
    let response =
        call.clients.wikis().list_wiki_revisions(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let commits = response.commits.into_iter().map(WikiCommit::new).collect::<Result<Vec<_>, _>>()?;
    let revisions = WikiCommitList { commits, count: response.total_count };
    Ok(query.paged(revisions, response.total_count, &call.links))
}

async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewWikiPage>,
) -> ApiResult<Created<WikiPage>> {
    let (access, new, _permit) = call.access_and_body(&path, operation::CREATE_WIKI_PAGE, body).await?;
    let request = CreateWikiPageRequest {
        repository_id: access.id,
        title: new.title,
        content: new.content_base64.unwrap_or_default().into(),
        message: new.message,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.wikis().create_wiki_page(request).await?.into_inner();
    let made = WikiPage::new(response.page, &access.urls)?;
    let location = format!("{}/wiki/page/{}", access.urls.api(), made.page.sub_url);
    Ok(Created::at(location, made))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedWikiPage>,
) -> ApiResult<Json<WikiPage>> {
    let (access, changed, _permit) = call.access_and_body(&path, operation::UPDATE_WIKI_PAGE, body).await?;
    let request = UpdateWikiPageRequest {
        repository_id: access.id,
        name: params.sent("name").to_owned(),
        title: changed.title,
        content: changed.content_base64.map(Into::into),
        message: changed.message,
        expected_blob_id: changed.sha,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    let response = call.clients.wikis().update_wiki_page(request).await?.into_inner();
    Ok(Json(WikiPage::new(response.page, &access.urls)?))
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::DELETE_WIKI_PAGE).await?;
    let request = DeleteWikiPageRequest { repository_id: access.id, name: params.sent("name").to_owned() };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    call.clients.wikis().delete_wiki_page(request).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use ferrite_api_types::links::Links;
    use ferrite_core::timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_has_the_fields_of_gitea() {
        let urls = Links::new("http://h", "h:22").repository("bob", "demo");
        let signature = |name: &str| git::CommitSignature {
            name: name.into(),
            email: b"a@example.com".to_vec(),
            time: Some(timestamp(0)),
        };
        let commit = git::Commit {
            id: "c".repeat(40),
            message: b"Add a b.md\n".to_vec(),
            author: Some(signature("Ada")),
            committer: Some(signature("Bob")),
            ..Default::default()
        };
        let page = git::WikiPage {
            title: "a b".into(),
            name: "a-b".into(),
            path: b"a-b.md".to_vec(),
            blob_id: "b".repeat(40),
            last_commit: Some(commit),
        };
        let found = git::WikiPageContent {
            page: Some(page),
            content: Some(b"# Hi\n".to_vec()),
            sidebar: b"side".to_vec(),
            footer: Vec::new(),
            commit_count: 3,
        };
        let person = |name: &str| json!({"name": name, "email": "a@example.com", "date": "1970-01-01T00:00:00Z"});
        let expected = json!({
            "title": "a b", "html_url": "http://h/bob/demo/wiki/a-b", "sub_url": "a-b", "sha": "b".repeat(40),
            "last_commit": {
                "sha": "c".repeat(40), "author": person("Ada"), "commiter": person("Bob"), "message": "Add a b.md\n",
            },
            "content_base64": "IyBIaQo=", "commit_count": 3, "sidebar": "c2lkZQ==", "footer": "",
        });
        assert_eq!(serde_json::to_value(WikiPage::new(Some(found), &urls).unwrap()).unwrap(), expected);
    }
}
