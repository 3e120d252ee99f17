//! Reads return a version, and writes of files and protection rules with it as precondition succeed
//! once.

use ferrite_proto::{
    git::{
        DeleteContentsRequest, DeleteProtectionRequest, GetContentsRequest, GetProtectionRequest, PutContentsRequest,
        PutContentsResponse, SetProtectionRequest, protection_service_client::ProtectionServiceClient,
    },
    metadata::{IDEMPOTENCY_KEY, PRECONDITION, VERSION},
};
use tonic::{Code, Request, Response, Status};

use crate::{
    harness::{Service, put_request, reason},
    operations::Operation,
    writes::{protect, rule},
};

const WRITERS: usize = 8;

pub(crate) fn asking<T: Operation>(service: &Service, id: i64, message: T) -> Request<T> {
    let mut request = service.with_grant(id, message);
    request.metadata_mut().insert(VERSION, "?".parse().unwrap());
    request
}

pub(crate) fn requiring<T: Operation>(service: &Service, id: i64, precondition: &str, message: T) -> Request<T> {
    let mut request = service.with_grant(id, message);
    request.metadata_mut().insert(PRECONDITION, precondition.parse().unwrap());
    request
}

/// Returns the precondition for the version in a response, if it has one.
pub(crate) fn told<T>(response: &Response<T>) -> Option<String> {
    let version = response.metadata().get(VERSION)?.to_str().unwrap();
    Some(format!("version={version}"))
}

pub(crate) fn is_refused<T>(outcome: Result<T, Status>) -> bool {
    outcome.is_err_and(|status| (status.code(), reason(&status).as_str()) == (Code::Aborted, "PRECONDITION_FAILED"))
}

/// Asserts that exactly one of the concurrent writers succeeded.
fn assert_one_succeeded<T>(outcomes: Vec<Result<T, Status>>) {
    let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!((done.len(), refused.len()), (1, WRITERS - 1));
    for outcome in refused {
        let status = outcome.err().unwrap();
        assert_eq!((status.code(), reason(&status).as_str()), (Code::Aborted, "PRECONDITION_FAILED"), "{status:?}");
    }
}

async fn version(service: &Service, id: i64, branch: &str, path: &str) -> Option<String> {
    let message = GetContentsRequest { repository_id: id, revision: branch.into(), path: path.into() };
    told(&service.git().get_contents(asking(service, id, message)).await.unwrap())
}

async fn put(
    service: &Service,
    precondition: &str,
    request: PutContentsRequest,
) -> Result<PutContentsResponse, Status> {
    let request = requiring(service, request.repository_id, precondition, request);
    Ok(service.git().put_contents(request).await?.into_inner())
}

fn delete(id: i64, branch: &str, path: &str) -> DeleteContentsRequest {
    DeleteContentsRequest {
        repository_id: id,
        path: path.into(),
        message: "Remove".into(),
        branch: branch.into(),
        ..DeleteContentsRequest::default()
    }
}

#[tokio::test]
async fn a_file_is_written_and_removed_only_in_the_version_that_was_read() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "dir/a", b"1").await;
    let file = |content: &[u8]| put_request(id, "dir/a", content);
    let first = version(&service, id, "", "dir/a").await.unwrap();
    // Other files and commits do not affect it.
    service.put(id, "b", b"b").await;
    assert_eq!(version(&service, id, "main", "dir/a").await.unwrap(), first);
    put(&service, &first, file(b"2")).await.unwrap();
    assert!(is_refused(put(&service, &first, file(b"3")).await));
    let second = version(&service, id, "", "dir/a").await.unwrap();
    assert_ne!(second, first);
    let remove = async |precondition: &str| {
        let request = requiring(&service, id, precondition, delete(id, "", "dir/a"));
        service.git().delete_contents(request).await
    };
    for refused in [first.as_str(), "absent", "never", "malformed"] {
        assert!(is_refused(remove(refused).await), "{refused}");
        assert!(is_refused(put(&service, refused, file(b"3")).await), "{refused}");
    }
    assert_eq!(version(&service, id, "", "dir").await, None, "a directory");
    let list = format!("{first},{}", second.trim_start_matches("version="));
    remove(&list).await.unwrap();
    assert_eq!(reason(&remove("exists").await.unwrap_err()), "PATH_NOT_FOUND");
    for refused in ["exists", &second] {
        assert!(is_refused(put(&service, refused, file(b"2")).await), "{refused}");
    }
    put(&service, "absent", file(b"2")).await.unwrap();
    assert_eq!(version(&service, id, "", "dir/a").await.unwrap(), second, "the same file");
    service.updates(id, 5).await;
}

#[tokio::test]
async fn the_version_is_that_of_the_branch_which_the_write_names() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"1").await;
    service.put(id, "b", b"b").await;
    let on =
        |branch: &str, content: &[u8]| PutContentsRequest { branch: branch.into(), ..put_request(id, "a", content) };
    let main = version(&service, id, "main", "a").await.unwrap();
    assert!(is_refused(put(&service, "absent", on("topic", b"2")).await), "starts with the files of main");
    put(&service, &main, on("topic", b"2")).await.unwrap();
    let topic = version(&service, id, "topic", "a").await.unwrap();
    assert!(is_refused(put(&service, &main, on("topic", b"3")).await));
    assert!(is_refused(put(&service, &topic, on("main", b"3")).await));
    assert!(is_refused(put(&service, &topic, on("", b"3")).await));
    put(&service, &topic, on("topic", b"3")).await.unwrap();
    let remove = async |branch: &str, precondition: &str| {
        service.git().delete_contents(requiring(&service, id, precondition, delete(id, branch, "a"))).await
    };
    assert!(is_refused(remove("topic", &main).await));
    remove("main", &main).await.unwrap();
    assert!(version(&service, id, "topic", "a").await.is_some());
}

#[tokio::test]
async fn of_writers_at_once_one_succeeds() {
    let service = Service::start().await;
    let id = service.create().await;
    let write = async |precondition: &str, path: &str| {
        // A file that already has the content is rejected for that reason.
        let content = |index| format!("{path} by {index} for {precondition}").into_bytes();
        let contents: Vec<_> = (0..WRITERS).map(content).collect();
        let writes = contents.iter().map(|content| put(&service, precondition, put_request(id, path, content)));
        assert_one_succeeded(futures_util::future::join_all(writes).await);
    };
    // Includes the first commit of the repository.
    write("absent", "first").await;
    write("absent", "second").await;
    let read = version(&service, id, "", "first").await.unwrap();
    write(&read, "first").await;
    service.updates(id, 3).await;
}

#[tokio::test]
async fn other_refusals_come_before_the_version_and_the_blob_after_it() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "dir/a", b"1").await;
    let stale = || PutContentsRequest { expected_blob_id: "1".repeat(40), ..put_request(id, "dir/a", b"2") };
    let refusal = async |precondition: &str, request| reason(&put(&service, precondition, request).await.unwrap_err());
    assert_eq!(refusal("never", put_request(id, "dir", b"2")).await, "INVALID_FIELDS");
    assert_eq!(refusal("never", PutContentsRequest { message: " ".into(), ..stale() }).await, "INVALID_FIELDS");
    assert_eq!(refusal("never", PutContentsRequest { branch: "a..b".into(), ..stale() }).await, "INVALID_FIELDS");
    assert_eq!(refusal("never", stale()).await, "PRECONDITION_FAILED");
    assert_eq!(refusal("exists", stale()).await, "STALE_BLOB");
    assert_eq!(refusal("exists", put_request(id, "dir/a", b"1")).await, "UNCHANGED_CONTENT");
    protect(&service, SetProtectionRequest { push_user_ids: vec![8], ..rule(id, "main") }).await;
    assert_eq!(refusal("never", stale()).await, "BRANCH_PROTECTED");
    let topic = PutContentsRequest { branch: "topic".into(), ..stale() };
    assert_eq!(refusal("never", topic).await, "PRECONDITION_FAILED");
    service.updates(id, 1).await;
}

#[tokio::test]
async fn a_repeat_with_its_key_does_not_look_at_the_version() {
    let service = Service::start().await;
    let id = service.create().await;
    let create = |key: &str| {
        let mut request = requiring(&service, id, "absent", put_request(id, "a", b"1"));
        request.metadata_mut().insert(IDEMPOTENCY_KEY, key.parse().unwrap());
        request
    };
    let first = service.git().put_contents(create("once")).await.unwrap().into_inner();
    assert_eq!(service.git().put_contents(create("once")).await.unwrap().into_inner(), first);
    assert!(is_refused(service.git().put_contents(create("twice")).await));
    service.updates(id, 1).await;
}

#[tokio::test]
async fn a_rule_is_replaced_and_deleted_only_in_the_version_that_was_read() {
    let service = Service::start().await;
    let id = service.create().await;
    let mut client = ProtectionServiceClient::new(service.channel());
    let set = |precondition: &str, users: &[i64]| {
        let message = SetProtectionRequest { push_user_ids: users.to_vec(), ..rule(id, "main") };
        requiring(&service, id, precondition, message)
    };
    let get = || {
        let message = GetProtectionRequest { repository_id: id, pattern: "main".into(), ..Default::default() };
        asking(&service, id, message)
    };
    let delete = |precondition: &str| {
        let message = DeleteProtectionRequest { repository_id: id, pattern: "main".into(), ..Default::default() };
        requiring(&service, id, precondition, message)
    };
    assert_eq!(reason(&client.delete_protection(delete("never")).await.unwrap_err()), "PROTECTION_NOT_FOUND");
    assert!(is_refused(client.set_protection(set("exists", &[7])).await));
    assert_eq!(reason(&client.set_protection(set("never", &[0])).await.unwrap_err()), "INVALID_FIELDS");
    assert!(client.set_protection(set("absent", &[7, 8])).await.unwrap().into_inner().is_new);
    assert!(is_refused(client.set_protection(set("absent", &[])).await));
    let first = told(&client.get_protection(get()).await.unwrap()).unwrap();
    client.set_protection(set(&first, &[8])).await.unwrap();
    assert!(is_refused(client.set_protection(set(&first, &[])).await));
    let second = client.get_protection(get()).await.unwrap();
    assert_eq!(second.get_ref().protection.as_ref().unwrap().push_user_ids, [8]);
    for refused in [first.as_str(), "absent", "never"] {
        assert!(is_refused(client.delete_protection(delete(refused)).await), "{refused}");
    }
    client.delete_protection(delete(&told(&second).unwrap())).await.unwrap();
    assert!(is_refused(client.set_protection(set(&told(&second).unwrap(), &[8])).await));
    let client = || ProtectionServiceClient::new(service.channel());
    let creators = (0..WRITERS).map(|index| {
        let request = set("absent", &[10 + i64::try_from(index).unwrap()]);
        async move { client().set_protection(request).await }
    });
    assert_one_succeeded(futures_util::future::join_all(creators).await);
}
