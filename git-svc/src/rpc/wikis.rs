//! The RPCs of wiki pages (`WikiService`). A grant names the wiki as its repository, a request the
//! repository that has the wiki.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use ferrite_core::{version::PreconditionFailed, writer::Scope};
use ferrite_listener::service;
use ferrite_proto::{
    git::{wiki_service_server::WikiService, *},
    id::RepositoryId,
};
use ferrite_rpc::{auth::Caller, version};
use git_store::{
    repo::{
        read::{
            Deadline, EntryKind,
            commit_paths::CommitPath,
            deadline::READ_TIMEOUT,
            log::{page_of, skipped},
            tree_commits::EntryCommit,
            wiki::{PageFile, WikiPage as FoundPage, wiki_page, wiki_revisions, wiki_tip},
        },
        refs::Page,
        write::{NewPage, PageChange, PageRemoval, PreparedCommit, create_page, delete_page, update_page},
    },
    types::{
        error::GitError,
        path::TreePath,
        wiki::{PageName, PageTitle, url_name},
    },
};
use git2::{Oid, Repository};
use tonic::Request;

use super::{
    contents::commit::{begin_on_wiki, commit},
    decode,
    decode::FieldErrors,
    encode,
    history::last_commits,
};
use crate::{admission::limiter::ClientKey, rpc_error::RpcError, state::AppState};

/// Largest page that is written, in bytes. Reads have the content of files up to this size.
const MAX_PAGE_BYTES: usize = 1 << 20;
/// Longest commit message, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

service!(WikiService for AppState {
    list_wiki_pages(ListWikiPagesRequest) -> ListWikiPagesResponse;
    get_wiki_page(GetWikiPageRequest) -> GetWikiPageResponse;
    list_wiki_revisions(ListWikiRevisionsRequest) -> ListWikiRevisionsResponse;
    create_wiki_page(CreateWikiPageRequest) -> CreateWikiPageResponse;
    update_wiki_page(UpdateWikiPageRequest) -> UpdateWikiPageResponse;
    delete_wiki_page(DeleteWikiPageRequest) -> DeleteWikiPageResponse;
});

/// Authorizes a read. Returns the client, the message, and the id of the wiki.
async fn authorize<T>(
    state: &AppState,
    request: Request<T>,
    repository: fn(&T) -> i64,
) -> Result<(ClientKey, T, RepositoryId), RpcError> {
    let caller = Caller::of(&request);
    let grant = state.authorize_wiki(&caller, RepositoryId(repository(request.get_ref()))).await?;
    let client = ClientKey::of(&caller, &grant, request.metadata().as_ref());
    Ok((client, request.into_inner(), grant.repository_id()))
}

async fn list_wiki_pages(
    state: &AppState,
    request: Request<ListWikiPagesRequest>,
) -> Result<ListWikiPagesResponse, RpcError> {
    let (client, request, wiki) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let Some(tip) = state.pool.run(wiki, wiki_tip).await? else { return Ok(ListWikiPagesResponse::default()) };
    let key = CommitPath { repository: wiki, commit: tip, path: TreePath::root() };
    let found = last_commits(state, &client, key).await?;
    let file = |entry: &EntryCommit| match entry.kind {
        EntryKind::File => Some((PageFile::new(&entry.name, entry.id)?, entry.last_commit)),
        EntryKind::Directory | EntryKind::Symlink | EntryKind::Submodule => None,
    };
    let files: Vec<_> = found.entries.iter().filter_map(file).collect();
    let total_count = encode::total_count(files.len());
    let shown: Vec<_> = files.into_iter().skip(skipped(page)).take(page.size).collect();
    let commits = read_commits(state, wiki, shown.iter().filter_map(|(_, commit)| *commit).collect()).await?;
    let page =
        |(file, commit): (PageFile, Option<Oid>)| encode_file(&file, commit.and_then(|id| commits.get(&id).cloned()));
    Ok(ListWikiPagesResponse { pages: shown.into_iter().map(page).collect(), total_count })
}

async fn read_commits(
    state: &AppState,
    wiki: RepositoryId,
    ids: BTreeSet<Oid>,
) -> Result<BTreeMap<Oid, Commit>, GitError> {
    let ids: Vec<_> = ids.into_iter().collect();
    let all = Page { number: 1, size: ids.len() };
    let listed = state.pool.run(wiki, move |repo| page_of(repo, &ids, all)).await?;
    Ok(listed.commits.into_iter().map(|commit| (commit.id, encode::commit(commit))).collect())
}

async fn get_wiki_page(
    state: &AppState,
    request: Request<GetWikiPageRequest>,
) -> Result<GetWikiPageResponse, RpcError> {
    let (_, request, wiki) = authorize(state, request, |request| request.repository_id).await?;
    let page = read_page(state, wiki, page_name(&request.name)?).await?;
    version::tell(&version_of(&page.file));
    Ok(GetWikiPageResponse { page: Some(encode_page(page)) })
}

async fn list_wiki_revisions(
    state: &AppState,
    request: Request<ListWikiRevisionsRequest>,
) -> Result<ListWikiRevisionsResponse, RpcError> {
    let (_, request, wiki) = authorize(state, request, |request| request.repository_id).await?;
    let (page, name) = (decode::parse_page(request.page, request.page_size)?, page_name(&request.name)?);
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let found = state.pool.run(wiki, move |repo| wiki_revisions(repo, &name, page, &deadline)).await?;
    Ok(ListWikiRevisionsResponse {
        commits: found.commits.into_iter().map(encode::commit).collect(),
        total_count: encode::total_count(found.count),
    })
}

async fn create_wiki_page(
    state: &AppState,
    request: Request<CreateWikiPageRequest>,
) -> Result<CreateWikiPageResponse, RpcError> {
    let mut context = begin_on_wiki(state, &request, request.get_ref().repository_id, "CreateWikiPage").await?;
    let (wiki, request) = (context.repository(), request.into_inner());
    let mut errors = FieldErrors::default();
    let message = errors.take(checked_message(request.message));
    let title = errors.take(PageTitle::parse(&request.title));
    let content = errors.take(checked_content(request.content));
    let draft = context.draft(state, &mut errors, ["", ""], message.unwrap_or_default(), [None, None], false);
    let (Some(title), Some(content), Some(draft)) = (title, content, draft) else { return Err(errors.into_error()) };
    errors.none()?;
    let context = context.with_content(content.len());
    let (path, name) = (title.path().clone(), PageName::of_title(title.as_str()));
    let new = NewPage { title, content, draft };
    let prepare = move |repo: &Repository| create_page(repo, &new);
    let respond = |prepared| CreateWikiPageResponse { page: written(prepared) };
    let made = commit(state, context, vec![path], prepare, respond).await?;
    Ok(CreateWikiPageResponse { page: Some(read_written(state, wiki, made.page, name).await?) })
}

async fn update_wiki_page(
    state: &AppState,
    request: Request<UpdateWikiPageRequest>,
) -> Result<UpdateWikiPageResponse, RpcError> {
    let mut context = begin_on_wiki(state, &request, request.get_ref().repository_id, "UpdateWikiPage").await?;
    let (wiki, request) = (context.repository(), request.into_inner());
    let name = page_name(&request.name)?;
    let mut errors = FieldErrors::default();
    let message = errors.take(checked_message(request.message));
    let title = errors.take(new_title(&request.title));
    let content = errors.take(request.content.map(checked_content).transpose());
    let expected_blob = errors.take(decode::blob("sha", &request.expected_blob_id));
    let draft = context.draft(state, &mut errors, ["", ""], message.unwrap_or_default(), [None, None], false);
    let (Some(title), Some(content), Some(expected_blob), Some(draft)) = (title, content, expected_blob, draft) else {
        return Err(errors.into_error());
    };
    errors.none()?;
    let context = context.with_content(content.as_ref().map_or(0, Bytes::len));
    let files = title.iter().map(|title| title.path().clone()).collect();
    let new_name = title.as_ref().map_or_else(|| name.clone(), |title| PageName::of_title(title.as_str()));
    let change = PageChange { name, title, content, expected_blob, draft };
    let scope = Scope::current();
    let prepare = move |repo: &Repository| update_page(repo, &change, &|page| require(scope.as_ref(), page));
    let respond = |prepared| UpdateWikiPageResponse { page: written(prepared) };
    let changed = commit(state, context, files, prepare, respond).await?;
    Ok(UpdateWikiPageResponse { page: Some(read_written(state, wiki, changed.page, new_name).await?) })
}

async fn delete_wiki_page(
    state: &AppState,
    request: Request<DeleteWikiPageRequest>,
) -> Result<DeleteWikiPageResponse, RpcError> {
    let mut context = begin_on_wiki(state, &request, request.get_ref().repository_id, "DeleteWikiPage").await?;
    let name = page_name(&request.get_ref().name)?;
    let mut errors = FieldErrors::default();
    let draft = context.draft(state, &mut errors, ["", ""], String::new(), [None, None], false);
    let Some(draft) = draft else { return Err(errors.into_error()) };
    let (removal, scope) = (PageRemoval { name, draft }, Scope::current());
    let prepare = move |repo: &Repository| delete_page(repo, &removal, &|page| require(scope.as_ref(), page));
    commit(state, context, Vec::new(), prepare, |_| DeleteWikiPageResponse {}).await
}

fn page_name(sent: &str) -> Result<PageName, GitError> {
    PageName::parse(sent).ok_or(GitError::WikiPageNotFound)
}

fn new_title(text: &str) -> Result<Option<PageTitle>, GitError> {
    if text.is_empty() { Ok(None) } else { PageTitle::parse(text).map(Some) }
}

fn checked_message(message: String) -> Result<String, GitError> {
    match message.len() > MAX_MESSAGE_BYTES {
        true => Err(GitError::invalid("message", "too_long", "must be at most 16 KiB")),
        false => Ok(message),
    }
}

fn checked_content(content: Bytes) -> Result<Bytes, GitError> {
    match content.len() > MAX_PAGE_BYTES {
        true => Err(GitError::invalid("content_base64", "too_long", "must be at most 1 MiB")),
        false => Ok(content),
    }
}

/// Checks the precondition of a request against the page that it writes.
fn require(scope: Option<&Arc<Scope>>, page: &PageFile) -> Result<(), PreconditionFailed> {
    scope.map_or(Ok(()), |scope| scope.versions().require(Some(&version_of(page))))
}

/// The version of a page is that of its file.
fn version_of(page: &PageFile) -> TreeEntry {
    encode::entry_version(EntryKind::File, &page.path, page.id)
}

async fn read_page(state: &AppState, wiki: RepositoryId, name: PageName) -> Result<FoundPage, GitError> {
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    state.pool.run(wiki, move |repo| wiki_page(repo, &name, &deadline)).await
}

/// Returns a page as its commit made it, without what is read elsewhere.
fn written(mut prepared: PreparedCommit) -> Option<WikiPageContent> {
    let entry = prepared.entries.pop()?;
    let file = PageFile::new(&entry.path, entry.id)?;
    let page = Some(encode_file(&file, Some(encode::commit(prepared.commit))));
    Some(WikiPageContent { page, ..WikiPageContent::default() })
}

/// Reads a page that was written. `name` finds it if the response to a repeated request lacks it.
async fn read_written(
    state: &AppState,
    wiki: RepositoryId,
    written: Option<WikiPageContent>,
    name: PageName,
) -> Result<WikiPageContent, GitError> {
    let path = written.as_ref().and_then(|written| TreePath::literal(&written.page.as_ref()?.path).ok());
    match (read_page(state, wiki, path.map_or(name, PageName::of_file)).await, written) {
        (Ok(found), _) => Ok(encode_page(found)),
        // The commit is made, even if the page was deleted since.
        (Err(_), Some(written)) => Ok(written),
        (Err(error), None) => Err(error),
    }
}

fn encode_page(found: FoundPage) -> WikiPageContent {
    let FoundPage { file, content, sidebar, footer, last_commit, commit_count } = found;
    WikiPageContent {
        page: Some(encode_file(&file, last_commit.map(encode::commit))),
        content,
        sidebar,
        footer,
        commit_count: encode::total_count(commit_count),
    }
}

fn encode_file(file: &PageFile, last_commit: Option<Commit>) -> WikiPage {
    WikiPage {
        title: file.title.clone(),
        name: url_name(&file.title),
        path: file.path.as_bytes().to_vec(),
        blob_id: file.id.to_string(),
        last_commit,
    }
}
