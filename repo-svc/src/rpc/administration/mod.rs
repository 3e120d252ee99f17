//! Operations of site administrators: accounts with their addresses and quotas, git stores, and the
//! audit log.

mod audit;
mod quotas;
mod stores;
mod users;

use ferrite_proto::repo::administration_service_server::AdministrationService;
use ferrite_proto::repo::*;

use self::audit::list_audit_events;
use self::quotas::{get_quota, update_quota};
use self::stores::{delete_store, list_stores, set_store, update_store};
use self::users::{create_user, delete_user, list_users, set_email_verification, update_user};
use super::dispatch::authorized_service;

authorized_service!(AdministrationService {
    list_users(ListUsersRequest) -> ListUsersResponse;
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
