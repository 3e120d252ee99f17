//! Keys that open one repository.

mod create_deploy_key;
mod delete_deploy_key;
mod get_deploy_key;
mod list_deploy_keys;

use ferrite_kit::timestamp;
use ferrite_proto::repo::deploy_key_service_server::DeployKeyService;
use ferrite_proto::repo::{
    self, CreateDeployKeyRequest, CreateDeployKeyResponse, DeleteDeployKeyRequest, DeleteDeployKeyResponse,
    GetDeployKeyRequest, GetDeployKeyResponse, ListDeployKeysRequest, ListDeployKeysResponse,
};

use super::service;
use crate::store::DeployKey;

service!(DeployKeyService {
    list_deploy_keys(ListDeployKeysRequest) -> ListDeployKeysResponse;
    get_deploy_key(GetDeployKeyRequest) -> GetDeployKeyResponse;
    create_deploy_key(CreateDeployKeyRequest) -> CreateDeployKeyResponse;
    delete_deploy_key(DeleteDeployKeyRequest) -> DeleteDeployKeyResponse;
});

fn encoded(key: DeployKey) -> repo::DeployKey {
    repo::DeployKey {
        id: key.id,
        key: key.content,
        title: key.title,
        fingerprint: key.fingerprint,
        is_read_only: key.is_read_only,
        create_time: Some(timestamp(key.created_us)),
    }
}
