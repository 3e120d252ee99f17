//! The gRPC service of history, refs and objects (`GitDataService`). One file per RPC.

mod get_blob;
mod get_ref;
mod get_tag_object;
mod get_tree;
mod list_commits;
mod list_refs;
mod list_tags;

use ferrite_proto::git::{
    GetBlobRequest, GetBlobResponse, GetRefRequest, GetRefResponse, GetTagObjectRequest, GetTagObjectResponse,
    GetTreeRequest, GetTreeResponse, ListCommitsRequest, ListCommitsResponse, ListRefsRequest, ListRefsResponse,
    ListTagsRequest, ListTagsResponse, ObjectType, Reference, git_data_service_server::GitDataService,
};
use tonic::{Request, Response};

use super::{Rpc, RpcResult, encode};
use crate::{
    repo::{read::object::RefInfo, refs::Page},
    types::error::GitError,
};

/// Most items in a page.
const MAX_PAGE_SIZE: i32 = 1000;

#[tonic::async_trait]
impl GitDataService for Rpc {
    async fn list_commits(&self, request: Request<ListCommitsRequest>) -> RpcResult<ListCommitsResponse> {
        Ok(Response::new(list_commits::list_commits(&self.0, request).await?))
    }

    async fn list_tags(&self, request: Request<ListTagsRequest>) -> RpcResult<ListTagsResponse> {
        Ok(Response::new(list_tags::list_tags(&self.0, request).await?))
    }

    async fn get_tree(&self, request: Request<GetTreeRequest>) -> RpcResult<GetTreeResponse> {
        Ok(Response::new(get_tree::get_tree(&self.0, request).await?))
    }

    async fn get_blob(&self, request: Request<GetBlobRequest>) -> RpcResult<GetBlobResponse> {
        Ok(Response::new(get_blob::get_blob(&self.0, request).await?))
    }

    async fn list_refs(&self, request: Request<ListRefsRequest>) -> RpcResult<ListRefsResponse> {
        Ok(Response::new(list_refs::list_refs(&self.0, request).await?))
    }

    async fn get_ref(&self, request: Request<GetRefRequest>) -> RpcResult<GetRefResponse> {
        Ok(Response::new(get_ref::get_ref(&self.0, request).await?))
    }

    async fn get_tag_object(&self, request: Request<GetTagObjectRequest>) -> RpcResult<GetTagObjectResponse> {
        Ok(Response::new(get_tag_object::get_tag_object(&self.0, request).await?))
    }
}

/// Checks the page of a request.
fn page(number: i32, size: i32) -> Result<Page, GitError> {
    let number = usize::try_from(number).ok().filter(|number| *number >= 1);
    let number = number.ok_or_else(|| GitError::invalid("page", "invalid", "must be at least 1"))?;
    let size = usize::try_from(size).ok().filter(|_| (1..=MAX_PAGE_SIZE).contains(&size));
    let size = size.ok_or_else(|| GitError::invalid("page_size", "invalid", "must be from 1 to 1000"))?;
    Ok(Page { number, size })
}

fn count(total: usize) -> i64 {
    i64::try_from(total).unwrap_or(i64::MAX)
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

fn reference(found: &RefInfo) -> Reference {
    Reference {
        name: found.name.as_bytes().to_vec(),
        object_type: object_type(found.kind).into(),
        object_id: found.target.to_string(),
    }
}
