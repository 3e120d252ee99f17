//! RPC `ListHooks`.

use ferrite_kit::page::Page;
use ferrite_proto::hook::{ListHooksRequest, ListHooksResponse};
use tonic::Request;

use super::encode::encode;
use crate::error::HookError;
use crate::rpc::service::HookRpc;

const MAX_PAGE_SIZE: i32 = 1000;

pub(super) async fn list_hooks(
    service: &HookRpc,
    request: Request<ListHooksRequest>,
) -> Result<ListHooksResponse, HookError> {
    let access = service.authorize_owner(&request, request.get_ref().owner.as_ref()).await?;
    let request = request.into_inner();
    let page = Page::parse(request.page, request.page_size, MAX_PAGE_SIZE).map_err(HookError::Invalid)?;
    let (hooks, total_count) = service.store.list(access.owner, page).await?;
    let hooks = hooks.into_iter().map(|hook| encode(hook, &access.organization)).collect();
    Ok(ListHooksResponse { hooks, total_count })
}
