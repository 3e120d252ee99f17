//! Migrations of repositories from other hosts: begun and looked up by users, ended by events of the store.
//!
//! Not here: fetching, which the store does, and migrations that nobody ends (`background`).

mod encode;
pub(super) mod end;
mod get_migration;
mod get_storage_quota;
mod list_migrations;
mod migrate_repository;
mod start;

use ferrite_proto::repo::migration_service_server::MigrationService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(MigrationService {
    migrate_repository(MigrateRepositoryRequest) -> MigrateRepositoryResponse;
    get_migration(GetMigrationRequest) -> GetMigrationResponse;
    list_migrations(ListMigrationsRequest) -> ListMigrationsResponse;
    get_storage_quota(GetStorageQuotaRequest) -> GetStorageQuotaResponse;
});
