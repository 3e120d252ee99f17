//! What only administrators of the site may do.

mod create_user;
mod delete_user;
mod list_audit_events;
mod update_user;

use ferrite_kit::auth::TokenHash;
use ferrite_proto::repo::administration_service_server::AdministrationService;
use ferrite_proto::repo::*;

use super::service;
use crate::core::Core;

service!(AdministrationService {
    create_user(CreateUserRequest) -> CreateUserResponse;
    update_user(UpdateUserRequest) -> UpdateUserResponse;
    delete_user(DeleteUserRequest) -> DeleteUserResponse;
    list_audit_events(ListAuditEventsRequest) -> ListAuditEventsResponse;
});

/// Makes everybody forget what was known of these tokens. After the change is committed: whoever asks from now on is told the truth.
async fn revoke(core: &Core, hashes: &[TokenHash]) {
    if let Some(cache) = &core.cache {
        cache.revoke(hashes).await;
    }
}
