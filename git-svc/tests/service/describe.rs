//! `DescribeUpdates`: the commits of pushes, for services only.

use ferrite_proto::{
    ServiceRole,
    git::{
        DescribeUpdatesRequest, DescribeUpdatesResponse, UpdateToDescribe, storage_service_client::StorageServiceClient,
    },
    operation::PUT_CONTENTS,
};
use tonic::{Code, Status};

use crate::{
    harness::{Service, reason, with_token},
    push::{Gateway, git},
};

const ZEROS: &str = "0000000000000000000000000000000000000000";

fn request(repository_id: i64, updates: Vec<UpdateToDescribe>) -> DescribeUpdatesRequest {
    DescribeUpdatesRequest {
        repository_id,
        updates,
        commit_limit: 20,
        path_limit: 300,
        message_bytes_limit: 1024,
        with_head: true,
    }
}

async fn describe(service: &Service, request: DescribeUpdatesRequest) -> Result<DescribeUpdatesResponse, Status> {
    let mut storage = StorageServiceClient::new(service.channel_of(ServiceRole::HookSvc));
    Ok(storage.describe_updates(request).await?.into_inner())
}

#[tokio::test]
async fn the_updates_of_a_push_are_described_from_its_event() {
    let (gateway, id, work) = Gateway::with_work_tree().await;
    let service = &gateway.service;
    let empty = describe(service, request(id, Vec::new())).await.unwrap();
    assert_eq!(empty, DescribeUpdatesResponse::default());
    let remote = gateway.remote(id);
    git(&work, &["push", &remote, "main~1:refs/heads/main"]).await;
    git(&work, &["push", &remote, "main", "main:refs/heads/topic"]).await;
    let mut updates = Vec::new();
    for event in service.updates_for_hooks(id, 2).await {
        updates.extend(event.updates.into_iter().map(|update| UpdateToDescribe {
            name: update.name,
            old_id: update.old_id,
            new_id: update.new_id,
        }));
    }
    let described = describe(service, request(id, updates.clone())).await.unwrap();
    let messages: Vec<Vec<_>> = described
        .updates
        .iter()
        .map(|update| update.commits.iter().map(|commit| commit.message.as_str()).collect())
        .collect();
    assert_eq!(messages, [vec!["commit 1\n", "commit 0\n"], vec!["commit 2\n"], vec!["commit 2\n"]]);
    assert_eq!(described.updates.iter().map(|update| update.total_commits).collect::<Vec<_>>(), [2, 1, 1]);
    let head = described.head.unwrap();
    assert_eq!((head.branch.as_slice(), head.parent_id.as_str()), (&b"main"[..], updates[0].new_id.as_str()));
    assert_eq!(head.commit.as_ref(), described.updates[1].commits.first());
    let gone = UpdateToDescribe { new_id: "a".repeat(40), ..updates[0].clone() };
    let described = describe(service, request(id, vec![gone])).await.unwrap();
    assert!(described.updates[0].is_missing && described.updates[0].commits.is_empty());
}

#[tokio::test]
async fn descriptions_are_for_services_and_within_the_limits() {
    let service = Service::start().await;
    let id = service.create().await;
    let update = UpdateToDescribe { name: b"refs/heads/main".to_vec(), old_id: ZEROS.into(), new_id: ZEROS.into() };
    let valid = request(id, vec![update.clone(); 64]);
    assert_eq!(describe(&service, valid.clone()).await.unwrap().updates.len(), 64);
    let change = |change: fn(&mut DescribeUpdatesRequest)| {
        let mut request = valid.clone();
        change(&mut request);
        request
    };
    for wrong in [
        change(|request| request.updates.push(request.updates[0].clone())),
        change(|request| request.updates[1].old_id = "main".into()),
        change(|request| request.updates[1].new_id.truncate(39)),
        change(|request| request.commit_limit = 0),
        change(|request| request.commit_limit = 21),
        change(|request| request.path_limit = 1001),
        change(|request| request.message_bytes_limit = (64 << 10) + 1),
    ] {
        let error = describe(&service, wrong.clone()).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_str()), (Code::InvalidArgument, "INVALID_FIELDS"), "{wrong:?}");
    }
    let unknown = describe(&service, request(4711, vec![update])).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).as_str()), (Code::NotFound, "REPOSITORY_NOT_FOUND"));
    let mut stranger = StorageServiceClient::new(service.stranger());
    let token = service.sign(service.grant(id, PUT_CONTENTS));
    let error = stranger.describe_updates(with_token(valid, &token)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::PermissionDenied, "SERVICE_REQUIRED"));
}
