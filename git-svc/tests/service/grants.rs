//! Grants and service credentials that are rejected.

use std::time::Duration;

use ed25519_dalek::{SigningKey, pkcs8::EncodePrivateKey as _};
use ferrite_proto::{
    git::{
        DeleteRepositoryRequest, GetCommitRequest, ListBranchesRequest, git_service_client::GitServiceClient,
        storage_service_client::StorageServiceClient,
    },
    grant::{Grant, Signer},
    operation::{GET_COMMIT, LIST_BRANCHES, PUT_CONTENTS, UPLOAD_PACK},
};
use tonic::{Code, Request};

use crate::harness::{Service, creation, now, put_request, reason, with_token};

fn list(id: i64) -> ListBranchesRequest {
    ListBranchesRequest { repository_id: id, page: 1, page_size: 10 }
}

#[tokio::test]
async fn grants_of_another_key_expired_or_for_another_repository_are_refused() {
    let service = Service::start().await;
    let (id, other) = (service.create().await, service.create().await);
    let grant = service.grant(id, LIST_BRANCHES);
    let good = service.sign(grant.clone());
    service.git().list_branches(with_token(list(id), &good)).await.unwrap();

    let key = SigningKey::from_bytes(&[8; 32]).to_pkcs8_pem(Default::default()).unwrap();
    let foreign = Signer::from_pem(key.as_bytes()).unwrap().sign(grant.clone(), now(), Duration::from_secs(60));
    let expired = service.signer.sign(grant, now() - 120, Duration::from_secs(60));
    let wrong = service.sign(service.grant(other, LIST_BRANCHES));
    for token in [foreign, expired, wrong, format!("{good}x"), "x.y.z".to_owned()] {
        let error = service.git().list_branches(with_token(list(id), &token)).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_str()), (Code::Unauthenticated, "BAD_GRANT"));
        let error = service.git().put_contents(with_token(put_request(id, "a", b"x"), &token)).await.unwrap_err();
        assert_eq!(reason(&error), "BAD_GRANT");
    }
}

#[tokio::test]
async fn requests_without_credentials_are_refused() {
    let service = Service::start().await;
    let id = service.create().await;
    let error = GitServiceClient::new(service.stranger()).list_branches(list(id)).await.unwrap_err();
    assert_eq!(reason(&error), "CREDENTIALS_REQUIRED");
    // A service without a grant is anonymous.
    let error = service.git().list_branches(list(id)).await.unwrap_err();
    assert_eq!(reason(&error), "CREDENTIALS_REQUIRED");
}

#[tokio::test]
async fn a_grant_is_valid_for_one_operation() {
    let service = Service::start().await;
    let id = service.create().await;
    for operation in [LIST_BRANCHES, GET_COMMIT, UPLOAD_PACK, ""] {
        let token = service.sign(service.grant(id, operation));
        let error = service.git().put_contents(with_token(put_request(id, "a", b"x"), &token)).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_str()), (Code::Unauthenticated, "BAD_GRANT"), "{operation}");
    }
    let writer = service.sign(service.grant(id, PUT_CONTENTS));
    let error = service.git().list_branches(with_token(list(id), &writer)).await.unwrap_err();
    assert_eq!(reason(&error), "BAD_GRANT");
    service.git().put_contents(with_token(put_request(id, "a", b"x"), &writer)).await.unwrap();
}

#[tokio::test]
async fn commits_to_a_mirror_are_refused() {
    let service = Service::start().await;
    let id = service.create().await;
    let mirror = |operation| service.sign(Grant { is_mirror: true, ..service.grant(id, operation) });
    let put = with_token(put_request(id, "a", b"x"), &mirror(PUT_CONTENTS));
    let error = service.git().put_contents(put).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::FailedPrecondition, "MIRROR_READ_ONLY"));
    service.git().list_branches(with_token(list(id), &mirror(LIST_BRANCHES))).await.unwrap();
}

#[tokio::test]
async fn another_store_and_an_old_epoch_are_refused() {
    let service = Service::start().await;
    let id = service.create().await;
    let mut request = GetCommitRequest { repository_id: id, revision: b"HEAD".to_vec(), ..Default::default() };
    for (store, epoch, wanted) in
        [("s2", 1, "WRONG_STORE"), ("s1", 0, "WRONG_STORE"), ("s1", 3, "REVISION_NOT_FOUND"), ("s1", 2, "WRONG_STORE")]
    {
        let mut grant = service.grant(id, GET_COMMIT);
        (grant.store, grant.epoch) = (store.to_owned(), epoch);
        let error = service.git().get_commit(with_token(request.clone(), &service.sign(grant))).await.unwrap_err();
        assert_eq!(reason(&error), wanted, "{store} {epoch}");
    }
    request.repository_id = 4711;
    let error = service.git().get_commit(service.with_grant(4711, request)).await.unwrap_err();
    assert_eq!(reason(&error), "REPOSITORY_NOT_FOUND");
}

#[tokio::test]
async fn only_services_create_and_delete_repositories() {
    let service = Service::start().await;
    let id = service.create().await;
    let token = service.sign(service.grant(id, PUT_CONTENTS));
    let mut storage = StorageServiceClient::new(service.stranger());
    let error = storage.create_repository(with_token(creation(99), &token)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::PermissionDenied, "SERVICE_REQUIRED"));
    let request = DeleteRepositoryRequest { repository_id: id };
    let error = storage.delete_repository(with_token(request, &token)).await.unwrap_err();
    assert_eq!(reason(&error), "SERVICE_REQUIRED");
    let error = storage.delete_repository(Request::new(request)).await.unwrap_err();
    assert_eq!(reason(&error), "CREDENTIALS_REQUIRED");
}
