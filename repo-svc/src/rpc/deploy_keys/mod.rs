//! Deploy keys: SSH keys with access to one repository.

mod create_deploy_key;
mod delete_deploy_key;
mod get_deploy_key;
mod list_deploy_keys;

use ferrite_proto::repo::deploy_key_service_server::DeployKeyService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(DeployKeyService {
    list_deploy_keys(ListDeployKeysRequest) -> ListDeployKeysResponse;
    get_deploy_key(GetDeployKeyRequest) -> GetDeployKeyResponse;
    create_deploy_key(CreateDeployKeyRequest) -> CreateDeployKeyResponse;
    delete_deploy_key(DeleteDeployKeyRequest) -> DeleteDeployKeyResponse;
});
