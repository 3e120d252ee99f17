//! `MigrationService` and `MirrorService`: repositories that come from other hosts.

mod get_migration;
mod start_migration;
mod sync_mirror;
mod update_mirror;

use ferrite_kit::service;
use ferrite_proto::git::{migration_service_server::MigrationService, mirror_service_server::MirrorService, *};

use crate::state::AppState;

use self::get_migration::get_migration;
use self::start_migration::start_migration;
use self::sync_mirror::sync_mirror;
use self::update_mirror::update_mirror;

service!(MigrationService for AppState {
    start_migration(StartMigrationRequest) -> StartMigrationResponse;
    get_migration(GetMigrationRequest) -> GetMigrationResponse;
});

service!(MirrorService for AppState {
    sync_mirror(SyncMirrorRequest) -> SyncMirrorResponse;
    update_mirror(UpdateMirrorRequest) -> UpdateMirrorResponse;
});
