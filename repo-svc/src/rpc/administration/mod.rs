//! Operations of administrators of the site: accounts with their addresses and quotas, and the audit log.

mod create_user;
mod delete_user;
mod get_quota;
mod list_audit_events;
mod set_email_verification;
mod update_quota;
mod update_user;

use ferrite_proto::repo::administration_service_server::AdministrationService;
use ferrite_proto::repo::*;

use super::dispatch::service;

service!(AdministrationService {
    create_user(CreateUserRequest) -> CreateUserResponse;
    update_user(UpdateUserRequest) -> UpdateUserResponse;
    delete_user(DeleteUserRequest) -> DeleteUserResponse;
    set_email_verification(SetEmailVerificationRequest) -> SetEmailVerificationResponse;
    get_quota(GetQuotaRequest) -> GetQuotaResponse;
    update_quota(UpdateQuotaRequest) -> UpdateQuotaResponse;
    list_audit_events(ListAuditEventsRequest) -> ListAuditEventsResponse;
});
