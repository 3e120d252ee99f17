//! RPCs of repositories, files and branches, over a real socket.

use ferrite_proto::{
    events::{DeliverRequest, Event, RefsUpdateKind, RepositoryDeleted, event::Fact},
    git::{
        CreateRepositoryRequest, DeleteRepositoryRequest, EntryKind, FirstCommit, GetBranchRequest, GetCommitRequest,
        GetContentsRequest, ListBranchesRequest, Signature, get_contents_response::Contents,
    },
    metadata,
};
use tonic::Code;

use crate::harness::{Service, creation, put_request, reason};

fn contents(id: i64, path: &str) -> GetContentsRequest {
    GetContentsRequest { repository_id: id, revision: Vec::new(), path: path.as_bytes().to_vec() }
}

fn first_commit() -> FirstCommit {
    FirstCommit {
        author: Some(Signature { name: "Ada".into(), email: "ada@example.com".into() }),
        gitignores: vec!["Rust".into()],
        license: "MIT License".into(),
        readme: String::new(),
        repository_name: "demo".into(),
        repository_description: "A demonstration".into(),
        clone_url_http: "http://localhost/ada/demo.git".into(),
        clone_url_ssh: String::new(),
        user_id: 7,
    }
}

#[tokio::test]
async fn a_repository_comes_with_its_first_commit_and_one_event() {
    let service = Service::start().await;
    let request = CreateRepositoryRequest { first_commit: Some(first_commit()), ..creation(5) };
    let made = service.storage().create_repository(request.clone()).await.unwrap().into_inner();
    assert!(!made.is_empty && made.size_bytes > 0);
    let again = service.storage().create_repository(request).await.unwrap().into_inner();
    assert!(!again.is_empty);
    let updates = service.updates(5, 1).await;
    assert_eq!((updates[0].kind(), updates[0].number, updates[0].user_id), (RefsUpdateKind::Init, 1, 7));
    assert_eq!(updates[0].default_branch, b"main");
    let found = service.git().get_contents(service.with_grant(5, contents(5, ""))).await.unwrap().into_inner();
    let Some(Contents::Directory(directory)) = found.contents else { panic!("{found:?}") };
    let names: Vec<_> = directory.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name)).collect();
    assert_eq!(names, [".gitignore", "LICENSE", "README.md"]);
}

#[tokio::test]
async fn a_copy_is_told_like_a_first_commit_and_is_made_once() {
    let service = Service::start().await;
    let source = service.create().await;
    let commit = service.put(source, "a.txt", b"a").await;
    let request = CreateRepositoryRequest { source_repository_id: source, user_id: 7, ..creation(50) };
    let made = service.storage().create_repository(request.clone()).await.unwrap().into_inner();
    assert!(!made.is_empty && made.size_bytes > 0);
    let updates = service.updates(50, 1).await;
    assert_eq!((updates[0].kind(), updates[0].number, updates[0].user_id), (RefsUpdateKind::Init, 1, 7));
    assert_eq!((updates[0].updates[0].new_id.as_str(), updates[0].size_bytes), (commit.as_str(), made.size_bytes));
    service.put(50, "b.txt", b"b").await;
    assert!(
        service.storage().create_repository(request.clone()).await.unwrap().into_inner().size_bytes > made.size_bytes
    );
    let found = service.git().get_contents(service.with_grant(source, contents(source, "b.txt"))).await.unwrap_err();
    assert_eq!(reason(&found), "PATH_NOT_FOUND");

    let missing = CreateRepositoryRequest { source_repository_id: 999, ..creation(51) };
    assert_eq!(reason(&service.storage().create_repository(missing).await.unwrap_err()), "REPOSITORY_NOT_FOUND");
    let both = CreateRepositoryRequest { first_commit: Some(first_commit()), ..request };
    assert_eq!(service.storage().create_repository(both).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn bad_creations_name_their_field_and_make_nothing() {
    let service = Service::start().await;
    let mut unknown = creation(6);
    unknown.first_commit = Some(FirstCommit { license: "No Such License".into(), ..first_commit() });
    let mut branch = creation(6);
    branch.default_branch = "-x".into();
    for (request, field) in [(unknown, "license"), (branch, "default_branch"), (creation(0), "repository_id")] {
        let error = service.storage().create_repository(request).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(ferrite_proto::error::violations(&error)[0].0, field);
    }
    let mut store = creation(6);
    store.store = "s2".into();
    let error = service.storage().create_repository(store).await.unwrap_err();
    assert_eq!(reason(&error), "WRONG_STORE");
    let error = service.git().list_branches(service.with_grant(6, list(6))).await.unwrap_err();
    assert_eq!(reason(&error), "REPOSITORY_NOT_FOUND");
}

fn list(id: i64) -> ListBranchesRequest {
    ListBranchesRequest { repository_id: id, page: 1, page_size: 10 }
}

#[tokio::test]
async fn a_written_file_is_read_back_and_sends_an_event() {
    let service = Service::start().await;
    let id = service.create().await;
    let one = service.put(id, "src/one.txt", b"one\n").await;
    let mut second = put_request(id, "src/two.txt", b"two\n");
    second.branch = "feature/x".into();
    let two = service.git().put_contents(service.with_grant(id, second)).await.unwrap().into_inner();
    assert_eq!(two.branch, b"feature/x");

    let branches = service.git().list_branches(service.with_grant(id, list(id))).await.unwrap().into_inner();
    let names: Vec<_> = branches.branches.iter().map(|branch| String::from_utf8_lossy(&branch.name)).collect();
    assert_eq!((names, branches.total_count), (vec!["feature/x".into(), "main".into()], 2));
    let branch = GetBranchRequest { repository_id: id, name: b"main".to_vec() };
    let branch = service.git().get_branch(service.with_grant(id, branch)).await.unwrap().into_inner().branch.unwrap();
    assert_eq!(branch.commit.unwrap().id, one);
    let revision = GetCommitRequest { repository_id: id, revision: b"feature/x".to_vec(), ..Default::default() };
    let commit = service.git().get_commit(service.with_grant(id, revision)).await.unwrap().into_inner().commit.unwrap();
    assert_eq!((&commit.parent_ids, commit.author.unwrap().name), (&vec![one.clone()], b"Ada Lovelace".to_vec()));
    let file =
        service.git().get_contents(service.with_grant(id, contents(id, "src/one.txt"))).await.unwrap().into_inner();
    let Some(Contents::Entry(entry)) = file.contents else { panic!("{file:?}") };
    assert_eq!((entry.kind(), entry.content.as_deref()), (EntryKind::File, Some(&b"one\n"[..])));
    assert_eq!((file.commit_id, file.display_ref), (one.clone(), b"main".to_vec()));

    let updates = service.updates(id, 2).await;
    assert_eq!(updates.iter().map(|update| update.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((updates[0].kind(), updates[0].updates[0].new_id.as_str()), (RefsUpdateKind::Api, one.as_str()));
    assert_eq!(updates[1].updates[0].old_id, "0".repeat(40));
}

#[tokio::test]
async fn refused_writes_name_the_field() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a.txt", b"a").await;
    let put = |path: &str| put_request(id, path, b"b");
    let mut bad_branch = put("a.txt");
    bad_branch.branch = "a..b".into();
    let mut bad_sha = put("a.txt");
    bad_sha.expected_blob_id = "abc".into();
    let mut stale = put("a.txt");
    stale.expected_blob_id = "1".repeat(40);
    let cases = [
        (put("../x"), "path", Code::InvalidArgument),
        (put(".git/config"), "path", Code::InvalidArgument),
        (put("a.txt/b"), "path", Code::InvalidArgument),
        (put(""), "path", Code::InvalidArgument),
        (bad_branch, "branch", Code::InvalidArgument),
        (bad_sha, "sha", Code::InvalidArgument),
        (stale, "sha", Code::Aborted),
        (put_request(id, "a.txt", b"a"), "content", Code::FailedPrecondition),
    ];
    for (request, field, code) in cases {
        let error = service.git().put_contents(service.with_grant(id, request.clone())).await.unwrap_err();
        assert_eq!(
            (error.code(), ferrite_proto::error::violations(&error)[0].0.as_str()),
            (code, field),
            "{request:?}"
        );
    }
    for request in [ListBranchesRequest { page: 0, ..list(id) }, ListBranchesRequest { page_size: 1001, ..list(id) }] {
        let error = service.git().list_branches(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    service.updates(id, 1).await;
}

#[tokio::test]
async fn a_write_with_a_key_happens_once() {
    let service = Service::start().await;
    let id = service.create().await;
    let request = || {
        let mut request = service.with_grant(id, put_request(id, "a.txt", b"a"));
        request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, "once".parse().unwrap());
        request
    };
    let (mut one, mut two) = (service.git(), service.git());
    let (first, second) = tokio::join!(one.put_contents(request()), two.put_contents(request()));
    assert_eq!(first.unwrap().into_inner(), second.unwrap().into_inner());
    service.updates(id, 1).await;
    let mut other = service.with_grant(id, put_request(id, "b.txt", b"b"));
    other.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, "once".parse().unwrap());
    let error = service.git().put_contents(other).await.unwrap_err();
    assert_eq!(reason(&error), "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn many_writes_at_once_are_all_kept() {
    let service = Service::start().await;
    let id = service.create().await;
    let writes = (0..12).map(|index| {
        let service = &service;
        async move { service.put(id, &format!("f{index}.txt"), b"x").await }
    });
    futures_util::future::join_all(writes).await;
    let updates = service.updates(id, 12).await;
    assert_eq!(updates.iter().map(|update| update.number).collect::<Vec<_>>(), (1..=12).collect::<Vec<_>>());
    let found = service.git().get_contents(service.with_grant(id, contents(id, ""))).await.unwrap().into_inner();
    let Some(Contents::Directory(directory)) = found.contents else { panic!("{found:?}") };
    assert_eq!(directory.entries.len(), 12);
}

#[tokio::test]
async fn a_deleted_repository_is_not_found_by_any_call() {
    let service = Service::start().await;
    let (one, two) = (service.create().await, service.create().await);
    for id in [one, two] {
        service.put(id, "a.txt", b"a").await;
    }
    let request = DeleteRepositoryRequest { repository_id: one };
    service.storage().delete_repository(request).await.unwrap();
    service.storage().delete_repository(request).await.unwrap();
    let event = Event {
        event_id: "4f9d0c1e-0000-4000-8000-000000000001".into(),
        repository_id: two,
        fact: Some(Fact::RepositoryDeleted(RepositoryDeleted::default())),
        ..Event::default()
    };
    for _ in 0..2 {
        service.sink().deliver(DeliverRequest { events: vec![event.clone()], ..Default::default() }).await.unwrap();
    }
    for id in [one, two] {
        let error = service.git().list_branches(service.with_grant(id, list(id))).await.unwrap_err();
        assert_eq!(reason(&error), "REPOSITORY_NOT_FOUND");
        let error = service.git().put_contents(service.with_grant(id, put_request(id, "b", b"b"))).await.unwrap_err();
        assert_eq!(reason(&error), "REPOSITORY_NOT_FOUND");
        let error = service.storage().create_repository(creation(id)).await.unwrap_err();
        assert_eq!(reason(&error), "WRONG_STORE");
    }
    let unknown = Event { event_id: "x".into(), fact: None, ..event };
    let error =
        service.sink().deliver(DeliverRequest { events: vec![unknown], ..Default::default() }).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_restart_is_quick_and_loses_nothing() {
    let mut service = Service::start().await;
    let id = service.create().await;
    let commit = service.put(id, "a.txt", b"a").await;
    let took = service.stop().await;
    assert!(took < std::time::Duration::from_secs(15), "{took:?}");
    service.launch().await;
    let revision = GetCommitRequest { repository_id: id, revision: b"main".to_vec(), ..Default::default() };
    let found = service.git().get_commit(service.with_grant(id, revision)).await.unwrap().into_inner();
    assert_eq!(found.commit.unwrap().id, commit);
    service.put(id, "b.txt", b"b").await;
    assert_eq!(service.updates(id, 2).await[1].number, 2);
}
