//! API commits that create or move files, their trailers, and the names that are refused.

use ferrite_proto::{
    ServiceRole,
    git::{
        ChangeFilesRequest, CreateContentsRequest, CreateTagRequest, DeleteContentsRequest, FileChange, FileOperation,
        PutContentsRequest, release_storage_service_client::ReleaseStorageServiceClient,
    },
    metadata,
};
use tonic::{Code, Request, Status};

use crate::{
    harness::{Service, creation, put_request, reason},
    operations::Operation,
    writes::{change, delete, file, names},
};

const SIGNED_OFF: &str = "\n\nSigned-off-by: Ada Lovelace <ada@example.com>\n";

fn create(id: i64, path: &str, content: &str) -> CreateContentsRequest {
    CreateContentsRequest {
        repository_id: id,
        path: path.into(),
        content: content.as_bytes().to_vec().into(),
        message: "Create".into(),
        ..CreateContentsRequest::default()
    }
}

fn moved(id: i64, from: &str, to: &str, content: Option<&[u8]>) -> PutContentsRequest {
    let content = content.map(|content| content.to_vec().into());
    PutContentsRequest { from_path: from.into(), content, ..put_request(id, to, b"") }
}

fn keyed<T: Operation>(service: &Service, id: i64, key: &str, message: T) -> Request<T> {
    let mut request = service.with_grant(id, message);
    request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, key.parse().unwrap());
    request
}

/// Returns the first wrong field and its code.
fn mistake(error: &Status) -> (String, String) {
    let (field, code, _) = ferrite_proto::error::violations(error).into_iter().next().unwrap_or_default();
    (field, code)
}

#[tokio::test]
async fn a_file_is_created_only_where_there_is_none() {
    let service = Service::start().await;
    let id = service.create().await;
    let request = || keyed(&service, id, "once", create(id, "dir/a", "1"));
    let made = service.git().create_contents(request()).await.unwrap().into_inner();
    let entry = made.entry.as_ref().unwrap();
    assert_eq!((&entry.path[..], entry.content.as_deref()), (&b"dir/a"[..], Some(&b"1"[..])));
    assert_eq!(service.git().create_contents(request()).await.unwrap().into_inner(), made);
    let topic = CreateContentsRequest { new_branch: "topic".into(), ..create(id, "b", "") };
    let made = service.git().create_contents(service.with_grant(id, topic.clone())).await.unwrap().into_inner();
    assert_eq!(&made.branch[..], b"topic");
    for (request, field, code) in [
        (create(id, "dir/a", "1"), "path", "taken"),
        (create(id, "dir", "1"), "path", "invalid"),
        (create(id, "../x", "1"), "path", "invalid"),
        (CreateContentsRequest { message: " ".into(), ..create(id, "c", "1") }, "message", "required"),
        (topic.clone(), "new_branch", "taken"),
        (CreateContentsRequest { new_branch: "topic/sub".into(), ..topic }, "new_branch", "taken"),
    ] {
        let error = service.git().create_contents(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!((error.code(), mistake(&error)), (Code::InvalidArgument, (field.to_owned(), code.to_owned())));
    }
    let wrong = service.with_grant(id, put_request(id, "c", b"c")).map(|_| create(id, "c", "c"));
    assert_eq!(reason(&service.git().create_contents(wrong).await.unwrap_err()), "BAD_GRANT");
    service.updates(id, 2).await;
}

#[tokio::test]
async fn a_file_is_moved_in_one_commit() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"one").await;
    let parent = service.put(id, "b", b"b").await;
    let request = || keyed(&service, id, "move", moved(id, "a", "dir/a", None));
    let made = service.git().put_contents(request()).await.unwrap().into_inner();
    let entry = made.entry.as_ref().unwrap();
    assert_eq!((&entry.path[..], entry.content.as_deref()), (&b"dir/a"[..], Some(&b"one"[..])));
    assert_eq!(made.commit.as_ref().unwrap().parent_ids, [parent]);
    assert_eq!(service.git().put_contents(request()).await.unwrap().into_inner(), made);
    let named = PutContentsRequest { expected_blob_id: entry.id.clone(), ..moved(id, "dir/a", "c", Some(b"two")) };
    let made = service.git().put_contents(service.with_grant(id, named)).await.unwrap().into_inner();
    assert_eq!(made.entry.unwrap().content.as_deref(), Some(&b"two"[..]));
    // The path of the file itself moves nothing.
    let same = moved(id, "c", "c", Some(b"three"));
    service.git().put_contents(service.with_grant(id, same)).await.unwrap();
    assert_eq!(names(&service, id, "").await, ["b", "c"]);
    for (request, field, code) in [
        (moved(id, "c", "c", None), "content", "required"),
        (moved(id, "c", "b", None), "path", "taken"),
        (moved(id, "none", "d", None), "from_path", "invalid"),
        (moved(id, "../c", "d", None), "from_path", "invalid"),
    ] {
        let error = service.git().put_contents(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!((error.code(), mistake(&error)), (Code::InvalidArgument, (field.to_owned(), code.to_owned())));
    }
    let stale = PutContentsRequest { expected_blob_id: "1".repeat(40), ..moved(id, "c", "d", None) };
    let error = service.git().put_contents(service.with_grant(id, stale)).await.unwrap_err();
    assert_eq!(reason(&error), "STALE_BLOB");
    // A content that is empty may be absent.
    let empty = PutContentsRequest { content: None, ..put_request(id, "empty", b"") };
    let made = service.git().put_contents(service.with_grant(id, empty)).await.unwrap().into_inner();
    assert_eq!(made.entry.unwrap().content.as_deref(), Some(&b""[..]));
    service.updates(id, 6).await;
}

#[tokio::test]
async fn every_operation_with_a_content_can_move_a_file() {
    let service = Service::start().await;
    let id = service.create().await;
    let from = |from: &str, change: FileChange| FileChange { from_path: from.into(), ..change };
    let first = ["a", "b", "c", "d", "e"].map(|path| file(path, FileOperation::Upload, Some(path)));
    service.git().change_files(service.with_grant(id, change(id, first.to_vec()))).await.unwrap();
    let files = vec![
        from("a", file("a2", FileOperation::Create, Some("new"))),
        from("b", file("b2", FileOperation::Update, Some("new"))),
        from("c", file("c2", FileOperation::Upload, Some("new"))),
        // Clients send an empty content for want of one.
        from("d", file("d2", FileOperation::Rename, Some(""))),
        from("e", file("e", FileOperation::Upload, Some("new"))),
        file("f", FileOperation::Upload, Some("new")),
    ];
    let made = service.git().change_files(service.with_grant(id, change(id, files))).await.unwrap().into_inner();
    assert_eq!(names(&service, id, "").await, ["a2", "b2", "c2", "d2", "e", "f"]);
    assert_eq!(made.entries.iter().map(|entry| entry.size_bytes).collect::<Vec<_>>(), [3, 3, 3, 1, 3, 3]);
    let gone = vec![file("f", FileOperation::Delete, Some(""))];
    service.git().change_files(service.with_grant(id, change(id, gone))).await.unwrap();
    let stale = FileChange { expected_blob_id: "1".repeat(40), ..file("e", FileOperation::Upload, Some("x")) };
    for (change_of_file, code, name) in [
        (file("x", FileOperation::Rename, None), Code::InvalidArgument, "files[0].from_path"),
        (from("e", file("e", FileOperation::Rename, None)), Code::InvalidArgument, "files[0].from_path"),
        (from("e", file("x", FileOperation::Rename, Some("x"))), Code::InvalidArgument, "files[0].content"),
        (from("e", file("x", FileOperation::Update, None)), Code::InvalidArgument, "files[0].content"),
        (from("e", file("a2", FileOperation::Upload, Some("x"))), Code::InvalidArgument, "files[0].path"),
        (from("none", file("x", FileOperation::Create, Some("x"))), Code::InvalidArgument, "files[0].from_path"),
        (from("e", file("a2", FileOperation::Delete, None)), Code::InvalidArgument, "files[0].from_path"),
        (file("e", FileOperation::Delete, Some("x")), Code::InvalidArgument, "files[0].content"),
        (file("x", FileOperation::Upload, None), Code::InvalidArgument, "files[0].content"),
        (stale, Code::Aborted, "files[0].sha"),
    ] {
        let request = service.with_grant(id, change(id, vec![change_of_file.clone()]));
        let error = service.git().change_files(request).await.unwrap_err();
        assert_eq!((error.code(), mistake(&error).0.as_str()), (code, name), "{change_of_file:?}");
    }
    service.updates(id, 3).await;
}

#[tokio::test]
async fn every_commit_can_be_signed_off() {
    let service = Service::start().await;
    let id = service.create().await;
    let created = CreateContentsRequest { signoff: true, ..create(id, "a", "1") };
    let created = service.git().create_contents(service.with_grant(id, created)).await.unwrap().into_inner();
    let put = PutContentsRequest { signoff: true, ..put_request(id, "b", b"1") };
    let put = service.git().put_contents(service.with_grant(id, put)).await.unwrap().into_inner();
    let deleted = DeleteContentsRequest { signoff: true, ..delete(id, "a") };
    let deleted = service.git().delete_contents(service.with_grant(id, deleted)).await.unwrap().into_inner();
    let files = vec![file("c", FileOperation::Create, Some("c"))];
    let changed = ChangeFilesRequest { signoff: true, ..change(id, files) };
    let changed = service.git().change_files(service.with_grant(id, changed)).await.unwrap().into_inner();
    for (commit, message) in
        [(created.commit, "Create"), (put.commit, "Write b"), (deleted.commit, "Remove"), (changed.commit, "Change")]
    {
        assert_eq!(String::from_utf8(commit.unwrap().message).unwrap(), format!("{message}{SIGNED_OFF}"));
    }
}

#[tokio::test]
async fn names_with_bidirectional_characters_are_not_created() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"a").await;
    let odd = "a\u{202e}b";
    let new_branch = CreateContentsRequest { new_branch: odd.into(), ..create(id, "b", "b") };
    let branch = CreateContentsRequest { branch: odd.into(), ..create(id, "b", "b") };
    for (request, field) in [(create(id, odd, "b"), "path"), (new_branch, "new_branch"), (branch, "branch")] {
        let error = service.git().create_contents(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!((error.code(), mistake(&error).0.as_str()), (Code::InvalidArgument, field));
    }
    let mut releases = ReleaseStorageServiceClient::new(service.channel_of(ServiceRole::RepoSvc));
    let tag = CreateTagRequest {
        repository_id: id,
        tag_name: odd.into(),
        target: "main".into(),
        user_id: 7,
        ..CreateTagRequest::default()
    };
    assert_eq!(mistake(&releases.create_tag(tag).await.unwrap_err()).0, "tag_name");
    let mut repository = creation(id + 1000);
    repository.default_branch = odd.into();
    assert_eq!(mistake(&service.storage().create_repository(repository).await.unwrap_err()).0, "default_branch");
    let message = CreateContentsRequest { message: "\u{202b}\u{202c}".into(), ..create(id, "b", "b") };
    service.git().create_contents(service.with_grant(id, message)).await.unwrap();
    service.updates(id, 2).await;
}
