//! The RPCs of refs, objects and languages (`GitDataService`).

use ferrite_listener::service;
use ferrite_proto::git::{git_data_service_server::GitDataService, *};
use git_store::{
    repo::{
        read,
        read::{Deadline, EntryKind, deadline::READ_TIMEOUT, object::RefInfo},
        revision::Revision,
    },
    types::{error::GitError, name::RefName},
};
use tonic::Request;

use super::{authorize, commits::list_commits, decode, encode};
use crate::{db::LanguageRow, rpc_error::RpcError, state::AppState};

service!(GitDataService for AppState {
    list_commits(ListCommitsRequest) -> ListCommitsResponse;
    list_tags(ListTagsRequest) -> ListTagsResponse;
    get_tree(GetTreeRequest) -> GetTreeResponse;
    get_blob(GetBlobRequest) -> GetBlobResponse;
    list_refs(ListRefsRequest) -> ListRefsResponse;
    get_ref(GetRefRequest) -> GetRefResponse;
    get_tag_object(GetTagObjectRequest) -> GetTagObjectResponse;
    get_languages(GetLanguagesRequest) -> GetLanguagesResponse;
});

async fn list_tags(state: &AppState, request: Request<ListTagsRequest>) -> Result<ListTagsResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let listed = read::tag_refs(&*state.refs.table(id).await?, page);
    let found = state.pool.run(id, move |repo| read::tags(repo, &listed.entries)).await?;
    let tags = found.into_iter().map(encode::tag);
    Ok(ListTagsResponse { tags: tags.collect(), total_count: encode::total_count(listed.total) })
}

async fn get_tree(state: &AppState, request: Request<GetTreeRequest>) -> Result<GetTreeResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let revision = Revision::parse(&request.tree_ish)?;
    let (deadline, _waiting) = Deadline::start(READ_TIMEOUT);
    let is_recursive = request.is_recursive;
    // Build the response on the pool thread too: a tree may have very many entries.
    let job = move |repo: &git2::Repository| {
        let found = read::tree(repo, &revision, is_recursive, &deadline)?;
        Ok(GetTreeResponse {
            tree_id: found.id.to_string(),
            items: found.items.into_iter().map(item).collect(),
            is_truncated: found.is_truncated,
        })
    };
    Ok(state.pool.run(id, job).await?)
}

fn item(item: read::tree::TreeItem) -> TreeItem {
    let kind = match EntryKind::of(i32::try_from(item.mode).unwrap_or(0)) {
        EntryKind::File | EntryKind::Symlink => ObjectType::Blob,
        EntryKind::Directory => ObjectType::Tree,
        EntryKind::Submodule => ObjectType::Commit,
    };
    TreeItem {
        path: item.path,
        mode: item.mode,
        r#type: kind.into(),
        id: item.id.to_string(),
        size_bytes: item.size.map(|size| i64::try_from(size).unwrap_or(i64::MAX)),
    }
}

async fn get_blob(state: &AppState, request: Request<GetBlobRequest>) -> Result<GetBlobResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let (id, content) = state.pool.run(id, move |repo| read::blob(repo, &request.blob_id)).await?;
    Ok(GetBlobResponse { blob_id: id.to_string(), content: content.into() })
}

async fn list_refs(state: &AppState, request: Request<ListRefsRequest>) -> Result<ListRefsResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let page = decode::parse_page(request.page, request.page_size)?;
    let listed = state.refs.list(id, &request.prefix, page).await?;
    let references = listed.entries.into_iter().map(|entry| reference(&read::listed_reference(entry)));
    Ok(ListRefsResponse { references: references.collect(), total_count: encode::total_count(listed.total) })
}

/// Returns one ref. An invalid name yields `RefNotFound`, like a missing ref.
async fn get_ref(state: &AppState, request: Request<GetRefRequest>) -> Result<GetRefResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let name = RefName::parse(&request.name).map_err(|_| GitError::RefNotFound)?;
    let job = move |repo: &git2::Repository| read::reference(repo, &name);
    let found = state.pool.run(id, job).await?;
    Ok(GetRefResponse { reference: Some(reference(&found)) })
}

async fn get_tag_object(
    state: &AppState,
    request: Request<GetTagObjectRequest>,
) -> Result<GetTagObjectResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let tag = state.pool.run(id, move |repo| read::tag_object(repo, &request.tag_id)).await?;
    Ok(GetTagObjectResponse {
        tag_id: tag.id.to_string(),
        name: tag.name.into_bytes(),
        message: tag.message.into_bytes(),
        tagger: tag.tagger.map(encode::signature),
        object_type: object_type(tag.kind).into(),
        object_id: tag.target.to_string(),
        is_truncated: tag.is_truncated,
    })
}

fn reference(found: &RefInfo) -> Reference {
    Reference {
        name: found.name.as_bytes().to_vec(),
        object_type: object_type(found.kind).into(),
        object_id: found.target.to_string(),
    }
}

fn object_type(kind: git2::ObjectType) -> ObjectType {
    match kind {
        git2::ObjectType::Commit => ObjectType::Commit,
        git2::ObjectType::Tree => ObjectType::Tree,
        git2::ObjectType::Blob => ObjectType::Blob,
        git2::ObjectType::Tag => ObjectType::Tag,
        git2::ObjectType::Any => ObjectType::Unspecified,
    }
}

/// Returns the languages of the default branch as last counted.
async fn get_languages(
    state: &AppState,
    request: Request<GetLanguagesRequest>,
) -> Result<GetLanguagesResponse, RpcError> {
    let (_, id) = authorize(state, request, |request| request.repository_id).await?;
    Ok(encode_languages(&state.languages.get(id).await?))
}

fn encode_languages(row: &LanguageRow) -> GetLanguagesResponse {
    let languages = row
        .counts
        .sorted()
        .into_iter()
        .map(|(name, bytes)| Language { name: name.to_owned(), size_bytes: i64::try_from(bytes).unwrap_or(i64::MAX) });
    GetLanguagesResponse {
        languages: languages.collect(),
        commit_id: row.commit_id.clone(),
        is_truncated: row.counts.is_truncated,
    }
}
