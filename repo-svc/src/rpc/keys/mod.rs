//! Public keys of users, by which they authenticate to git over SSH.

mod create_public_key;
mod delete_public_key;
mod get_public_key;
mod list_public_keys;

use ferrite_proto::repo::public_key_service_server::PublicKeyService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(PublicKeyService {
    list_public_keys(ListPublicKeysRequest) -> ListPublicKeysResponse;
    get_public_key(GetPublicKeyRequest) -> GetPublicKeyResponse;
    create_public_key(CreatePublicKeyRequest, as_administrator) -> CreatePublicKeyResponse;
    delete_public_key(DeletePublicKeyRequest) -> DeletePublicKeyResponse;
});
