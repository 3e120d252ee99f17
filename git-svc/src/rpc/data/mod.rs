//! The gRPC service of history, refs and objects (`GitDataService`). One file per RPC.

mod convert;
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
    ListTagsRequest, ListTagsResponse, git_data_service_server::GitDataService,
};
use tonic::{Request, Response};

use super::{Rpc, RpcResult};

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
