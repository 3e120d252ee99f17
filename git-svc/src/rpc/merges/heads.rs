//! StageHead, SetPullHead and FindMerged: the heads of pull requests.

use ferrite_proto::git::{
    FindMergedRequest, FindMergedResponse, SetPullHeadRequest, SetPullHeadResponse, StageHeadRequest, StageHeadResponse,
};
use tonic::Request;

use crate::{rpc_error::RpcError, state::AppState};

pub(super) async fn stage_head(
    _state: &AppState,
    _request: Request<StageHeadRequest>,
) -> Result<StageHeadResponse, RpcError> {
    Err(RpcError::BadPermit)
}

pub(super) async fn set_pull_head(
    _state: &AppState,
    _request: Request<SetPullHeadRequest>,
) -> Result<SetPullHeadResponse, RpcError> {
    Err(RpcError::BadPermit)
}

pub(super) async fn find_merged(
    _state: &AppState,
    _request: Request<FindMergedRequest>,
) -> Result<FindMergedResponse, RpcError> {
    Err(RpcError::BadPermit)
}
