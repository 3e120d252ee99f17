//! API commits: deletions, several files, authors, and protection rules.

use ferrite_core::timestamp;
use ferrite_proto::{
    ServiceRole,
    git::{
        ChangeFilesRequest, CommitIdentity, CreateTagRequest, DeleteContentsRequest, DeleteProtectionRequest,
        FileChange, FileOperation, GetBranchRequest, GetContentsRequest, GetProtectionRequest, ListBranchesRequest,
        ListProtectionsRequest, Protection, PutContentsRequest, SetProtectionRequest, get_contents_response::Contents,
        protection_service_client::ProtectionServiceClient,
        release_storage_service_client::ReleaseStorageServiceClient,
    },
    grant::{ByteQuota, Grant, GrantLimits},
    metadata,
    operation::{CHANGE_FILES, DELETE_CONTENTS, LIST_PROTECTIONS, PUT_CONTENTS, SET_PROTECTION},
};
use tonic::{Code, Request};

use crate::{
    harness::{Service, now, put_request, reason, with_token},
    operations::Operation,
    push::git,
};

pub(crate) fn delete(id: i64, path: &str) -> DeleteContentsRequest {
    DeleteContentsRequest {
        repository_id: id,
        path: path.into(),
        message: "Remove".into(),
        ..DeleteContentsRequest::default()
    }
}

pub(crate) fn file(path: &str, operation: FileOperation, content: Option<&str>) -> FileChange {
    FileChange {
        path: path.into(),
        operation: operation.into(),
        content: content.map(|content| content.as_bytes().to_vec().into()),
        ..FileChange::default()
    }
}

pub(crate) fn change(id: i64, files: Vec<FileChange>) -> ChangeFilesRequest {
    ChangeFilesRequest { repository_id: id, message: "Change".into(), files, ..ChangeFilesRequest::default() }
}

pub(crate) fn rule(id: i64, pattern: &str) -> SetProtectionRequest {
    SetProtectionRequest { repository_id: id, pattern: pattern.into(), ..SetProtectionRequest::default() }
}

pub(crate) async fn protect(service: &Service, request: SetProtectionRequest) -> Protection {
    let id = request.repository_id;
    let mut client = ProtectionServiceClient::new(service.channel());
    client.set_protection(service.with_grant(id, request)).await.unwrap().into_inner().protection.unwrap()
}

pub(crate) async fn names(service: &Service, id: i64, revision: &str) -> Vec<String> {
    let request = GetContentsRequest { repository_id: id, revision: revision.into(), path: Vec::new() };
    let found = service.git().get_contents(service.with_grant(id, request)).await.unwrap().into_inner();
    let Some(Contents::Directory(directory)) = found.contents else { panic!("{found:?}") };
    directory.entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
}

fn field(error: &tonic::Status) -> String {
    ferrite_proto::error::violations(error).first().map(|(field, ..)| field.clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_file_is_removed_with_one_event() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "dir/a.txt", b"a").await;
    let parent = service.put(id, "b.txt", b"b").await;
    let stale = DeleteContentsRequest { expected_blob_id: "1".repeat(40), ..delete(id, "b.txt") };
    for (request, code, wanted) in [
        (delete(id, "none"), Code::NotFound, "PATH_NOT_FOUND"),
        (delete(id, "dir"), Code::InvalidArgument, "INVALID_FIELDS"),
        (delete(id, "../x"), Code::InvalidArgument, "INVALID_FIELDS"),
        (delete(id, ".git/config"), Code::InvalidArgument, "INVALID_FIELDS"),
        (stale, Code::Aborted, "STALE_BLOB"),
    ] {
        let error = service.git().delete_contents(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_str()), (code, wanted));
    }
    let request = || {
        let mut request = service.with_grant(id, delete(id, "dir/a.txt"));
        request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, "once".parse().unwrap());
        request
    };
    let gone = service.git().delete_contents(request()).await.unwrap().into_inner();
    assert_eq!(gone, service.git().delete_contents(request()).await.unwrap().into_inner());
    assert_eq!((gone.branch, gone.commit.unwrap().parent_ids), (b"main".to_vec(), vec![parent]));
    assert_eq!(names(&service, id, "").await, ["b.txt"]);
    service.updates(id, 3).await;
}

#[tokio::test]
async fn a_small_file_is_in_the_response_also_of_a_repeated_request() {
    let service = Service::start().await;
    let id = service.create().await;
    for (path, bytes, is_inline) in [("empty", 0, true), ("small", 1 << 20, true), ("large", (1 << 20) + 1, false)] {
        let content = vec![b'x'; bytes];
        let request = || {
            let mut request = service.with_grant(id, put_request(id, path, &content));
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, path.parse().unwrap());
            request
        };
        let made = service.git().put_contents(request()).await.unwrap().into_inner();
        assert_eq!(made.entry.as_ref().unwrap().content.as_deref(), is_inline.then_some(&content[..]), "{path}");
        assert_eq!(made, service.git().put_contents(request()).await.unwrap().into_inner());
    }
    service.updates(id, 3).await;
}

#[tokio::test]
async fn several_files_change_together_or_not_at_all() {
    let service = Service::start().await;
    let id = service.create().await;
    let files = ["a", "b"].map(|path| file(path, FileOperation::Create, Some(path)));
    let made = service.git().change_files(service.with_grant(id, change(id, files.to_vec()))).await.unwrap();
    let made = made.into_inner();
    assert_eq!((made.entries.len(), &made.branch[..]), (2, &b"main"[..]));
    let mut moved = file("sub/a", FileOperation::Move, None);
    moved.from_path = b"a".to_vec();
    moved.expected_blob_id = made.entries[0].id.clone();
    let next = vec![moved.clone(), file("b", FileOperation::Delete, None), file("", FileOperation::Create, Some(""))];
    let error = service.git().change_files(service.with_grant(id, change(id, next.clone()))).await.unwrap_err();
    assert_eq!((error.code(), field(&error).as_str()), (Code::InvalidArgument, "files[2].path"));
    let next = ChangeFilesRequest { new_branch: "topic".into(), ..change(id, next[..2].to_vec()) };
    let request = || {
        let mut request = service.with_grant(id, next.clone());
        request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, "once".parse().unwrap());
        request
    };
    let topic = service.git().change_files(request()).await.unwrap().into_inner();
    assert_eq!(topic, service.git().change_files(request()).await.unwrap().into_inner());
    assert_eq!(topic.commit.unwrap().parent_ids, [made.commit.unwrap().id]);
    assert_eq!((names(&service, id, "topic").await, names(&service, id, "main").await.len()), (vec!["sub".into()], 2));
    moved.expected_blob_id = "1".repeat(40);
    let cases = [
        (change(id, vec![]), Code::InvalidArgument, "files"),
        (change(id, vec![moved]), Code::Aborted, "files[0].sha"),
        (change(id, vec![file("a", FileOperation::Update, Some("a"))]), Code::FailedPrecondition, "content"),
        (change(id, vec![file("a", FileOperation::Update, None)]), Code::InvalidArgument, "files[0].content"),
        (change(id, vec![file("a", FileOperation::Unspecified, None)]), Code::InvalidArgument, "files[0].operation"),
        (ChangeFilesRequest { new_branch: "a..b".into(), ..next.clone() }, Code::InvalidArgument, "new_branch"),
        (next.clone(), Code::InvalidArgument, "new_branch"),
        (ChangeFilesRequest { new_branch: "topic/sub".into(), ..next.clone() }, Code::InvalidArgument, "new_branch"),
    ];
    for (request, code, name) in cases {
        let error = service.git().change_files(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!((error.code(), field(&error).as_str()), (code, name), "{error}");
    }
    service.updates(id, 2).await;
}

#[tokio::test]
async fn one_file_may_begin_a_branch() {
    let service = Service::start().await;
    let id = service.create().await;
    let base = service.put(id, "a", b"a").await;
    let topic = PutContentsRequest { new_branch: "topic".into(), ..put_request(id, "b", b"b") };
    let made = service.git().put_contents(service.with_grant(id, topic.clone())).await.unwrap().into_inner();
    let commit = made.commit.unwrap();
    assert_eq!((&made.branch[..], &commit.parent_ids[..]), (&b"topic"[..], &[base][..]));
    let gone = DeleteContentsRequest { branch: "topic".into(), new_branch: "gone".into(), ..delete(id, "a") };
    let removed = service.git().delete_contents(service.with_grant(id, gone.clone())).await.unwrap().into_inner();
    assert_eq!((&removed.branch[..], &removed.commit.unwrap().parent_ids[..]), (&b"gone"[..], &[commit.id][..]));
    for (branch, expected) in [("main", &["a"][..]), ("topic", &["a", "b"][..]), ("gone", &["b"][..])] {
        assert_eq!(names(&service, id, branch).await, expected, "{branch}");
    }
    for new_branch in ["topic", "gone", "topic/sub", "a..b"] {
        let put = PutContentsRequest { new_branch: new_branch.into(), ..topic.clone() };
        let refused = service.git().put_contents(service.with_grant(id, put)).await.unwrap_err();
        let delete = DeleteContentsRequest { new_branch: new_branch.into(), ..gone.clone() };
        let other = service.git().delete_contents(service.with_grant(id, delete)).await.unwrap_err();
        assert_eq!((refused.code(), field(&refused).as_str()), (Code::InvalidArgument, "new_branch"), "{new_branch}");
        assert_eq!((other.code(), field(&other).as_str()), (Code::InvalidArgument, "new_branch"), "{new_branch}");
    }
    let absent = PutContentsRequest { branch: "absent".into(), new_branch: "x".into(), ..topic };
    let refused = service.git().put_contents(service.with_grant(id, absent)).await.unwrap_err();
    assert_eq!(reason(&refused), "BRANCH_NOT_FOUND");
    service.updates(id, 3).await;
}

#[tokio::test]
async fn author_and_committer_may_be_given() {
    let service = Service::start().await;
    let id = service.create().await;
    let grace = CommitIdentity {
        name: "Grace".into(),
        email: "grace@example.com".into(),
        date: Some(prost_types::Timestamp { seconds: 86_400, nanos: 0 }),
        date_offset_minutes: -210,
    };
    let put = PutContentsRequest { author: Some(grace.clone()), ..put_request(id, "a", b"a") };
    let made = service.git().put_contents(service.with_grant(id, put)).await.unwrap().into_inner().commit.unwrap();
    let (author, committer) = (made.author.unwrap(), made.committer.unwrap());
    assert_eq!((&author.name[..], author.time.unwrap().seconds), (&b"Grace"[..], 86_400));
    assert!(committer.name == b"Ada Lovelace" && committer.time.unwrap().seconds > 86_400);
    let stored = git(service.on_disk(id).path(), &["cat-file", "commit", &made.id]).await;
    assert!(stored.contains("author Grace <grace@example.com> 86400 -0330\n"), "{stored}");
    let date = Some(prost_types::Timestamp { seconds: -1, nanos: 0 });
    for (identity, name) in [
        (CommitIdentity { name: "a\nb".into(), ..grace.clone() }, "committer.name"),
        (CommitIdentity { name: "a\u{202e}b".into(), ..grace.clone() }, "committer.name"),
        (CommitIdentity { email: "a>b".into(), ..grace.clone() }, "committer.email"),
        (CommitIdentity { email: String::new(), ..grace.clone() }, "committer.email"),
        (CommitIdentity { date, ..grace.clone() }, "committer.date"),
        (CommitIdentity { date, ..CommitIdentity::default() }, "committer.date"),
        (CommitIdentity { date_offset_minutes: 1440, ..grace.clone() }, "committer.date"),
        (CommitIdentity { date_offset_minutes: -1440, ..grace.clone() }, "committer.date"),
    ] {
        let put = PutContentsRequest { committer: Some(identity), ..put_request(id, "b", b"b") };
        let error = service.git().put_contents(service.with_grant(id, put)).await.unwrap_err();
        assert_eq!((error.code(), field(&error).as_str()), (Code::InvalidArgument, name));
    }
}

fn as_user<T: Operation>(service: &Service, id: i64, user: i64, message: T) -> Request<T> {
    let mut grant: Grant = service.grant(id, T::OPERATION);
    grant.user.as_mut().unwrap().id = user;
    with_token(message, &service.sign(grant))
}

#[tokio::test]
async fn rules_are_kept_by_pattern_and_shown_with_branches() {
    let service = Service::start().await;
    let (id, other) = (service.create().await, service.create().await);
    service.put(id, "a", b"a").await;
    let main = protect(&service, SetProtectionRequest { push_user_ids: vec![9, 8, 9], ..rule(id, "main") }).await;
    assert_eq!((main.push_user_ids.as_slice(), main.allow_force, main.allow_delete), (&[8, 9][..], false, false));
    let star = protect(&service, rule(id, "release/*")).await;
    let mut client = ProtectionServiceClient::new(service.channel());
    let again = SetProtectionRequest { allow_force: true, push_user_ids: vec![7], ..rule(id, "main") };
    let again = client.set_protection(service.with_grant(id, again)).await.unwrap().into_inner();
    assert!(!again.is_new);
    let again = again.protection.unwrap();
    assert_eq!((again.id, again.created_time), (main.id, main.created_time));
    let list = ListProtectionsRequest { repository_id: id };
    let listed = client.list_protections(service.with_grant(id, list)).await.unwrap().into_inner().protections;
    assert_eq!(listed, [again.clone(), star]);
    let get = GetProtectionRequest { repository_id: id, protection_id: main.id, ..Default::default() };
    let found = client.get_protection(service.with_grant(id, get)).await.unwrap().into_inner();
    assert_eq!(found.protection, Some(again.clone()));
    let get = GetProtectionRequest { repository_id: id, pattern: "main".into(), ..Default::default() };
    let found = client.get_protection(service.with_grant(id, get)).await.unwrap().into_inner();
    assert_eq!(found.protection, Some(again));
    let foreign = GetProtectionRequest { repository_id: other, protection_id: main.id, ..Default::default() };
    let error = client.get_protection(service.with_grant(other, foreign)).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::NotFound, "PROTECTION_NOT_FOUND"));

    let put = PutContentsRequest { branch: "free".into(), ..put_request(id, "b", b"b") };
    service.git().put_contents(service.with_grant(id, put)).await.unwrap();
    let list = ListBranchesRequest { repository_id: id, page: 1, page_size: 10 };
    let branches = service.git().list_branches(service.with_grant(id, list)).await.unwrap().into_inner().branches;
    assert_eq!(branches.iter().map(|branch| branch.is_protected).collect::<Vec<_>>(), [false, true]);
    let get = GetBranchRequest { repository_id: id, name: b"main".to_vec() };
    let branch = service.git().get_branch(service.with_grant(id, get)).await.unwrap().into_inner().branch.unwrap();
    assert!(branch.is_protected);

    let remove = DeleteProtectionRequest { repository_id: other, protection_id: main.id, ..Default::default() };
    let error = client.delete_protection(service.with_grant(other, remove)).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    let remove = DeleteProtectionRequest { repository_id: id, protection_id: main.id, ..Default::default() };
    client.delete_protection(service.with_grant(id, remove)).await.unwrap();
    let remove = DeleteProtectionRequest { repository_id: id, pattern: "main".into(), ..Default::default() };
    let error = client.delete_protection(service.with_grant(id, remove)).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "deleted");
    for (request, name) in [
        (rule(id, "refs/heads/main"), "pattern"),
        (rule(id, ""), "pattern"),
        (SetProtectionRequest { push_user_ids: vec![0], ..rule(id, "x") }, "push_user_ids"),
        (SetProtectionRequest { push_user_ids: (1..=101).collect(), ..rule(id, "x") }, "push_user_ids"),
    ] {
        let error = client.set_protection(service.with_grant(id, request)).await.unwrap_err();
        assert_eq!((error.code(), field(&error).as_str()), (Code::InvalidArgument, name));
    }
    for index in 0..49 {
        protect(&service, rule(id, &format!("r{index}"))).await;
    }
    let error = client.set_protection(service.with_grant(id, rule(id, "one-more"))).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::FailedPrecondition, "TOO_MANY_PROTECTIONS"));
    let wrong = with_token(rule(id, "x"), &service.sign(service.grant(id, LIST_PROTECTIONS)));
    assert_eq!(reason(&client.set_protection(wrong).await.unwrap_err()), "BAD_GRANT");
}

#[tokio::test]
async fn commits_by_api_follow_protection_rules() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"a").await;
    protect(&service, SetProtectionRequest { push_user_ids: vec![8], ..rule(id, "main") }).await;
    let put = put_request(id, "b", b"b");
    let files = vec![file("b", FileOperation::Create, Some("b"))];
    let errors = [
        service.git().put_contents(service.with_grant(id, put.clone())).await.unwrap_err(),
        service.git().delete_contents(service.with_grant(id, delete(id, "a"))).await.unwrap_err(),
        service.git().change_files(service.with_grant(id, change(id, files.clone()))).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!((error.code(), reason(&error).as_str()), (Code::PermissionDenied, "BRANCH_PROTECTED"));
    }
    let topic = ChangeFilesRequest { new_branch: "topic".into(), ..change(id, files) };
    service.git().change_files(service.with_grant(id, topic)).await.unwrap();
    service.git().put_contents(as_user(&service, id, 8, put)).await.unwrap();
    let owner = Grant { permission: ferrite_proto::Permission::Owner, ..service.grant(id, DELETE_CONTENTS) };
    service.git().delete_contents(with_token(delete(id, "a"), &service.sign(owner))).await.unwrap();
    service.updates(id, 4).await;
}

#[tokio::test]
async fn a_grant_for_one_write_is_refused_for_another() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"a").await;
    for operation in [PUT_CONTENTS, CHANGE_FILES, SET_PROTECTION] {
        let token = service.sign(service.grant(id, operation));
        let error = service.git().delete_contents(with_token(delete(id, "a"), &token)).await.unwrap_err();
        assert_eq!(reason(&error), "BAD_GRANT", "{operation}");
    }
    let mirror = service.sign(Grant { is_mirror: true, ..service.grant(id, DELETE_CONTENTS) });
    let error = service.git().delete_contents(with_token(delete(id, "a"), &mirror)).await.unwrap_err();
    assert_eq!(reason(&error), "MIRROR_READ_ONLY");
}

#[tokio::test]
async fn a_write_beyond_the_quota_of_the_owner_changes_nothing() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"a").await;
    let limits = |used, limit| GrantLimits { bytes: Some(ByteQuota { used, limit }), ..GrantLimits::default() };
    let token = |operation, limits| service.sign(Grant { limits, ..service.grant(id, operation) });
    let put = |limits| with_token(put_request(id, "b", &[7; 100]), &token(PUT_CONTENTS, limits));
    let error = service.git().put_contents(put(limits(50, 150))).await.unwrap_err();
    assert_eq!((error.code(), reason(&error).as_str()), (Code::FailedPrecondition, "STORAGE_QUOTA_EXCEEDED"));
    assert!(error.message().contains("50 of 150 bytes used"), "{error:?}");
    let files = vec![file("c", FileOperation::Create, Some("c"))];
    let change = with_token(change(id, files), &token(CHANGE_FILES, limits(150, 150)));
    assert_eq!(reason(&service.git().change_files(change).await.unwrap_err()), "STORAGE_QUOTA_EXCEEDED");
    let remove = with_token(delete(id, "a"), &token(DELETE_CONTENTS, limits(200, 150)));
    assert_eq!(reason(&service.git().delete_contents(remove).await.unwrap_err()), "STORAGE_QUOTA_EXCEEDED");
    service.git().put_contents(put(limits(50, 151))).await.unwrap();
    service.updates(id, 2).await;
}

#[tokio::test]
async fn many_changes_at_once_are_all_kept() {
    let service = Service::start().await;
    let id = service.create().await;
    let changes = (0..8).map(|index| {
        let service = &service;
        async move {
            let files = ["x", "y"].map(|name| file(&format!("d{index}/{name}"), FileOperation::Create, Some("1")));
            service.git().change_files(service.with_grant(id, change(id, files.to_vec()))).await.unwrap();
            let gone = delete(id, &format!("d{index}/x"));
            service.git().delete_contents(service.with_grant(id, gone)).await.unwrap();
        }
    });
    futures_util::future::join_all(changes).await;
    assert_eq!(names(&service, id, "").await.len(), 8);
    let updates = service.updates(id, 16).await;
    assert_eq!(updates.iter().map(|update| update.number).collect::<Vec<_>>(), (1..=16).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_repeated_commit_gets_a_large_response_anew() {
    let service = Service::start().await;
    let id = service.create().await;
    let put = || {
        let request = PutContentsRequest { message: "m".repeat(200_000), ..put_request(id, "one", b"text") };
        let mut request = service.with_grant(id, request);
        request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, "put".parse().unwrap());
        request
    };
    let made = service.git().put_contents(put()).await.unwrap().into_inner();
    assert_eq!(made.commit.as_ref().unwrap().message.len(), 200_000);
    assert_eq!(service.git().put_contents(put()).await.unwrap().into_inner(), made);

    let path = |number: usize| format!("a-folder-with-a-long-name/{number}");
    let files = (0..100).map(|number| file(&path(number), FileOperation::Create, Some(&path(number))));
    let files: Vec<_> = files.chain([file("one", FileOperation::Delete, None)]).collect();
    let change = || {
        let mut request = service.with_grant(id, change(id, files.clone()));
        request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, "change".parse().unwrap());
        request
    };
    let made = service.git().change_files(change()).await.unwrap().into_inner();
    assert_eq!(made.entries.len(), 100);
    // Later commits do not affect it.
    service.put(id, &path(7), b"other").await;
    assert_eq!(service.git().change_files(change()).await.unwrap().into_inner(), made);
    service.updates(id, 3).await;
}

#[tokio::test]
async fn a_write_beyond_the_limit_of_the_account_leaves_nothing() {
    let service = Service::start_with(tempfile::tempdir().unwrap(), &["--writes-per-hour=3"]).await;
    let id = service.create().await;
    for path in ["a", "b"] {
        service.put(id, path, b"text").await;
    }
    protect(&service, rule(id, "one")).await;
    let objects = || {
        let mut count = 0;
        service
            .on_disk(id)
            .odb()
            .unwrap()
            .foreach(|_| {
                count += 1;
                true
            })
            .unwrap();
        count
    };
    let before = objects();
    let refused = |error: tonic::Status| {
        assert_eq!((error.code(), reason(&error).as_str()), (Code::ResourceExhausted, "WRITE_LIMIT_REACHED"));
    };
    let put = service.with_grant(id, put_request(id, "c", b"more"));
    refused(service.git().put_contents(put).await.unwrap_err());
    let mut protections = ProtectionServiceClient::new(service.channel());
    refused(protections.set_protection(service.with_grant(id, rule(id, "two"))).await.unwrap_err());
    assert_eq!((objects(), names(&service, id, "").await), (before, vec!["a".to_owned(), "b".to_owned()]));

    // A percentage in the grant applies, and other users are not affected.
    let of = |user: i64, rate_percent| {
        let mut grant = service.grant(id, PUT_CONTENTS);
        if let Some(own) = &mut grant.user {
            own.id = user;
        }
        Grant { limits: GrantLimits { rate_percent, ..GrantLimits::default() }, ..grant }
    };
    for (user, rate_percent) in [(7, Some(200)), (8, None)] {
        let request =
            with_token(put_request(id, &format!("of {user}"), b"text"), &service.sign(of(user, rate_percent)));
        service.git().put_contents(request).await.unwrap();
    }
}

#[tokio::test]
async fn a_tag_of_a_release_is_not_made_after_its_time() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a.txt", b"x").await;
    let mut releases = ReleaseStorageServiceClient::new(service.channel_of(ServiceRole::RepoSvc));
    let now = i64::try_from(now()).unwrap();
    let tag = |name: &str, expire_secs: Option<i64>| CreateTagRequest {
        repository_id: id,
        tag_name: name.into(),
        target: "main".into(),
        user_id: 7,
        is_mirror: false,
        expire_time: expire_secs.map(|seconds| timestamp(seconds * 1_000_000)),
    };
    let late = releases.create_tag(tag("v1", Some(now - 2))).await.unwrap_err();
    assert_eq!((late.code(), reason(&late).as_str()), (Code::Unavailable, "TIMED_OUT"));
    for (name, expire_secs) in [("v1", Some(now + 60)), ("v2", None)] {
        assert!(releases.create_tag(tag(name, expire_secs)).await.unwrap().into_inner().was_made, "{name}");
    }
    // An existing tag is found at any age.
    assert!(!releases.create_tag(tag("v1", Some(now - 2))).await.unwrap().into_inner().was_made);
}
