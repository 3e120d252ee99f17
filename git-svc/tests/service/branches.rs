//! Branches created, renamed and deleted through the API.

use ferrite_proto::{
    Permission,
    events::{RefUpdate, RefsUpdateKind, event::Fact},
    git::{
        CreateBranchRequest, DeleteBranchRequest, GetBranchRequest, ListBranchesRequest, ListProtectionsRequest,
        PutContentsRequest, RenameBranchRequest, SetProtectionRequest,
        protection_service_client::ProtectionServiceClient,
    },
    grant::Grant,
    metadata::IDEMPOTENCY_KEY,
};
use tonic::{Code, Request, Status};

use crate::{
    conditional::{asking, is_refused, requiring, told},
    harness::{Service, put_request, reason, with_token},
    operations::Operation,
    writes::{protect, rule},
};

const ZERO: &str = "0000000000000000000000000000000000000000";

fn creation(id: i64, name: &str, revision: &str) -> CreateBranchRequest {
    CreateBranchRequest { repository_id: id, name: name.into(), revision: revision.into() }
}

fn deletion(id: i64, name: &str) -> DeleteBranchRequest {
    DeleteBranchRequest { repository_id: id, name: name.into(), commit_id: String::new() }
}

fn renaming(id: i64, name: &str, new_name: &str) -> RenameBranchRequest {
    RenameBranchRequest { repository_id: id, name: name.into(), new_name: new_name.into() }
}

/// Adds the grant of an administrator of the repository.
fn as_admin<T: Operation>(service: &Service, id: i64, message: T) -> Request<T> {
    let grant = Grant { permission: Permission::Admin, ..service.grant(id, T::OPERATION) };
    with_token(message, &service.sign(grant))
}

async fn create(service: &Service, id: i64, name: &str, revision: &str) -> Result<String, Status> {
    let made = service.git().create_branch(service.with_grant(id, creation(id, name, revision))).await?;
    Ok(made.into_inner().branch.unwrap().commit.unwrap().id)
}

async fn delete(service: &Service, id: i64, name: &str) -> Result<(), Status> {
    service.git().delete_branch(service.with_grant(id, deletion(id, name))).await.map(drop)
}

async fn rename(service: &Service, id: i64, name: &str, new_name: &str) -> Result<(), Status> {
    service.git().rename_branch(as_admin(service, id, renaming(id, name, new_name))).await.map(drop)
}

async fn names(service: &Service, id: i64) -> Vec<String> {
    let request = ListBranchesRequest { repository_id: id, page: 1, page_size: 100 };
    let listed = service.git().list_branches(service.with_grant(id, request)).await.unwrap().into_inner();
    listed.branches.into_iter().map(|branch| String::from_utf8(branch.name).unwrap()).collect()
}

#[track_caller]
fn check(refused: Result<impl std::fmt::Debug, Status>, code: Code, expected: &str) {
    let status = refused.unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (code, expected), "{status:?}");
}

fn field(status: &Status) -> String {
    ferrite_proto::error::violations(status)[0].0.clone()
}

#[tokio::test]
async fn a_branch_starts_at_any_revision_and_goes_with_one_event_each() {
    let service = Service::start().await;
    let id = service.create().await;
    check(create(&service, id, "topic", "").await, Code::NotFound, "REVISION_NOT_FOUND");
    let first = service.put(id, "a", b"1").await;
    let second = service.put(id, "a", b"2").await;
    assert_eq!(create(&service, id, "from/head", "").await.unwrap(), second);
    assert_eq!(create(&service, id, "from-id", &first).await.unwrap(), first);
    assert_eq!(create(&service, id, "again", "from-id").await.unwrap(), first);
    delete(&service, id, "from-id").await.unwrap();
    assert_eq!(names(&service, id).await, ["again", "from/head", "main"]);
    let updates = service.updates(id, 6).await;
    let update = |name: &str, old: &str, new: &str| RefUpdate {
        name: format!("refs/heads/{name}").into(),
        old_id: old.into(),
        new_id: new.into(),
    };
    assert_eq!(updates[3].updates, [update("from-id", ZERO, &first)]);
    assert_eq!(updates[5].updates, [update("from-id", &first, ZERO)]);
    assert_eq!((updates[5].kind(), updates[5].user_id), (RefsUpdateKind::Api, 7));

    check(create(&service, id, "again", "").await, Code::AlreadyExists, "BRANCH_EXISTS");
    check(create(&service, id, "new", "none").await, Code::NotFound, "REVISION_NOT_FOUND");
    for name in ["", "a..b", "-x", "refs/heads/x", "HEAD", "from", "again/below"] {
        let status = create(&service, id, name, "").await.unwrap_err();
        assert_eq!((status.code(), field(&status).as_str()), (Code::InvalidArgument, "new_branch_name"), "{name}");
    }
    for name in ["none", "a..b", ""] {
        check(delete(&service, id, name).await, Code::NotFound, "BRANCH_NOT_FOUND");
    }
    check(delete(&service, id, "main").await, Code::PermissionDenied, "DEFAULT_BRANCH");
    service.updates(id, 6).await;
}

#[tokio::test]
async fn protection_rules_hold_as_for_pushes() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"1").await;
    create(&service, id, "release/1", "").await.unwrap();
    protect(&service, SetProtectionRequest { push_user_ids: vec![8], ..rule(id, "mine/*") }).await;
    protect(&service, rule(id, "release/*")).await;
    check(create(&service, id, "mine/1", "").await, Code::PermissionDenied, "BRANCH_PROTECTED");
    check(delete(&service, id, "release/1").await, Code::PermissionDenied, "BRANCH_PROTECTED");
    check(rename(&service, id, "release/1", "old").await, Code::PermissionDenied, "BRANCH_PROTECTED");
    create(&service, id, "release/2", "").await.unwrap();
    create(&service, id, "topic", "").await.unwrap();
    check(rename(&service, id, "topic", "mine/1").await, Code::PermissionDenied, "BRANCH_PROTECTED");
    protect(&service, SetProtectionRequest { allow_delete: true, ..rule(id, "release/*") }).await;
    delete(&service, id, "release/1").await.unwrap();
    rename(&service, id, "release/2", "old").await.unwrap();
    assert_eq!(names(&service, id).await, ["main", "old", "topic"]);
}

#[tokio::test]
async fn a_renamed_default_branch_keeps_its_place_and_its_rule() {
    let service = Service::start().await;
    let id = service.create().await;
    let commit = service.put(id, "a", b"1").await;
    let reviewed = SetProtectionRequest { required_approvals: 2, approver_ids: vec![9], ..rule(id, "main") };
    protect(&service, SetProtectionRequest { push_user_ids: vec![7, 8], ..reviewed }).await;
    let by_writer = service.git().rename_branch(service.with_grant(id, renaming(id, "main", "trunk"))).await;
    check(by_writer, Code::PermissionDenied, "PERMISSION_REQUIRED");
    rename(&service, id, "main", "trunk").await.unwrap();
    assert_eq!(names(&service, id).await, ["trunk"]);
    let updates = service.updates(id, 2).await;
    let changed: Vec<_> = updates[1].updates.iter().map(|update| (&update.name[..], update.new_id.as_str())).collect();
    assert_eq!(changed, [(&b"refs/heads/main"[..], ZERO), (b"refs/heads/trunk", commit.as_str())]);
    assert_eq!((updates[1].kind(), updates[1].default_branch.as_slice()), (RefsUpdateKind::Api, &b"trunk"[..]));

    let mut client = ProtectionServiceClient::new(service.channel());
    let list = ListProtectionsRequest { repository_id: id };
    let rules = client.list_protections(service.with_grant(id, list)).await.unwrap().into_inner().protections;
    let shown: Vec<_> = rules.iter().map(|rule| (rule.pattern.as_str(), &rule.push_user_ids[..])).collect();
    assert_eq!(shown, [("trunk", &[7, 8][..])]);
    assert_eq!((rules[0].required_approvals, &rules[0].approver_ids[..]), (2, &[9][..]));
    let changes: Vec<_> = service
        .facts(id)
        .into_iter()
        .filter_map(|fact| if let Fact::ProtectionChanged(changed) = fact { Some(changed) } else { None })
        .map(|changed| {
            let reviews = (changed.required_approvals, changed.approver_ids);
            (changed.pattern, changed.is_removed, changed.username, reviews)
        })
        .collect();
    let change = |pattern: &str, is_removed| {
        let reviews = if is_removed { (0, Vec::new()) } else { (2, vec![9]) };
        (pattern.to_owned(), is_removed, "ada".to_owned(), reviews)
    };
    assert_eq!(changes, [change("main", false), change("main", true), change("trunk", false)]);
    // The next commit is on the renamed branch, which is still the default one.
    service.put(id, "b", b"2").await;
    assert_eq!(names(&service, id).await, ["trunk"]);
}

#[tokio::test]
async fn a_former_name_leads_to_the_present_one_while_no_branch_has_it() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"1").await;
    let get = async |name: &str| {
        let request = GetBranchRequest { repository_id: id, name: name.into() };
        service.git().get_branch(service.with_grant(id, request)).await
    };
    let long = "x".repeat(200);
    create(&service, id, "one", "").await.unwrap();
    rename(&service, id, "one", "two").await.unwrap();
    rename(&service, id, "two", &long).await.unwrap();
    for name in ["one", "two"] {
        let status = get(name).await.unwrap_err();
        assert_eq!(ferrite_proto::error::detail(&status, "branch").as_deref(), Some(long.as_str()), "{name}");
        check(Err::<(), _>(status), Code::NotFound, "BRANCH_RENAMED");
    }
    check(rename(&service, id, "one", "x").await, Code::NotFound, "BRANCH_NOT_FOUND");
    create(&service, id, "one", "").await.unwrap();
    assert_eq!(get("one").await.unwrap().into_inner().branch.unwrap().name, b"one");
    delete(&service, id, &long).await.unwrap();
    check(get("two").await, Code::NotFound, "BRANCH_NOT_FOUND");
}

#[tokio::test]
async fn a_name_that_is_taken_or_invalid_renames_nothing() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"1").await;
    for name in ["topic", "other", "ruled"] {
        create(&service, id, name, "").await.unwrap();
    }
    for pattern in ["ruled", "held"] {
        protect(&service, SetProtectionRequest { allow_delete: true, ..rule(id, pattern) }).await;
    }
    let long = "x".repeat(201);
    for (name, new_name) in [
        ("topic", "topic"),
        ("topic", "other"),
        ("topic", ""),
        ("topic", "a..b"),
        ("topic", "other/below"),
        ("ruled", "held"),
        ("ruled", &long),
    ] {
        let status = rename(&service, id, name, new_name).await.unwrap_err();
        assert_eq!((status.code(), field(&status).as_str()), (Code::InvalidArgument, "name"), "{name} {new_name}");
    }
    check(rename(&service, id, "none", "new").await, Code::NotFound, "BRANCH_NOT_FOUND");
    rename(&service, id, "topic", &long).await.unwrap();
    // A writer may rename a branch that nothing protects.
    service.git().rename_branch(service.with_grant(id, renaming(id, "other", "another"))).await.unwrap();
    assert_eq!(names(&service, id).await, ["another", "main", "ruled", &long]);
}

#[tokio::test]
async fn a_branch_is_only_deleted_at_the_commit_that_is_given() {
    let service = Service::start().await;
    let id = service.create().await;
    let first = service.put(id, "a", b"1").await;
    let second = service.put(id, "a", b"2").await;
    create(&service, id, "topic", "").await.unwrap();
    let delete = async |commit_id: &str| {
        let request = DeleteBranchRequest { commit_id: commit_id.to_owned(), ..deletion(id, "topic") };
        service.git().delete_branch(service.with_grant(id, request)).await
    };
    check(delete(&first).await, Code::Aborted, "BRANCH_MOVED");
    check(delete("main").await, Code::InvalidArgument, "INVALID_FIELDS");
    delete(&second).await.unwrap();
    assert_eq!(names(&service, id).await, ["main"]);
}

#[tokio::test]
async fn a_branch_is_deleted_and_renamed_only_in_the_version_that_was_read() {
    let service = Service::start().await;
    let id = service.create().await;
    service.put(id, "a", b"1").await;
    create(&service, id, "topic", "").await.unwrap();
    let read = async |name: &str| {
        let message = GetBranchRequest { repository_id: id, name: name.into() };
        told(&service.git().get_branch(asking(&service, id, message)).await.unwrap()).unwrap()
    };
    let delete = async |precondition: &str, name: &str| {
        service.git().delete_branch(requiring(&service, id, precondition, deletion(id, name))).await
    };
    let rename = async |precondition: &str, name: &str, new_name: &str| {
        service.git().rename_branch(requiring(&service, id, precondition, renaming(id, name, new_name))).await
    };
    let first = read("topic").await;
    let moved = PutContentsRequest { branch: "topic".into(), ..put_request(id, "b", b"2") };
    service.git().put_contents(service.with_grant(id, moved)).await.unwrap();
    for refused in [first.as_str(), "absent", "never"] {
        assert!(is_refused(delete(refused, "topic").await), "{refused}");
        assert!(is_refused(rename(refused, "topic", "main").await), "{refused}");
    }
    check(delete("never", "none").await, Code::NotFound, "BRANCH_NOT_FOUND");
    check(delete("never", "main").await, Code::PermissionDenied, "DEFAULT_BRANCH");
    rename(&read("topic").await, "topic", "other").await.unwrap();
    delete(&read("other").await, "other").await.unwrap();
    assert_eq!(names(&service, id).await, ["main"]);
}

#[tokio::test]
async fn a_write_that_is_repeated_with_its_key_is_done_once() {
    let service = Service::start().await;
    let id = service.create().await;
    // Too long to be stored with the key.
    let long = PutContentsRequest { message: "m".repeat(5000), ..put_request(id, "a", b"1") };
    service.git().put_contents(service.with_grant(id, long)).await.unwrap();
    fn keyed<T>(mut request: Request<T>) -> Request<T> {
        request.metadata_mut().insert(IDEMPOTENCY_KEY, "once".parse().unwrap());
        request
    }
    let make = || keyed(service.with_grant(id, creation(id, "topic", "")));
    let made = service.git().create_branch(make()).await.unwrap().into_inner();
    assert_eq!(service.git().create_branch(make()).await.unwrap().into_inner(), made);
    let other = keyed(service.with_grant(id, creation(id, "other", "")));
    check(service.git().create_branch(other).await, Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED");
    for _ in 0..2 {
        let renamed = keyed(service.with_grant(id, renaming(id, "topic", "new")));
        service.git().rename_branch(renamed).await.unwrap();
    }
    for _ in 0..2 {
        service.git().delete_branch(keyed(service.with_grant(id, deletion(id, "new")))).await.unwrap();
    }
    service.updates(id, 4).await;
}
