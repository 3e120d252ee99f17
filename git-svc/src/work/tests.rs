//! What a crash may leave behind at each step, and what becomes of it.

use ferrite_kit::{
    args,
    db::Db,
    idempotency::{IdempotencyError, IdempotencyKey},
};
use ferrite_proto::{
    events::{Event, RefsUpdated, event::Fact},
    git::{PutContentsRequest, PutContentsResponse},
};
use git2::Oid;
use prost::Message as _;

use super::{
    Receipt, Writer, sweep_at_start,
    writer::{Outcome, WriteGuard},
};
use crate::{
    error::GitError,
    failure::Failure,
    name::RefName,
    push::PushOptions,
    refs::Edit,
    store::{Change, Journal, NewBatch, UpdateKind},
    testing::{Bench, on_each},
};

fn name(name: &str) -> RefName {
    RefName::parse(format!("refs/heads/{name}").as_bytes()).unwrap()
}

fn edit(branch: &str, old: Option<Oid>, new: Option<Oid>) -> Edit {
    Edit { name: name(branch), old, new }
}

async fn apply(bench: &Bench, writer: &Writer, edits: Vec<Edit>) -> Result<(), Failure> {
    let guard = writer.lock(bench.id).await?;
    let change = Change::new(UpdateKind::Push, 7, edits);
    drop(writer.apply::<()>(&guard, &change, None).await?);
    Ok(())
}

/// What a process does before it is killed between the intent and the transaction.
async fn intend(bench: &Bench, writer: &Writer, edits: &[Edit]) -> NewBatch {
    intend_with(bench, writer, edits, None).await
}

/// The same, for a write that may be repeated.
async fn intend_with(bench: &Bench, writer: &Writer, edits: &[Edit], key: Option<&IdempotencyKey>) -> NewBatch {
    let guard = WriteGuard::unsettled(writer, bench.id).await;
    let change = Change::new(UpdateKind::Push, 7, edits.to_vec());
    let answer = PutContentsResponse { branch: b"main".to_vec(), ..PutContentsResponse::default() };
    let receipt = key.map(|key| Receipt { key, answer: &answer });
    writer.intend(&guard, &change, receipt).await.unwrap()
}

fn key(path: &[u8]) -> IdempotencyKey {
    let mut request = tonic::Request::new(PutContentsRequest { path: path.to_vec(), ..PutContentsRequest::default() });
    request.metadata_mut().insert("idempotency-key", "once".parse().unwrap());
    IdempotencyKey::of(&request, 7, "PutContents").unwrap().unwrap()
}

#[tokio::test]
async fn an_answer_outlives_a_crash_exactly_when_its_write_does() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let one = bench.commit("1");
        let edits = [edit("main", None, Some(one))];
        intend_with(&bench, &bench.writer(), &edits, Some(&key(b"a"))).await;
        sweep_at_start(&bench.writer()).await.unwrap();
        assert_eq!(key(b"a").replay::<PutContentsResponse>(&bench.db).await.unwrap(), None);

        intend_with(&bench, &bench.writer(), &edits, Some(&key(b"a"))).await;
        bench.refs.transact(bench.id, &edits).await.unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        let answer: PutContentsResponse = key(b"a").replay(&bench.db).await.unwrap().unwrap();
        assert_eq!(answer.branch, b"main");
        let other = key(b"b").replay::<PutContentsResponse>(&bench.db).await;
        assert!(matches!(other, Err(IdempotencyError::Reused)));
        assert_eq!(states(&bench.db).await, ["dropped", "confirmed"]);
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_a_crash_touched_is_checked_soon() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        apply(&bench, &bench.writer(), vec![edit("main", None, Some(bench.commit("1")))]).await.unwrap();
        let sql = "UPDATE maintenance SET checked_us = 1, next_us = 2";
        bench.db.execute(sql, &[]).await.unwrap();
        let times =
            async || bench.db.one::<(i64, i64)>("SELECT checked_us, next_us FROM maintenance", &[]).await.unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        assert_eq!(times().await, (1_i64, 2_i64), "nothing was open");
        intend(&bench, &bench.writer(), &[edit("other", None, Some(bench.commit("2")))]).await;
        sweep_at_start(&bench.writer()).await.unwrap();
        assert_eq!(times().await, (0_i64, 0_i64));
    })
    .await;
}

/// The states of all rows, oldest first.
async fn states(db: &Db) -> Vec<String> {
    let rows: Vec<(String,)> = db.all("SELECT state FROM ref_journal ORDER BY id", &[]).await.unwrap();
    rows.into_iter().map(|(state,)| state).collect()
}

/// The recorded events, oldest first.
async fn events(db: &Db) -> Vec<RefsUpdated> {
    let rows: Vec<(Vec<u8>,)> =
        db.all("SELECT payload FROM outbox WHERE subscriber = $1 ORDER BY id", &args!["repo-svc"]).await.unwrap();
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
        let bench = Bench::new(db).await;
        let (writer, one, two) = (bench.writer(), bench.commit("1"), bench.commit("2"));
        apply(&bench, &writer, vec![edit("main", None, Some(one)), edit("b", None, Some(one))]).await.unwrap();
        apply(&bench, &writer, vec![edit("main", Some(one), Some(two))]).await.unwrap();
        assert_eq!(states(&bench.db).await, ["confirmed"; 3]);
        let events = events(&bench.db).await;
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
        let bench = Bench::new(db).await;
        let (writer, one, two) = (bench.writer(), bench.commit("1"), bench.commit("2"));
        let refused =
            apply(&bench, &writer, vec![edit("a", None, Some(one)), edit("main", Some(one), Some(two))]).await;
        assert!(matches!(refused, Err(Failure::Git(GitError::RefConflict { .. }))), "{refused:?}");
        assert_eq!(states(&bench.db).await, ["dropped"; 2]);
        assert!(events(&bench.db).await.is_empty());
        assert_eq!(bench.refs.resolve(bench.id, name("a")).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_crash_before_the_transaction_drops_the_update() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let one = bench.commit("1");
        intend(&bench, &bench.writer(), &[edit("main", None, Some(one))]).await;
        sweep_at_start(&bench.writer()).await.unwrap();
        assert_eq!(states(&bench.db).await, ["dropped"]);
        assert!(events(&bench.db).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_crash_after_the_transaction_confirms_the_update() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let one = bench.commit("1");
        let edits = [edit("trunk", None, Some(one))];
        intend(&bench, &bench.writer(), &edits).await;
        bench.refs.transact(bench.id, &edits).await.unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        assert_eq!(states(&bench.db).await, ["confirmed"]);
        let events = events(&bench.db).await;
        assert_eq!(events.len(), 1);
        // The crash came before HEAD moved as well.
        assert_eq!(events[0].default_branch, b"trunk");
        assert_eq!(bench.refs.head(bench.id).await.unwrap().branch.as_bytes(), b"trunk");
    })
    .await;
}

#[tokio::test]
async fn what_was_said_along_with_a_push_outlives_a_crash() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let (one, writer) = (bench.commit("1"), bench.writer());
        let said = ["", "ci.skip", " spaced \u{e9}=\u{4e16} ", "x"];
        let mut options = PushOptions::default();
        said.iter().for_each(|line| options.add(line.as_bytes()).unwrap());
        let edits = vec![edit("dropped", None, Some(one)), edit("main", None, Some(one))];
        let change = Change { options, ..Change::new(UpdateKind::Push, 7, edits) };
        let guard = WriteGuard::unsettled(&writer, bench.id).await;
        writer.intend::<PutContentsResponse>(&guard, &change, None).await.unwrap();
        drop(guard);
        // The row that carries them is not among those that happened.
        bench.refs.transact(bench.id, &change.edits[1..]).await.unwrap();
        sweep_at_start(&writer).await.unwrap();
        let more = Change { edits: vec![edit("late", None, Some(one))], ..change };
        drop(writer.apply::<()>(&writer.lock(bench.id).await.unwrap(), &more, None).await.unwrap());
        apply(&bench, &writer, vec![edit("silent", None, Some(one))]).await.unwrap();
        let told: Vec<_> = events(&bench.db).await.into_iter().map(|event| event.push_options).collect();
        assert_eq!(told, [said.map(str::to_owned).to_vec(), said.map(str::to_owned).to_vec(), Vec::new()]);
    })
    .await;
}

#[tokio::test]
async fn a_crash_inside_the_transaction_tells_what_happened() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let one = bench.commit("1");
        let edits = [edit("main", None, Some(one)), edit("late", None, Some(one))];
        intend(&bench, &bench.writer(), &edits).await;
        bench.refs.transact(bench.id, &edits[..1]).await.unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        assert_eq!(states(&bench.db).await, ["confirmed", "dropped"]);
        assert_eq!(names(&events(&bench.db).await[0]), ["refs/heads/main"]);
    })
    .await;
}

#[tokio::test]
async fn a_later_entry_decides_when_the_ref_moved_on() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let (one, two) = (bench.commit("1"), bench.commit("2"));
        let writer = bench.writer();
        intend(&bench, &writer, &[edit("main", None, Some(one))]).await;
        intend(&bench, &writer, &[edit("main", Some(one), Some(two))]).await;
        intend(&bench, &writer, &[edit("other", Some(one), None)]).await;
        bench.refs.transact(bench.id, &[edit("main", None, Some(two))]).await.unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        // `other` is nowhere, as its deletion wanted it.
        assert_eq!(states(&bench.db).await, ["confirmed"; 3]);
        assert_eq!(events(&bench.db).await.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2, 3]);
    })
    .await;
}

#[tokio::test]
async fn open_updates_are_settled_before_the_next_write() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let (one, two) = (bench.commit("1"), bench.commit("2"));
        let edits = [edit("main", None, Some(one))];
        let writer = bench.writer();
        intend(&bench, &writer, &edits).await;
        bench.refs.transact(bench.id, &edits).await.unwrap();
        writer.inner().set_unsettled(bench.id, true);
        apply(&bench, &writer, vec![edit("main", Some(one), Some(two))]).await.unwrap();
        let events = events(&bench.db).await;
        assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(events[0].updates[0].new_id, one.to_string());
        assert!(writer.inner().unsettled().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_writer_that_is_cut_off_leaves_its_update_to_the_next_one() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let (writer, one, two) = (bench.writer(), bench.commit("1"), bench.commit("2"));
        for pause_us in [0, 500, 2_000, 8_000, 20_000] {
            let name = format!("b{pause_us}");
            let cut = apply(&bench, &writer, vec![edit(&name, None, Some(one))]);
            drop(tokio::time::timeout(std::time::Duration::from_micros(pause_us), cut).await);
        }
        apply(&bench, &writer, vec![edit("main", None, Some(two))]).await.unwrap();
        assert!(!states(&bench.db).await.contains(&"open".to_owned()));
        let told: Vec<_> = events(&bench.db).await.iter().flat_map(names).collect();
        let there = bench.refs.list(bench.id, "refs/heads/", crate::refs::Page { number: 1, size: 10 }).await.unwrap();
        let mut there: Vec<_> = there.entries.iter().map(|entry| entry.name.to_string()).collect();
        there.sort_by_key(|name| told.iter().position(|told| told == name));
        assert_eq!(told, there);
    })
    .await;
}

#[tokio::test]
async fn an_update_that_is_confirmed_twice_is_told_once() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let (writer, one) = (bench.writer(), bench.commit("1"));
        let edits = vec![edit("main", None, Some(one))];
        let batch = intend(&bench, &writer, &edits).await;
        bench.refs.transact(bench.id, &edits).await.unwrap();
        let change = Change::new(UpdateKind::Push, 7, edits);
        let guard = WriteGuard::unsettled(&writer, bench.id).await;
        drop(writer.confirm(&guard, Outcome::of(batch.clone(), &change)).await.unwrap());
        drop(writer.confirm(&guard, Outcome::of(batch, &change)).await.unwrap());
        assert_eq!(events(&bench.db).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_intent_that_commits_late_is_settled_all_the_same() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let (writer, one) = (bench.writer(), bench.commit("1"));
        let mut tx = bench.db.begin().await.unwrap();
        let change = Change::new(UpdateKind::Push, 7, vec![edit("main", None, Some(one))]);
        Journal::intend(&mut tx, bench.id, &change, None, 0).await.unwrap();
        writer.inner().set_unsettled(bench.id, true);
        let commit = async {
            // Long enough for a writer that does not wait to look too early.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            tx.commit().await.unwrap();
        };
        let (locked, ()) = tokio::join!(writer.lock(bench.id), commit);
        drop(locked.unwrap());
        assert_eq!(states(&bench.db).await, ["dropped"]);
    })
    .await;
}

#[tokio::test]
async fn updates_of_a_repository_that_is_gone_are_dropped() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let one = bench.commit("1");
        intend(&bench, &bench.writer(), &[edit("main", None, Some(one))]).await;
        bench.store.delete(bench.id).unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        assert_eq!(states(&bench.db).await, ["dropped"]);
    })
    .await;
}

#[tokio::test]
async fn many_writers_at_once_get_numbers_and_events_in_one_order() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let (writer, one) = (bench.writer(), bench.commit("1"));
        let writes = (0..8).map(|index| apply(&bench, &writer, vec![edit(&format!("b{index}"), None, Some(one))]));
        for outcome in futures_util::future::join_all(writes).await {
            outcome.unwrap();
        }
        let numbers: Vec<_> = events(&bench.db).await.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn an_update_of_very_many_refs_is_told_in_several_events() {
    on_each(async |db| {
        let bench = Bench::new(db).await;
        let one = bench.commit("1");
        let edits: Vec<_> = (0..1200).map(|index| edit(&format!("branch-{index}"), None, Some(one))).collect();
        let writer = bench.writer();
        intend(&bench, &writer, &edits).await;
        // The names are packed here: writing so many files would take long.
        let packed: String = edits.iter().map(|edit| format!("{one} {}\n", edit.name)).collect();
        std::fs::write(bench.store.path(bench.id).join("packed-refs"), packed).unwrap();
        sweep_at_start(&bench.writer()).await.unwrap();
        let events = events(&bench.db).await;
        assert!(events.len() > 1);
        assert_eq!(events.iter().map(|event| event.updates.len()).sum::<usize>(), 1200);
        assert!(events.iter().all(|event| event.number == 1 && event.encoded_len() < 64 << 10));
    })
    .await;
}
