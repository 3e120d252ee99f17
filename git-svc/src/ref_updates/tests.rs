//! Crashes at each step of a ref update, and the recovery.

mod confirmation;
mod events;
mod merges;
mod writes;

use ferrite_core::writer::serve;
use ferrite_db::{
    Db, args,
    idempotency::{IdempotencyError, IdempotencyKey},
};
use ferrite_proto::{
    events::{Event, IssueReach as Reach, RefsUpdated, event::Fact},
    git::{PutContentsRequest, PutContentsResponse},
    grant::IssueReach,
    metadata::PRECONDITION,
};
use ferrite_rpc::version;
use git_store::{
    repo::refs::RefEdit,
    types::{
        error::GitError,
        name::{BranchName, RefName},
        protection::{Pattern, RequiredChecks, Rule},
        push_options::PushOptions,
        required_reviews::RequiredReviews,
    },
};
use git2::Oid;
use http::{HeaderMap, HeaderName, HeaderValue};
use prost::Message as _;

use super::{
    CommitSubject, HOOK_SVC, ISSUE_SVC, IdempotentResponse, REPO_SVC, RefUpdater, recover_at_start,
    updater::{BatchOutcome, WriteGuard},
};
use crate::{
    db::{Journal, NewBatch, ProtectionTable, RefTransaction, RenamedBranchTable, UpdateKind},
    rpc_error::RpcError,
    testing::{TestRepo, on_each},
};

fn name(name: &str) -> RefName {
    RefName::parse(format!("refs/heads/{name}").as_bytes()).unwrap()
}

fn edit(branch: &str, old: Option<Oid>, new: Option<Oid>) -> RefEdit {
    RefEdit { name: name(branch), old, new }
}

async fn apply(test_repo: &TestRepo, updater: &RefUpdater, edits: Vec<RefEdit>) -> Result<(), RpcError> {
    let guard = updater.lock(test_repo.id).await?;
    let change = RefTransaction::new(UpdateKind::Push, 7, edits);
    drop(updater.apply::<()>(&guard, &change, None).await?);
    Ok(())
}

/// Only records an intent, like a process that is killed before it changes refs.
async fn record_intent(test_repo: &TestRepo, updater: &RefUpdater, edits: &[RefEdit]) -> NewBatch {
    record_intent_with_key(test_repo, updater, edits, None).await
}

/// Records an intent, optionally with the response for an idempotency key.
async fn record_intent_with_key(
    test_repo: &TestRepo,
    updater: &RefUpdater,
    edits: &[RefEdit],
    key: Option<&IdempotencyKey>,
) -> NewBatch {
    let guard = WriteGuard::lock_only(updater, test_repo.id).await;
    let change = RefTransaction::new(UpdateKind::Push, 7, edits.to_vec());
    let message = PutContentsResponse { branch: b"main".to_vec(), ..PutContentsResponse::default() };
    let response = key.map(|key| IdempotentResponse { key, message: &message, subject: CommitSubject::default() });
    updater.record_intent(&guard, &change, response).await.unwrap()
}

fn key(path: &[u8]) -> IdempotencyKey {
    let mut request = tonic::Request::new(PutContentsRequest { path: path.to_vec(), ..PutContentsRequest::default() });
    request.metadata_mut().insert("idempotency-key", "once".parse().unwrap());
    IdempotencyKey::of(&request, 7, "PutContents").unwrap().unwrap()
}

#[tokio::test]
async fn a_stored_response_outlives_a_crash_only_if_its_write_does() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let one = test_repo.commit("1");
        let edits = [edit("main", None, Some(one))];
        record_intent_with_key(&test_repo, &test_repo.updater(), &edits, Some(&key(b"a"))).await;
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(key(b"a").replay::<PutContentsResponse>(&test_repo.db).await.unwrap(), None);

        record_intent_with_key(&test_repo, &test_repo.updater(), &edits, Some(&key(b"a"))).await;
        test_repo.refs.transact(test_repo.id, &edits).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        let response: PutContentsResponse = key(b"a").replay(&test_repo.db).await.unwrap().unwrap();
        assert_eq!(response.branch, b"main");
        let other = key(b"b").replay::<PutContentsResponse>(&test_repo.db).await;
        assert!(matches!(other, Err(IdempotencyError::Reused)));
        assert_eq!(states(&test_repo.db).await, ["dropped", "confirmed"]);
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_a_crash_touched_is_checked_soon() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        apply(&test_repo, &test_repo.updater(), vec![edit("main", None, Some(test_repo.commit("1")))]).await.unwrap();
        let sql = "UPDATE maintenance SET checked_us = 1, next_us = 2";
        test_repo.db.execute(sql, &[]).await.unwrap();
        let times =
            async || test_repo.db.one::<(i64, i64)>("SELECT checked_us, next_us FROM maintenance", &[]).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(times().await, (1_i64, 2_i64), "nothing was open");
        record_intent(&test_repo, &test_repo.updater(), &[edit("other", None, Some(test_repo.commit("2")))]).await;
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(times().await, (0_i64, 0_i64));
    })
    .await;
}

/// Returns the states of all journal rows, oldest first.
async fn states(db: &Db) -> Vec<String> {
    let rows: Vec<(String,)> = db.all("SELECT state FROM ref_journal ORDER BY id", &[]).await.unwrap();
    rows.into_iter().map(|(state,)| state).collect()
}

/// Returns the events for repo-svc in the outbox, oldest first.
async fn events(db: &Db) -> Vec<RefsUpdated> {
    events_for(db, REPO_SVC).await
}

async fn events_for(db: &Db, subscriber: &str) -> Vec<RefsUpdated> {
    let rows: Vec<(Vec<u8>,)> =
        db.all("SELECT payload FROM outbox WHERE subscriber = $1 ORDER BY id", &args![subscriber]).await.unwrap();
    rows.into_iter()
        .map(|(payload,)| match Event::decode(payload.as_slice()).unwrap().fact {
            Some(Fact::RefsUpdated(fact)) => fact,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn names(fact: &RefsUpdated) -> Vec<String> {
    fact.updates.iter().map(|update| String::from_utf8(update.name.clone()).unwrap()).collect()
}

#[tokio::test]
async fn an_update_is_confirmed_with_one_event() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one, two) = (test_repo.updater(), test_repo.commit("1"), test_repo.commit("2"));
        apply(&test_repo, &updater, vec![edit("main", None, Some(one)), edit("b", None, Some(one))]).await.unwrap();
        apply(&test_repo, &updater, vec![edit("main", Some(one), Some(two))]).await.unwrap();
        assert_eq!(states(&test_repo.db).await, ["confirmed"; 3]);
        let events = events(&test_repo.db).await;
        assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(names(&events[0]), ["refs/heads/main", "refs/heads/b"]);
        let last = &events[1];
        assert_eq!(
            (last.updates[0].old_id.clone(), last.updates[0].new_id.clone()),
            (one.to_string(), two.to_string())
        );
        assert!(!last.is_empty && last.size_bytes > 0 && last.user_id == 7);
        assert_eq!(last.default_branch, b"main");
    })
    .await;
}

#[tokio::test]
async fn a_refused_update_leaves_no_event() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one, two) = (test_repo.updater(), test_repo.commit("1"), test_repo.commit("2"));
        let refused =
            apply(&test_repo, &updater, vec![edit("a", None, Some(one)), edit("main", Some(one), Some(two))]).await;
        assert!(matches!(refused, Err(RpcError::Git(GitError::RefConflict { .. }))), "{refused:?}");
        assert_eq!(states(&test_repo.db).await, ["dropped"; 2]);
        assert!(events(&test_repo.db).await.is_empty());
        assert_eq!(test_repo.refs.resolve(test_repo.id, name("a")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_crash_before_the_transaction_drops_the_update() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let one = test_repo.commit("1");
        record_intent(&test_repo, &test_repo.updater(), &[edit("main", None, Some(one))]).await;
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(states(&test_repo.db).await, ["dropped"]);
        assert!(events(&test_repo.db).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_crash_after_the_transaction_confirms_the_update() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let one = test_repo.commit("1");
        let edits = [edit("trunk", None, Some(one))];
        record_intent(&test_repo, &test_repo.updater(), &edits).await;
        test_repo.refs.transact(test_repo.id, &edits).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(states(&test_repo.db).await, ["confirmed"]);
        let events = events(&test_repo.db).await;
        assert_eq!(events.len(), 1);
        // HEAD had not moved either. Recovery points it to the new branch.
        assert_eq!(events[0].default_branch, b"trunk");
        assert_eq!(test_repo.refs.head(test_repo.id).await.unwrap().branch.as_bytes(), b"trunk");
    })
    .await;
}

#[tokio::test]
async fn a_crash_inside_the_transaction_confirms_the_refs_that_moved() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let one = test_repo.commit("1");
        let edits = [edit("main", None, Some(one)), edit("late", None, Some(one))];
        record_intent(&test_repo, &test_repo.updater(), &edits).await;
        test_repo.refs.transact(test_repo.id, &edits[..1]).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(states(&test_repo.db).await, ["confirmed", "dropped"]);
        assert_eq!(names(&events(&test_repo.db).await[0]), ["refs/heads/main"]);
    })
    .await;
}

#[tokio::test]
async fn a_later_entry_decides_when_the_ref_moved_on() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (one, two) = (test_repo.commit("1"), test_repo.commit("2"));
        let updater = test_repo.updater();
        record_intent(&test_repo, &updater, &[edit("main", None, Some(one))]).await;
        record_intent(&test_repo, &updater, &[edit("main", Some(one), Some(two))]).await;
        record_intent(&test_repo, &updater, &[edit("other", Some(one), None)]).await;
        test_repo.refs.transact(test_repo.id, &[edit("main", None, Some(two))]).await.unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        // `other` does not exist, which is what its deletion wanted.
        assert_eq!(states(&test_repo.db).await, ["confirmed"; 3]);
        assert_eq!(events(&test_repo.db).await.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn open_updates_are_settled_before_the_next_write() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (one, two) = (test_repo.commit("1"), test_repo.commit("2"));
        let edits = [edit("main", None, Some(one))];
        let updater = test_repo.updater();
        record_intent(&test_repo, &updater, &edits).await;
        test_repo.refs.transact(test_repo.id, &edits).await.unwrap();
        updater.inner().set_needs_recovery(test_repo.id, true);
        apply(&test_repo, &updater, vec![edit("main", Some(one), Some(two))]).await.unwrap();
        let events = events(&test_repo.db).await;
        assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(events[0].updates[0].new_id, one.to_string());
        assert!(updater.inner().needing_recovery().is_empty());
    })
    .await;
}

#[tokio::test]
async fn open_updates_are_settled_before_a_write_with_a_precondition() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let edits = [edit("main", None, Some(test_repo.commit("1")))];
        let updater = test_repo.updater();
        record_intent(&test_repo, &updater, &edits).await;
        test_repo.refs.transact(test_repo.id, &edits).await.unwrap();
        updater.inner().set_needs_recovery(test_repo.id, true);
        serve(async {
            let precondition = (HeaderName::from_static(PRECONDITION), HeaderValue::from_static("exists"));
            version::begin(&HeaderMap::from_iter([precondition]));
            drop(updater.lock(test_repo.id).await.unwrap());
            assert!(version::is_conditional() && version::require_checked().is_err());
        })
        .await;
        assert_eq!(states(&test_repo.db).await, ["confirmed"]);
    })
    .await;
}

#[tokio::test]
async fn an_update_that_is_cancelled_is_settled_before_the_next_one() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one, two) = (test_repo.updater(), test_repo.commit("1"), test_repo.commit("2"));
        for pause_us in [0, 500, 2_000, 8_000, 20_000] {
            let name = format!("b{pause_us}");
            let cut = apply(&test_repo, &updater, vec![edit(&name, None, Some(one))]);
            drop(tokio::time::timeout(std::time::Duration::from_micros(pause_us), cut).await);
        }
        apply(&test_repo, &updater, vec![edit("main", None, Some(two))]).await.unwrap();
        assert!(!states(&test_repo.db).await.contains(&"open".to_owned()));
        let sent: Vec<_> = events(&test_repo.db).await.iter().flat_map(names).collect();
        let refs = test_repo
            .refs
            .list(test_repo.id, "refs/heads/", git_store::repo::refs::Page { number: 1, size: 10 })
            .await
            .unwrap();
        let mut refs: Vec<_> = refs.entries.iter().map(|entry| entry.name.to_string()).collect();
        refs.sort_by_key(|name| sent.iter().position(|sent| sent == name));
        assert_eq!(sent, refs);
    })
    .await;
}

#[tokio::test]
async fn updates_of_a_repository_that_is_gone_are_dropped() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let one = test_repo.commit("1");
        record_intent(&test_repo, &test_repo.updater(), &[edit("main", None, Some(one))]).await;
        test_repo.store.delete(test_repo.id).unwrap();
        recover_at_start(&test_repo.updater()).await.unwrap();
        assert_eq!(states(&test_repo.db).await, ["dropped"]);
    })
    .await;
}

#[tokio::test]
async fn many_writers_at_once_get_numbers_and_events_in_one_order() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one) = (test_repo.updater(), test_repo.commit("1"));
        let writes = (0..8).map(|index| apply(&test_repo, &updater, vec![edit(&format!("b{index}"), None, Some(one))]));
        for outcome in futures_util::future::join_all(writes).await {
            outcome.unwrap();
        }
        let numbers: Vec<_> = events(&test_repo.db).await.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn a_rename_that_a_crash_broke_off_takes_rule_and_old_name_along_if_the_refs_had_moved() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let (updater, one) = (test_repo.updater(), test_repo.commit("1"));
        apply(&test_repo, &updater, vec![edit("main", None, Some(one))]).await.unwrap();
        let pattern = Pattern::parse("main").unwrap();
        let rule = Rule {
            id: 0,
            pattern,
            allow_force: false,
            allow_delete: false,
            forbids_push: false,
            users: vec![7],
            checks: RequiredChecks::default(),
            mergers: Vec::new(),
            requires_current_head: false,
            reviews: RequiredReviews { approvals: 2, approvers: vec![8], ..RequiredReviews::default() },
            created_us: 5,
            updated_us: 5,
        };
        let mut tx = test_repo.db.begin().await.unwrap();
        ProtectionTable::set(&mut tx, test_repo.id, &rule).await.unwrap();
        tx.commit().await.unwrap();
        let edits = [edit("main", Some(one), None), edit("trunk", None, Some(one))];
        for (is_moved, branch) in [(false, "main"), (true, "trunk")] {
            let updater = test_repo.updater();
            let guard = WriteGuard::lock_only(&updater, test_repo.id).await;
            let change = RefTransaction::new(UpdateKind::Rename, 7, edits.to_vec());
            updater.record_intent::<()>(&guard, &change, None).await.unwrap();
            drop(guard);
            if is_moved {
                test_repo.refs.transact(test_repo.id, &edits).await.unwrap();
            }
            recover_at_start(&test_repo.updater()).await.unwrap();
            let rules = ProtectionTable::new(test_repo.db.clone()).list(test_repo.id).await.unwrap().into_vec();
            let kept: Vec<_> =
                rules.iter().map(|rule| (rule.pattern.as_str(), &rule.users[..], &rule.reviews)).collect();
            assert_eq!(kept, [(branch, &[7][..], &rule.reviews)]);
            let head = test_repo.refs.head(test_repo.id).await.unwrap();
            assert_eq!((head.branch.to_ref(), head.tip), (name(branch), Some(one)));
            let old = BranchName::parse(b"main").unwrap();
            let found = RenamedBranchTable::new(test_repo.db.clone()).find(test_repo.id, &old).await.unwrap();
            assert_eq!(found.map(|new| new.to_ref()), is_moved.then(|| name("trunk")));
        }
    })
    .await;
}
