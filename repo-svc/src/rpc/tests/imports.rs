use ferrite_core::timestamp;
use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_events as outbox;
use ferrite_proto::error::violations;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{Event, MigrationEnded, MirrorChanged};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{
    GetMigrationRequest, GetMigrationResponse, GetRepositoryRequest, ListMigrationsRequest, MembershipRole,
    MigrateRepositoryRequest, Migration, MigrationPhase, MirrorState, Repository, UpdateRepositoryRequest,
};
use futures_util::future::join_all;
use tonic::{Code, Request, Status};

use super::conditional::{asking, is_refused, requiring, told};
use super::organizations::{create as create_organization, set as set_member};
use super::{by_id, refusal, refused};
use crate::background::{ImportSweeper, Sweeper};
use crate::testing::{Harness, StoreMode, with_token};

const DAY_US: i64 = 24 * 3600 * 1_000_000;

fn from_elsewhere(uid: i64, name: &str) -> MigrateRepositoryRequest {
    MigrateRepositoryRequest {
        clone_addr: "https://example.com/them/demo.git".into(),
        uid,
        repo_name: name.into(),
        auth_username: "ada".into(),
        auth_password: "hunter2".into(),
        includes_wiki: true,
        ..MigrateRepositoryRequest::default()
    }
}

async fn import_repository(harness: &Harness, request: Request<MigrateRepositoryRequest>) -> Result<Migration, Status> {
    let response = harness.imports().migrate_repository(request).await?;
    Ok(response.into_inner().migration.unwrap())
}

async fn look(harness: &Harness, token: &str, migration_id: i64) -> Result<GetMigrationResponse, Status> {
    let request = GetMigrationRequest { migration_id, wait_seconds: 0 };
    Ok(harness.imports().get_migration(with_token(request, token)).await?.into_inner())
}

async fn list(harness: &Harness, token: &str) -> Vec<(String, MigrationPhase, i64)> {
    let request = with_token(ListMigrationsRequest { page: 1, page_size: 10 }, token);
    let response = harness.imports().list_migrations(request).await.unwrap().into_inner();
    assert_eq!(response.total_count, i64::try_from(response.migrations.len()).unwrap());
    response.migrations.into_iter().map(|one| (one.full_name.clone(), one.phase(), one.object_count)).collect()
}

async fn get(harness: &Harness, token: &str, id: i64) -> Result<Repository, Status> {
    let request = GetRepositoryRequest { repository: by_id(id) };
    Ok(harness.repository().get_repository(with_token(request, token)).await?.into_inner().repository.unwrap())
}

async fn deliver(harness: &Harness, events: Vec<Event>) {
    harness.deliver(events).await.unwrap();
}

fn ended(id: i64, end: MigrationEnded) -> Event {
    outbox::event(RepositoryId(id), 0, Fact::MigrationEnded(end))
}

fn brought() -> MigrationEnded {
    MigrationEnded {
        size_bytes: 900,
        default_branch: b"trunk".to_vec(),
        number: 3,
        object_count: 12,
        received_bytes: 600,
        ..MigrationEnded::default()
    }
}

fn failed(error: &str) -> MigrationEnded {
    MigrationEnded { error: error.into(), ..MigrationEnded::default() }
}

/// The id of the repository of the last accepted import.
fn repository_of(harness: &Harness) -> i64 {
    harness.import_requests().last().unwrap().repository_id
}

#[tokio::test]
async fn a_repository_is_visible_when_the_store_says_that_it_is_whole() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.user("ada", false).await;
        let token = harness.token("ada", "test").await;
        let import = import_repository(&harness, with_token(from_elsewhere(ada.id.0, "Demo"), &token)).await.unwrap();
        assert_eq!((import.full_name.as_str(), import.phase()), ("ada/Demo", MigrationPhase::Queued));
        let sent = harness.import_requests().remove(0);
        assert_eq!((sent.url.as_str(), sent.username.as_str()), ("https://example.com/them/demo.git", "ada"));
        assert_eq!((sent.password.as_str(), sent.default_branch.as_str(), sent.epoch), ("hunter2", "main", 1));
        assert!(sent.wiki_repository_id > sent.repository_id && sent.mirror_interval_seconds == 0);

        let id = sent.repository_id;
        assert_eq!(refusal(get(&harness, &token, id).await).0, Code::NotFound);
        assert_eq!(refusal(harness.create(&token, "demo", false).await).0, Code::AlreadyExists);
        let now = look(&harness, &token, import.id).await.unwrap();
        let seen = now.migration.unwrap();
        assert_eq!((seen.phase(), seen.object_count, seen.received_bytes), (MigrationPhase::Fetching, 7, 70));
        assert!(now.repository.is_none() && seen.finish_time.is_none());

        let end = ended(id, brought());
        for _ in 0..2 {
            deliver(&harness, vec![end.clone(), ended(id, failed("told too late"))]).await;
        }
        let done = look(&harness, &token, import.id).await.unwrap();
        let (seen, repository) = (done.migration.unwrap(), done.repository.unwrap());
        assert_eq!((seen.phase(), seen.object_count, seen.error.as_str()), (MigrationPhase::Done, 12, ""));
        assert!(seen.finish_time.is_some());
        assert_eq!((repository.size_bytes, repository.default_branch.as_str()), (900, "trunk"));
        assert!(!repository.is_empty && !repository.is_mirror && repository.watcher_count == 1);
        assert_eq!(get(&harness, &token, id).await.unwrap(), repository);
        let logged = "SELECT actor || ' ' || action || ' ' || target FROM audit_log WHERE action LIKE 'repository.%'";
        let logged: Vec<(String,)> = harness.db().await.all(logged, &[]).await.unwrap();
        assert_eq!(logged, [("ada repository.create ada/Demo".to_owned(),)]);
        assert_eq!(list(&harness, &token).await, [("ada/Demo".to_owned(), MigrationPhase::Done, 12)]);
        for _ in 0..2000 {
            let told =
                harness.events().into_iter().filter(|event| matches!(event.fact, Some(Fact::RepositoryCreated(_))));
            if told.count() == 1 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("hook-svc is not told of the repository");
    })
    .await;
}

#[tokio::test]
async fn a_mirror_has_the_newest_state_that_the_store_told() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.user("ada", false).await;
        let token = harness.token("ada", "test").await;
        let request = MigrateRepositoryRequest { is_mirror: true, ..from_elsewhere(ada.id.0, "demo") };
        import_repository(&harness, with_token(request, &token)).await.unwrap();
        let id = repository_of(&harness);
        deliver(&harness, vec![ended(id, brought())]).await;
        let made = get(&harness, &token, id).await.unwrap();
        assert!(made.is_mirror && made.mirror.is_some_and(|state| state.interval_seconds == 28_800));
        let state = |error: &str| MirrorState {
            interval_seconds: 600,
            last_sync_time: Some(timestamp(5_000_000)),
            next_sync_time: Some(timestamp(9_000_000)),
            last_error: error.into(),
        };
        let change = |version, error| {
            let change = MirrorChanged { state: Some(state(error)), version };
            outbox::event(RepositoryId(id), 0, Fact::MirrorChanged(change))
        };
        deliver(&harness, vec![change(2, "cannot be reached"), change(1, "")]).await;
        let seen = get(&harness, &token, id).await.unwrap();
        assert_eq!(seen.mirror, Some(state("cannot be reached")));
        let reader = harness.signed_in("bob").await;
        let cut = get(&harness, &reader, id).await.unwrap().mirror;
        assert_eq!(cut, Some(MirrorState { interval_seconds: 600, ..MirrorState::default() }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_changes_of_the_interval_with_one_version_one_is_made() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.user("ada", false).await;
        let token = harness.token("ada", "test").await;
        let request = MigrateRepositoryRequest { is_mirror: true, ..from_elsewhere(ada.id.0, "demo") };
        import_repository(&harness, with_token(request, &token)).await.unwrap();
        let id = repository_of(&harness);
        deliver(&harness, vec![ended(id, brought())]).await;
        let read = GetRepositoryRequest { repository: by_id(id) };
        let version = told(&harness.repository().get_repository(asking(read, &token)).await.unwrap());
        let update = |seconds: i64, description: Option<&str>| {
            let change = UpdateRepositoryRequest {
                repository: by_id(id),
                description: description.map(str::to_owned),
                mirror_interval_seconds: Some(seconds),
                ..UpdateRepositoryRequest::default()
            };
            let (mut client, request) = (harness.repository(), requiring(change, &token, &version));
            async move { client.update_repository(request).await }
        };
        let outcomes = join_all((0..8).map(|number| update(3600 + number, None))).await;
        let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!((done.len(), refused.iter().filter(|outcome| is_refused(outcome)).count()), (1, 7));
        let made = done.into_iter().next().unwrap().unwrap().into_inner().repository.unwrap();
        let interval = made.mirror.as_ref().unwrap().interval_seconds;
        assert!((3600..3608).contains(&interval), "{interval}");
        assert_eq!(get(&harness, &token, id).await.unwrap(), made);

        // A sync that ended before the change, told after it.
        let state = MirrorState {
            interval_seconds: 28_800,
            last_sync_time: Some(timestamp(5_000_000)),
            next_sync_time: Some(timestamp(9_000_000)),
            last_error: String::new(),
        };
        let change = MirrorChanged { state: Some(state), version: 2 };
        deliver(&harness, vec![outbox::event(RepositoryId(id), 0, Fact::MirrorChanged(change))]).await;
        assert!(is_refused(&update(7200, Some("Other")).await));
        let shown = get(&harness, &token, id).await.unwrap();
        assert_eq!((shown.description.as_str(), shown.mirror.unwrap().interval_seconds), (&*made.description, 28_800));
    })
    .await;
}

#[tokio::test]
async fn an_interval_is_of_mirrors_only() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        harness.user("ada", false).await;
        let token = harness.token("ada", "test").await;
        let before = harness.create(&token, "demo", false).await.unwrap();
        let change = UpdateRepositoryRequest {
            repository: by_id(before.id),
            mirror_interval_seconds: Some(3600),
            ..UpdateRepositoryRequest::default()
        };
        harness.repository().update_repository(with_token(change, &token)).await.unwrap();
        let stored = "SELECT mirror_interval_secs FROM repositories WHERE is_mirror OR mirror_interval_secs <> 0";
        let stored: Vec<(i64,)> = harness.db().await.all(stored, &[]).await.unwrap();
        assert!(stored.is_empty(), "{stored:?}");
    })
    .await;
}

#[tokio::test]
async fn a_failed_import_leaves_its_reason_and_a_free_name() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.user("ada", false).await;
        let token = harness.token("ada", "test").await;
        let import = import_repository(&harness, with_token(from_elsewhere(ada.id.0, "demo"), &token)).await.unwrap();
        let id = repository_of(&harness);
        deliver(&harness, vec![ended(id, failed("the address cannot be reached"))]).await;
        let seen = look(&harness, &token, import.id).await.unwrap();
        assert!(seen.repository.is_none());
        let seen = seen.migration.unwrap();
        assert_eq!((seen.phase(), seen.error.as_str()), (MigrationPhase::Failed, "the address cannot be reached"));
        deliver(&harness, vec![ended(id, brought())]).await;
        assert_eq!(refusal(get(&harness, &token, id).await).0, Code::NotFound);
        assert!(harness.create(&token, "demo", false).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn repositories_are_imported_for_oneself_and_for_accounts_that_one_may_act_for() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.user("ada", false).await, harness.user("bob", false).await);
    harness.user("root", true).await;
    let mut tokens = Vec::new();
    for name in ["ada", "bob", "root"] {
        tokens.push(harness.token(name, "test").await);
    }
    let [of_ada, of_bob, of_root] = tokens.as_slice() else { panic!("three") };
    let acme = create_organization(&harness, of_ada, "Acme").await.id;
    set_member(&harness, of_ada, "Acme", "bob", MembershipRole::Member).await.unwrap();
    let ask = async |token: &str, uid: i64, name: &str| {
        import_repository(&harness, with_token(from_elsewhere(uid, name), token)).await.map(|import| import.full_name)
    };
    assert_eq!(ask(of_ada, acme, "one").await.unwrap(), "Acme/one");
    assert_eq!(ask(of_root, acme, "two").await.unwrap(), "Acme/two");
    assert_eq!(ask(of_root, ada.id.0, "three").await.unwrap(), "ada/three");
    let denied = |reason| refused(Code::PermissionDenied, reason);
    assert_eq!(refusal(ask(of_bob, acme, "four").await), denied("ORGANIZATION_OWNER_REQUIRED"));
    assert_eq!(refusal(ask(of_ada, bob.id.0, "four").await), denied("ADMIN_REQUIRED"));
    let unknown = ask(of_root, 999_999, "four").await.unwrap_err();
    assert_eq!((unknown.code(), violations(&unknown)[0].0.as_str()), (Code::InvalidArgument, "uid"));
    assert_eq!(refusal(ask("", ada.id.0, "four").await).0, Code::Unauthenticated);
}

#[tokio::test]
async fn mistakes_are_named_by_the_fields_of_the_contract() {
    let harness = Harness::start().await;
    let ada = harness.user("ada", false).await;
    let token = harness.token("ada", "test").await;
    let request = MigrateRepositoryRequest {
        clone_addr: "file:///etc".into(),
        auth_username: "a:b".into(),
        description: "x".repeat(513),
        is_mirror: true,
        mirror_interval_seconds: 60,
        ..from_elsewhere(ada.id.0, "a b")
    };
    let status = import_repository(&harness, with_token(request, &token)).await.unwrap_err();
    let fields: Vec<_> = violations(&status).into_iter().map(|(field, ..)| field).collect();
    assert_eq!(fields, ["clone_addr", "auth_username", "repo_name", "description", "mirror_interval"]);
    harness.set_store(StoreMode::Refuses);
    let status = import_repository(&harness, with_token(from_elsewhere(ada.id.0, "demo"), &token)).await.unwrap_err();
    let refused = violations(&status).remove(0);
    assert_eq!((refused.0.as_str(), refused.2.as_str()), ("clone_addr", "has a scheme that is not permitted"));
    harness.set_store(StoreMode::FailsAfterCreate);
    let status = import_repository(&harness, with_token(from_elsewhere(ada.id.0, "demo"), &token)).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(harness.stored().is_empty() && list(&harness, &token).await.is_empty());
    harness.set_store(StoreMode::Works);
    assert!(harness.create(&token, "demo", false).await.is_ok(), "the name is free");
}

#[tokio::test]
async fn a_repeated_request_starts_one_import_and_other_credentials_are_another_request() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.user("ada", false).await;
        let token = harness.token("ada", "test").await;
        let ask = async |clone_addr: &str, auth_password: &str| {
            let (clone_addr, auth_password) = (clone_addr.to_owned(), auth_password.to_owned());
            let new = from_elsewhere(ada.id.0, "demo");
            let message = MigrateRepositoryRequest { clone_addr, auth_password, ..new };
            let mut request = with_token(message, &token);
            request.metadata_mut().insert("idempotency-key", "k".parse().unwrap());
            import_repository(&harness, request).await
        };
        let plain = "https://example.com/them/demo.git";
        let (first, second) = tokio::join!(ask(plain, "hunter2"), ask(plain, "hunter2"));
        let first = first.unwrap();
        assert_eq!(first, second.unwrap());
        let with_password = |password: &str| format!("https://ada:{password}@example.com/them/demo.git");
        assert_eq!(ask(&with_password("hunter2"), "").await.unwrap(), first, "the same credentials");
        let reused = refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED");
        for (clone_addr, password) in [(plain, "another"), (plain, ""), (&with_password("another"), "")] {
            assert_eq!(refusal(ask(clone_addr, password).await), reused, "{clone_addr} {password}");
        }
        assert_eq!(harness.import_requests().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_import_that_the_store_never_got_fails_and_one_that_it_has_goes_on() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.user("ada", false).await;
        let token = harness.token("ada", "test").await;
        let mut ids = Vec::new();
        for name in ["lost", "long"] {
            ids.push(import_repository(&harness, with_token(from_elsewhere(ada.id.0, name), &token)).await.unwrap().id);
        }
        harness.forget_stored(harness.import_requests()[0].repository_id);
        let (state, db) = (harness.state().await, harness.db().await);
        let (repositories, imports) = (state.repositories.clone(), state.imports.clone());
        let (storage, clock) = (state.storage.clone(), state.clock.clone());
        let sweeper = ImportSweeper::new(db.clone(), repositories.clone(), imports, storage.clone(), clock.clone());
        sweeper.sweep().await.unwrap();
        assert!(list(&harness, &token).await.iter().all(|(_, phase, _)| *phase == MigrationPhase::Queued), "too young");

        let age = "UPDATE migrations SET created_us = created_us - $1, heard_us = heard_us - $1";
        db.execute(age, &args![DAY_US / 2]).await.unwrap();
        db.execute("UPDATE repositories SET created_us = created_us - $1", &args![DAY_US / 2]).await.unwrap();
        sweeper.sweep().await.unwrap();
        let seen = list(&harness, &token).await;
        let expected =
            [("ada/long".into(), MigrationPhase::Fetching, 7), ("ada/lost".into(), MigrationPhase::Failed, 0)];
        assert_eq!(seen, expected);
        assert!(harness.create(&token, "lost", false).await.is_ok(), "the name is free");
        Sweeper::new(repositories.clone(), storage, clock).sweep().await.unwrap();
        let [lost, long] = [0, 1].map(|index| RepositoryId(harness.import_requests()[index].repository_id));
        assert!(!repositories.is_creating(lost).await.unwrap() && repositories.is_creating(long).await.unwrap());

        harness.set_store(StoreMode::Down);
        db.execute(age, &args![DAY_US / 2]).await.unwrap();
        sweeper.sweep().await.unwrap();
        assert_eq!(list(&harness, &token).await[0].1, MigrationPhase::Fetching, "the store is silent for half a day");
        db.execute(age, &args![DAY_US]).await.unwrap();
        sweeper.sweep().await.unwrap();
        assert_eq!(list(&harness, &token).await[0].1, MigrationPhase::Failed);
        db.execute("UPDATE migrations SET finished_us = finished_us - $1", &args![8 * DAY_US]).await.unwrap();
        sweeper.sweep().await.unwrap();
        assert_eq!(refusal(look(&harness, &token, ids[0]).await), refused(Code::NotFound, "MIGRATION_NOT_FOUND"));
    })
    .await;
}

#[tokio::test]
async fn an_import_is_hidden_from_everybody_but_its_user_and_administrators() {
    let harness = Harness::start().await;
    let ada = harness.user("ada", false).await;
    harness.user("root", true).await;
    let (token, root) = (harness.token("ada", "test").await, harness.token("root", "test").await);
    let other = harness.signed_in("bob").await;
    let id = import_repository(&harness, with_token(from_elsewhere(ada.id.0, "demo"), &token)).await.unwrap().id;
    assert!(look(&harness, &token, id).await.is_ok() && look(&harness, &root, id).await.is_ok());
    for (token, id) in [(&other, id), (&token, id + 1), (&token, -1)] {
        assert_eq!(refusal(look(&harness, token, id).await), refused(Code::NotFound, "MIGRATION_NOT_FOUND"));
    }
    assert!(list(&harness, &other).await.is_empty() && list(&harness, &root).await.is_empty());
    let second = harness.token("ada", "second").await;
    let limit = "UPDATE access_tokens SET repository_ids = '999999' WHERE name = 'second'";
    harness.db().await.execute(limit, &[]).await.unwrap();
    assert_eq!(refusal(look(&harness, &second, id).await), refused(Code::NotFound, "MIGRATION_NOT_FOUND"));
    assert!(list(&harness, &second).await.is_empty());
}
