//! `MigrationService` and `MirrorService`: repositories that come from other hosts.

mod get_migration;
mod start_migration;
mod sync_mirror;
mod update_mirror;

use ferrite_proto::git::{
    GetMigrationRequest, GetMigrationResponse, StartMigrationRequest, StartMigrationResponse, SyncMirrorRequest,
    SyncMirrorResponse, UpdateMirrorRequest, UpdateMirrorResponse, migration_service_server::MigrationService,
    mirror_service_server::MirrorService,
};
use tonic::{Request, Response};

use super::{Rpc, RpcResult};

#[tonic::async_trait]
impl MigrationService for Rpc {
    async fn start_migration(&self, request: Request<StartMigrationRequest>) -> RpcResult<StartMigrationResponse> {
        Ok(Response::new(start_migration::start_migration(&self.0, request).await?))
    }

    async fn get_migration(&self, request: Request<GetMigrationRequest>) -> RpcResult<GetMigrationResponse> {
        Ok(Response::new(get_migration::get_migration(&self.0, request).await?))
    }
}

#[tonic::async_trait]
impl MirrorService for Rpc {
    async fn sync_mirror(&self, request: Request<SyncMirrorRequest>) -> RpcResult<SyncMirrorResponse> {
        Ok(Response::new(sync_mirror::sync_mirror(&self.0, request).await?))
    }

    async fn update_mirror(&self, request: Request<UpdateMirrorRequest>) -> RpcResult<UpdateMirrorResponse> {
        Ok(Response::new(update_mirror::update_mirror(&self.0, request).await?))
    }
}
