//! The gRPC service of history, refs and objects (`GitDataService`). One file per RPC.

mod convert;
mod get_blob;
mod get_ref;
mod get_tag_object;
mod get_tree;
mod list_refs;
mod list_tags;

use ferrite_kit::service;
use ferrite_proto::git::{git_data_service_server::GitDataService, *};

use crate::{rpc::commits::list_commits, state::AppState};

use self::get_blob::get_blob;
use self::get_ref::get_ref;
use self::get_tag_object::get_tag_object;
use self::get_tree::get_tree;
use self::list_refs::list_refs;
use self::list_tags::list_tags;

service!(GitDataService for AppState {
    list_commits(ListCommitsRequest) -> ListCommitsResponse;
    list_tags(ListTagsRequest) -> ListTagsResponse;
    get_tree(GetTreeRequest) -> GetTreeResponse;
    get_blob(GetBlobRequest) -> GetBlobResponse;
    list_refs(ListRefsRequest) -> ListRefsResponse;
    get_ref(GetRefRequest) -> GetRefResponse;
    get_tag_object(GetTagObjectRequest) -> GetTagObjectResponse;
});
