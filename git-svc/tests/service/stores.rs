//! The store itself, over a real socket: its status, and requests for a different store.

use ferrite_proto::{
    ServiceRole,
    events::{DeliverRequest, Event, RepositoryDeleted, event::Fact},
    git::{
        DeleteRepositoryRequest, GetStoreStatusRequest, ListBranchesRequest,
        storage_service_client::StorageServiceClient,
    },
};
use ferrite_rpc::grpc::for_store;
use tonic::{Code, Request};

use crate::harness::{Service, creation, reason};

#[tokio::test]
async fn a_store_tells_its_name_its_room_and_its_repositories_to_repo_svc() {
    let service = Service::start().await;
    for _ in 0..3 {
        service.create().await;
    }
    let deleted = DeleteRepositoryRequest { repository_id: service.create().await };
    service.storage().delete_repository(deleted).await.unwrap();
    let status = service.storage().get_store_status(GetStoreStatusRequest {}).await.unwrap().into_inner();
    assert_eq!((status.name.as_str(), status.repository_count, status.is_writable), ("s1", 3, true));
    assert!((0..=status.total_bytes).contains(&status.free_bytes) && status.total_bytes > 0, "{status:?}");
    let mut gateway = StorageServiceClient::new(service.channel_of(ServiceRole::Gateway));
    let refused = gateway.get_store_status(GetStoreStatusRequest {}).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::PermissionDenied, "SERVICE_NOT_PERMITTED"));
}

#[tokio::test]
async fn a_request_for_another_store_does_nothing_and_does_not_look_like_a_missing_repository() {
    let service = Service::start().await;
    let id = service.create().await;
    let list = || service.with_grant(id, ListBranchesRequest { repository_id: id, page: 1, page_size: 1 });
    service.git().list_branches(for_store(list(), "s1")).await.unwrap();
    let refused = service.git().list_branches(for_store(list(), "s2")).await.unwrap_err();
    assert_eq!((refused.code(), reason(&refused).as_str()), (Code::FailedPrecondition, "WRONG_STORE"));

    let made = service.storage().create_repository(for_store(Request::new(creation(id + 100)), "s2")).await;
    assert_eq!(reason(&made.unwrap_err()), "WRONG_STORE");
    let delete = Request::new(DeleteRepositoryRequest { repository_id: id });
    let deleted = service.storage().delete_repository(for_store(delete, "s2")).await;
    assert_eq!(reason(&deleted.unwrap_err()), "WRONG_STORE");
    let fact = Some(Fact::RepositoryDeleted(RepositoryDeleted::default()));
    let event = Event { event_id: "4f9d0c1e".into(), repository_id: id, fact, ..Event::default() };
    let events = Request::new(DeliverRequest { events: vec![event], ..Default::default() });
    let told = service.sink().deliver(for_store(events, "s2")).await;
    assert_eq!(reason(&told.unwrap_err()), "WRONG_STORE");
    service.git().list_branches(list()).await.unwrap();
}
