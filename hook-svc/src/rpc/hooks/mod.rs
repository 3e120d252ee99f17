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

use self::create_hook::create_hook;
use self::delete_hook::delete_hook;
use self::get_hook::get_hook;
use self::list_hooks::list_hooks;
use self::update_hook::update_hook;

service!(HookService for HookRpc {
    create_hook(CreateHookRequest) -> CreateHookResponse;
    list_hooks(ListHooksRequest) -> ListHooksResponse;
    get_hook(GetHookRequest) -> GetHookResponse;
    update_hook(UpdateHookRequest) -> UpdateHookResponse;
    delete_hook(DeleteHookRequest) -> DeleteHookResponse;
});
