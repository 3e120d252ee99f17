//! Operations of administrators of the site: accounts with their addresses and quotas, git stores, and the audit log.

mod create_user;
mod delete_store;
mod delete_user;
mod get_quota;
mod list_audit_events;
mod list_stores;
mod set_email_verification;
mod set_store;
mod update_quota;
mod update_store;
mod update_user;

use ferrite_proto::repo::administration_service_server::AdministrationService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(AdministrationService {
    create_user(CreateUserRequest) -> CreateUserResponse;
    update_user(UpdateUserRequest) -> UpdateUserResponse;
    delete_user(DeleteUserRequest) -> DeleteUserResponse;
    set_email_verification(SetEmailVerificationRequest) -> SetEmailVerificationResponse;
    get_quota(GetQuotaRequest) -> GetQuotaResponse;
    update_quota(UpdateQuotaRequest) -> UpdateQuotaResponse;
    list_audit_events(ListAuditEventsRequest) -> ListAuditEventsResponse;
    list_stores(ListStoresRequest) -> ListStoresResponse;
    set_store(SetStoreRequest) -> SetStoreResponse;
    update_store(UpdateStoreRequest) -> UpdateStoreResponse;
    delete_store(DeleteStoreRequest) -> DeleteStoreResponse;
});
