//! Operations of administrators of the site: accounts and the audit log.

mod create_user;
mod delete_user;
mod list_audit_events;
mod update_user;

use ferrite_proto::repo::administration_service_server::AdministrationService;
use ferrite_proto::repo::*;

use super::dispatch::service;

service!(AdministrationService {
    create_user(CreateUserRequest) -> CreateUserResponse;
    update_user(UpdateUserRequest) -> UpdateUserResponse;
    delete_user(DeleteUserRequest) -> DeleteUserResponse;
    list_audit_events(ListAuditEventsRequest) -> ListAuditEventsResponse;
});
