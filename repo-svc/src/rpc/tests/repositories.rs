//! Repositories: creation with a failing store, deletion, lists and search.

use std::collections::HashSet;
use std::time::Duration;

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::{
    AutoInit, CreateRepositoryRequest, DeleteRepositoryRequest, DescribeRepositoriesRequest, GetRepositoryRequest,
    LabelSet, ListRepositoriesRequest, Permission, SearchRepositoriesRequest,
};
use ferrite_proto::{Scope, ServiceRole};
use tonic::{Code, Request};

use super::organizations::narrow;
use super::{by_id, by_name, refusal, refused};
use crate::background::Sweeper;
use crate::testing::{Harness, StoreMode, with_token};

fn named(name: &str) -> CreateRepositoryRequest {
    CreateRepositoryRequest { name: name.into(), ..CreateRepositoryRequest::default() }
}

fn keyed<T>(message: T, token: &str, key: &str) -> Request<T> {
    let mut request = with_token(message, token);
    request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

/// Waits for `count` events of a kind, and returns them with their repositories.
async fn told<T>(harness: &Harness, count: usize, kind: fn(Fact) -> Option<T>) -> Vec<(i64, T)> {
    for _ in 0..2000 {
        let events = harness.events().into_iter();
        let told: Vec<_> = events.filter_map(|event| Some((event.repository_id, kind(event.fact?)?))).collect();
        if told.len() >= count {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{count} events did not arrive");
}

#[tokio::test]
async fn a_new_repository_is_told_to_hook_svc() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let made = harness.create(&ada, "demo", true).await.unwrap();
        let told = told(&harness, 1, |fact| match fact {
            Fact::RepositoryCreated(fact) => Some(fact),
            _ => None,
        });
        let (id, fact) = told.await.remove(0);
        let owner = made.owner.as_ref().unwrap();
        assert_eq!((id, fact.owner_id, fact.user_id), (made.id, owner.id, owner.id));
        let snapshot = fact.repository.unwrap();
        assert_eq!((snapshot.name.as_str(), snapshot.is_private, snapshot.size_bytes), ("demo", true, 42));
        assert_eq!(snapshot.owner.unwrap().email, "ada@example.com");
    })
    .await;
}

#[tokio::test]
async fn the_labels_of_a_new_repository_are_told_to_issue_svc_too() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let request = CreateRepositoryRequest { label_set: LabelSet::Default.into(), ..named("demo") };
        harness.repository().create_repository(with_token(request, &ada)).await.unwrap();
        // One fake receives the events of both services.
        let told = told(&harness, 2, |fact| match fact {
            Fact::RepositoryCreated(fact) => Some(fact.label_set()),
            _ => None,
        });
        assert!(told.await.iter().all(|(_, label_set)| *label_set == LabelSet::Default));
    })
    .await;
}

#[tokio::test]
async fn services_read_repositories_by_id_whoever_may_see_them() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let closed = harness.create(&ada, "closed", true).await.unwrap();
        let open = harness.create(&bob, "open", false).await.unwrap();
        let describe = async |ids: Vec<i64>| {
            let request = DescribeRepositoriesRequest { repository_ids: ids };
            let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::HookSvc));
            client.describe_repositories(request).await.map(|response| response.into_inner().repositories)
        };
        let found = describe(vec![open.id, 999, closed.id, -1, open.id]).await.unwrap();
        let seen: Vec<_> = found.iter().map(|row| (row.id, row.name.as_str(), row.permission())).collect();
        assert_eq!(seen, [(closed.id, "closed", Permission::Unspecified), (open.id, "open", Permission::Unspecified)]);
        let owner = found[0].owner.as_ref().unwrap();
        assert_eq!((owner.username.as_str(), owner.email.as_str()), ("ada", "ada@example.com"));
        assert!(describe(Vec::new()).await.unwrap().is_empty());
        assert_eq!(refusal(describe(vec![1; 1001]).await), refused(Code::InvalidArgument, "INVALID_FIELDS"));
        let mut stranger = AccessServiceClient::new(harness.unauthenticated.clone());
        let request = with_token(DescribeRepositoriesRequest { repository_ids: vec![open.id] }, &bob);
        let outcome = stranger.describe_repositories(request).await;
        assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "SERVICE_REQUIRED"));
    })
    .await;
}

#[tokio::test]
async fn a_repository_is_created_in_git_svc_and_returned_as_it_is() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let request = CreateRepositoryRequest {
        description: "A demo".into(),
        auto_init: Some(AutoInit {
            gitignores: vec!["Rust".into()],
            license: "MIT License".into(),
            readme: String::new(),
        }),
        ..named("Demo")
    };
    let made = harness
        .repository()
        .create_repository(with_token(request, &ada))
        .await
        .unwrap()
        .into_inner()
        .repository
        .unwrap();
    assert_eq!((made.name.as_str(), made.default_branch.as_str(), made.size_bytes), ("Demo", "main", 42));
    assert!(!made.is_empty && !made.is_private && made.create_time.is_some() && made.watcher_count == 1);
    assert_eq!((made.permission(), made.owner.as_ref().unwrap().username.as_str()), (Permission::Owner, "ada"));
    assert_eq!(harness.stored(), HashSet::from([made.id]));
    let request = harness.create_requests().remove(0);
    assert_eq!((request.store.as_str(), request.epoch, request.default_branch.as_str()), ("default", 1, "main"));
    let commit = request.first_commit.unwrap();
    assert_eq!(commit.clone_url_http, "http://git.example.com/ada/Demo.git");
    assert_eq!(commit.clone_url_ssh, "git@git.example.com:ada/Demo.git");
    assert_eq!(
        (commit.author.as_ref().unwrap().name.as_str(), commit.gitignores.as_slice()),
        ("ada", ["Rust".to_owned()].as_slice())
    );
    let got = harness
        .repository()
        .get_repository(with_token(GetRepositoryRequest { repository: by_id(made.id) }, &ada))
        .await;
    assert_eq!(got.unwrap().into_inner().repository, Some(made));
}

#[tokio::test]
async fn an_invalid_request_reports_its_fields_and_creates_nothing() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    let request =
        CreateRepositoryRequest { description: "x".repeat(256), default_branch: "a..b".into(), ..named("a b") };
    let request = CreateRepositoryRequest { label_set: 9, ..request };
    let status = harness.repository().create_repository(with_token(request, &ada)).await.unwrap_err();
    let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(fields, ["name", "description", "default_branch", "issue_labels"]);
    for name in ["", ".", "x.git", "-x", "a/../b", "a\0b"] {
        assert_eq!(refusal(harness.create(&ada, name, false).await).0, Code::InvalidArgument, "{name:?}");
    }
    assert_eq!(
        refusal(harness.create("", "demo", false).await),
        refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED")
    );
    assert!(harness.create_requests().is_empty());
}

#[tokio::test]
async fn a_new_repository_has_the_default_branch_that_its_request_names() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    for (name, branch, expected) in [("one", "", "main"), ("two", "team/trunk", "team/trunk")] {
        let request = CreateRepositoryRequest { default_branch: branch.into(), ..named(name) };
        let made = harness.repository().create_repository(with_token(request, &ada)).await.unwrap().into_inner();
        assert_eq!(made.repository.unwrap().default_branch, expected);
        assert_eq!(harness.create_requests().pop().unwrap().default_branch, expected);
    }
}

#[tokio::test]
async fn a_failed_creation_leaves_nothing_behind() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.set_store(StoreMode::Refuses);
    let status = harness.create(&ada, "demo", false).await.unwrap_err();
    assert_eq!(violations(&status), [("license".to_owned(), "unknown".to_owned(), "no such template".to_owned())]);
    harness.set_store(StoreMode::FailsAfterCreate);
    assert_eq!(refusal(harness.create(&ada, "demo", false).await), refused(Code::Internal, "INTERNAL"));
    assert!(harness.stored().is_empty());
    harness.set_store(StoreMode::Works);
    harness.create(&ada, "demo", false).await.unwrap();
}

#[tokio::test]
async fn the_sweeper_removes_a_creation_that_failed_while_git_svc_was_down() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.set_store(StoreMode::Down);
    assert_eq!(refusal(harness.create(&ada, "demo", false).await), refused(Code::Unavailable, "STORE_UNAVAILABLE"));
    harness.set_store(StoreMode::Works);
    let db = harness.db().await;
    let count = async || db.one::<(i64,)>("SELECT COUNT(*) FROM repositories", &[]).await.unwrap().0;
    assert_eq!(count().await, 1);
    harness.create(&ada, "demo", false).await.unwrap();
    db.execute("UPDATE repositories SET created_us = created_us - $1", &args![121_000_000_i64]).await.unwrap();
    let state = harness.state().await;
    let sweeper = Sweeper::new(state.repositories.clone(), state.storage.clone(), state.clock.clone());
    sweeper.sweep().await.unwrap();
    assert_eq!(count().await, 1, "the one that was finished stays");
    assert_eq!(harness.stored().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_eight_creations_of_one_name_one_wins() {
    let harness = std::sync::Arc::new(Harness::start().await);
    let ada = harness.signed_in("ada").await;
    let life = ferrite_core::Lifecycle::new(Duration::from_secs(5));
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let (harness, ada) = (harness.clone(), ada.clone());
            let name = if number % 2 == 0 { "demo" } else { "DEMO" };
            life.spawn("create", async move { harness.create(&ada, name, false).await })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => made += 1,
            outcome => assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "REPOSITORY_ALREADY_EXISTS")),
        }
    }
    assert_eq!((made, harness.stored().len()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_with_one_key_create_one_repository() {
    let harness = std::sync::Arc::new(Harness::start().await);
    let ada = harness.signed_in("ada").await;
    let life = ferrite_core::Lifecycle::new(Duration::from_secs(5));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (mut client, request) = (harness.repository(), keyed(named("demo"), &ada, "k1"));
            life.spawn("create", async move { client.create_repository(request).await.unwrap().into_inner() })
        })
        .collect();
    let mut responses = Vec::new();
    for task in tasks {
        responses.push(task.await.unwrap());
    }
    assert!(responses.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(harness.stored().len(), 1);
    let outcome = harness.repository().create_repository(keyed(named("other"), &ada, "k1")).await;
    assert_eq!(refusal(outcome), refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
    let outcome = harness.repository().create_repository(keyed(named("demo"), &ada, "k2")).await;
    assert_eq!(refusal(outcome), refused(Code::AlreadyExists, "REPOSITORY_ALREADY_EXISTS"));
}

#[tokio::test]
async fn an_account_owns_no_more_repositories_than_its_limit() {
    let harness = Harness::start_with(&["--repository-limit", "1"]).await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "one", false).await.unwrap();
    assert_eq!(
        refusal(harness.create(&ada, "two", false).await),
        refused(Code::FailedPrecondition, "REPOSITORY_LIMIT_REACHED")
    );
}

#[tokio::test]
async fn only_the_owner_deletes_and_subscribers_get_the_event() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let (open, closed) =
        (harness.create(&ada, "open", false).await.unwrap(), harness.create(&ada, "closed", true).await.unwrap());
    let delete = async |id, token: &str| {
        harness
            .repository()
            .delete_repository(with_token(DeleteRepositoryRequest { repository: by_id(id) }, token))
            .await
    };
    assert_eq!(refusal(delete(open.id, "").await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    assert_eq!(refusal(delete(open.id, &bob).await), refused(Code::PermissionDenied, "PERMISSION_REQUIRED"));
    assert_eq!(refusal(delete(closed.id, &bob).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    let key = || keyed(DeleteRepositoryRequest { repository: by_id(open.id) }, &ada, "k1");
    harness.repository().delete_repository(key()).await.unwrap();
    harness.repository().delete_repository(key()).await.unwrap();
    assert_eq!(refusal(delete(open.id, &ada).await), refused(Code::NotFound, "REPOSITORY_NOT_FOUND"));
    let deleted = told(&harness, 3, |fact| match fact {
        Fact::RepositoryDeleted(fact) => Some(fact),
        _ => None,
    });
    let deleted = deleted.await;
    assert_eq!(deleted.len(), 3, "one for each of issue-svc, hook-svc and git-svc");
    for (id, fact) in deleted {
        assert_eq!((id, fact.user_id), (open.id, open.owner.as_ref().unwrap().id));
        let snapshot = fact.repository.unwrap();
        assert_eq!((snapshot.name.as_str(), snapshot.permission()), ("open", Permission::Unspecified));
    }
    harness.create(&ada, "open", false).await.unwrap();
}

#[tokio::test]
async fn lists_and_searches_hide_what_the_caller_may_not_see() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    harness.create(&ada, "open", false).await.unwrap();
    harness.create(&ada, "closed", true).await.unwrap();
    harness.create(&bob, "bobs", false).await.unwrap();
    let list = async |owner: &str, token: &str| {
        let request = ListRepositoriesRequest { owner: owner.into(), page: 1, page_size: 1000, is_organization: false };
        let response = harness.repository().list_repositories(with_token(request, token)).await?.into_inner();
        Ok::<_, tonic::Status>(
            response.repositories.into_iter().map(|row| (row.name.clone(), row.permission())).collect::<Vec<_>>(),
        )
    };
    let row = |name: &str, permission| (name.to_owned(), permission);
    assert_eq!(list("ada", &bob).await.unwrap(), [row("open", Permission::Read)]);
    assert_eq!(list("ADA", &ada).await.unwrap(), [row("closed", Permission::Owner), row("open", Permission::Owner)]);
    assert_eq!(list("", &bob).await.unwrap(), [row("bobs", Permission::Owner)]);
    assert_eq!(refusal(list("unknown", &ada).await), refused(Code::NotFound, "USER_NOT_FOUND"));
    assert_eq!(list("ada", "").await.unwrap(), [row("open", Permission::Read)]);
    assert_eq!(refusal(list("", "").await), refused(Code::Unauthenticated, "CREDENTIALS_REQUIRED"));
    narrow(&harness, "test", &[Scope::Issue]).await;
    assert_eq!(list("ada", &ada).await.unwrap(), [row("open", Permission::Read)]);
    assert_eq!(refusal(list("", &ada).await), refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE"));
    narrow(&harness, "test", &Scope::ALL).await;

    let search = async |query: &str, token: &str| {
        let request = SearchRepositoriesRequest { query: query.into(), page: 1, page_size: 2, ..Default::default() };
        harness.repository().search_repositories(with_token(request, token)).await.map(tonic::Response::into_inner)
    };
    let response = search("", "").await.unwrap();
    assert_eq!((response.repositories.len(), response.total_count), (2, 2));
    assert!(response.repositories.iter().all(|row| row.owner.as_ref().unwrap().email.is_empty()));
    let response = search("", &ada).await.unwrap();
    assert_eq!((response.repositories.len(), response.total_count), (2, 3));
    assert_eq!(search("ada/o", &bob).await.unwrap().repositories[0].name, "open");
    assert_eq!(refusal(search("a\0", "").await), refused(Code::InvalidArgument, "INVALID_FIELDS"));
    assert_eq!(refusal(search(&"a".repeat(256), "").await), refused(Code::InvalidArgument, "INVALID_FIELDS"));
}

#[tokio::test]
async fn a_repeated_deletion_may_write_the_name_in_another_case() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "Demo", false).await.unwrap();
    for name in ["Demo", "dEMO"] {
        let request = DeleteRepositoryRequest { repository: by_name("ada", name) };
        harness.repository().delete_repository(keyed(request, &ada, "k")).await.unwrap();
    }
    let request = DeleteRepositoryRequest { repository: by_name("ada", "other") };
    let reused = refusal(harness.repository().delete_repository(keyed(request, &ada, "k")).await);
    assert_eq!(reused, refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
}
