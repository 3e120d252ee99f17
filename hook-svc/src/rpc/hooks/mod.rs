//! The RPCs of `HookService`, one per file.

mod create_hook;
mod decode;
mod delete_hook;
mod encode;
mod get_hook;
mod list_hooks;
mod redact;
#[cfg(test)]
mod tests;
mod update_hook;

use ferrite_kit::service;
use ferrite_proto::hook::hook_service_server::HookService;
use ferrite_proto::hook::*;

use super::HookRpc;

service!(HookService for HookRpc {
    create_hook(CreateHookRequest) -> CreateHookResponse;
    list_hooks(ListHooksRequest) -> ListHooksResponse;
    get_hook(GetHookRequest) -> GetHookResponse;
    update_hook(UpdateHookRequest) -> UpdateHookResponse;
    delete_hook(DeleteHookRequest) -> DeleteHookResponse;
});
