use ferrite_events::part_uuid;
use ferrite_proto::repo;

use super::*;
use crate::testing::on_each_schema;

fn new(repository: i64, source: Source, part: i64) -> NewEvent {
    NewEvent {
        uuid: part_uuid("test", repository * 100_000 + source.id() * 10_000 + part),
        repository: RepositoryId(repository),
        source,
        user: UserId(7),
        name: "push",
        fact: Event { repository_id: repository, ..Event::default() },
        payload: None,
        is_dispatched: false,
        is_in_feed: true,
        happened_us: 1,
    }
}

fn made(event_id: i64, payload: &str) -> MadePayload<'_> {
    MadePayload { event_id, revision: 0, payload }
}

async fn add(db: &Db, events: &[NewEvent]) -> Vec<i64> {
    let mut tx = db.begin().await.unwrap();
    for event in events {
        lock_repository(&mut tx, event.repository).await.unwrap();
    }
    let ids = insert(&mut tx, events, 1).await.unwrap();
    tx.commit().await.unwrap();
    ids
}

async fn add_hook(db: &Db, owner_kind: i64, owner_id: i64, events: &str, is_active: bool) -> i64 {
    let sql = "INSERT INTO hooks (owner_kind, owner_id, type, url, shown_url, content_type, events, is_active, created_us, updated_us) \
         VALUES ($1, $2, 'native', $3, '', 'json', $4, $5, 1, 1) RETURNING id";
    let mut tx = db.begin().await.unwrap();
    let (id,): (i64,) = tx.one(sql, &args![owner_kind, owner_id, vec![1_u8], events, is_active]).await.unwrap();
    tx.commit().await.unwrap();
    id
}

fn streams(events: &[StoredEvent]) -> Vec<(i64, Source)> {
    events.iter().map(|event| (event.repository.0, event.source)).collect()
}

#[tokio::test]
async fn a_repository_with_many_events_holds_up_no_other() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = EventTable::new(db.clone());
        let mut many: Vec<_> = (0..600).map(|part| new(1, Source::Git, part)).collect();
        many.push(new(1, Source::Issue, 0));
        many.push(new(2, Source::Git, 0));
        let ids = add(&db, &many).await;
        assert!(ids.is_sorted() && ids.len() == 602);
        let first = store.undispatched(None, None, 64).await.unwrap();
        assert_eq!(first.iter().map(|event| event.id).collect::<Vec<_>>(), ids[..64]);
        let second = store.undispatched(Some((RepositoryId(1), Source::Git)), None, 64).await.unwrap();
        assert_eq!(streams(&second), [(1, Source::Issue), (2, Source::Git)]);
        let without_git = store.undispatched(None, Some(Source::Git), 64).await.unwrap();
        assert_eq!(streams(&without_git), [(1, Source::Issue)]);
    })
    .await;
}

#[tokio::test]
async fn an_event_is_marked_once_and_keeps_its_first_payload() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = EventTable::new(db.clone());
        let ids = add(&db, &[new(1, Source::Git, 0), new(1, Source::Git, 1)]).await;
        store.set_payloads(RepositoryId(1), &[made(ids[0], "first")]).await.unwrap();
        let mark = async || {
            let mut tx = db.begin().await.unwrap();
            let marked = mark_dispatched(&mut tx, ids.clone()).await.unwrap();
            assert_eq!(set_payloads(&mut tx, &[made(ids[0], "second")]).await.unwrap(), 0);
            tx.commit().await.unwrap();
            marked
        };
        assert_eq!(mark().await, HashMap::from([(ids[0], 0), (ids[1], 0)]));
        assert_eq!(mark().await, HashMap::new());
        let page = store.feed_page(RepositoryId(1), 0, 10, None).await.unwrap();
        assert_eq!(page.iter().map(|event| event.payload.as_deref()).collect::<Vec<_>>(), [Some("first"), None]);
        assert_eq!(store.undispatched(None, None, 10).await.unwrap().len(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_payload_of_before_a_text_was_taken_out_is_not_stored() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = EventTable::new(db.clone());
        let ids = add(&db, &[new(1, Source::Issue, 0)]).await;
        db.execute("UPDATE events SET revision = 1 WHERE id = $1", &args![ids[0]]).await.unwrap();
        let bytes =
            "SELECT r.kept_bytes, e.bytes FROM events e JOIN hook_repositories r ON r.repository_id = e.repository_id";
        let (_, before): (i64, i64) = db.one(bytes, &[]).await.unwrap();
        let store_of = async |revision| {
            let made = MadePayload { revision, ..made(ids[0], "text") };
            store.set_payloads(RepositoryId(1), &[made]).await.unwrap();
            let stored = store.feed_page(RepositoryId(1), 0, 10, None).await.unwrap().remove(0).payload;
            let (kept, of_event): (i64, i64) = db.one(bytes, &[]).await.unwrap();
            (stored, kept - before, of_event - before)
        };
        assert_eq!(store_of(0).await, (None, 0, 0));
        assert_eq!(store_of(1).await, (Some("text".to_owned()), 4, 4));
        let mut tx = db.begin().await.unwrap();
        assert_eq!(mark_dispatched(&mut tx, ids.clone()).await.unwrap(), HashMap::from([(ids[0], 1)]));
    })
    .await;
}

#[tokio::test]
async fn two_readers_of_a_feed_store_its_payloads_at_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = EventTable::new(db.clone());
        for round in 0..10 {
            let told: Vec<_> = (0..200).map(|part| new(1, Source::Git, round * 200 + part)).collect();
            let forth: Vec<_> = add(&db, &told).await.iter().map(|id| made(*id, "made")).collect();
            let back: Vec<_> = forth.iter().rev().copied().collect();
            let (first, second) =
                tokio::join!(store.set_payloads(RepositoryId(1), &forth), store.set_payloads(RepositoryId(1), &back));
            first.and(second).unwrap();
        }
        store.set_payloads(RepositoryId(1), &[made(1, "again")]).await.unwrap();
        let page = store.feed_page(RepositoryId(1), 0, 3000, None).await.unwrap();
        assert!(page.len() == 2000 && page.iter().all(|event| event.payload.as_deref() == Some("made")));
    })
    .await;
}

#[tokio::test]
async fn a_feed_leaves_out_the_events_of_a_hidden_source() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = EventTable::new(db.clone());
        let told = [new(1, Source::Git, 0), new(1, Source::Issue, 0), new(1, Source::Issue, 1), new(1, Source::Git, 1)];
        let ids = add(&db, &told).await;
        let seen = async |after, limit, without| {
            let page = store.feed_page(RepositoryId(1), after, limit, without).await.unwrap();
            page.into_iter().map(|event| event.id).collect::<Vec<_>>()
        };
        assert_eq!(seen(0, 10, None).await, ids);
        assert_eq!(seen(0, 2, Some(Source::Issue)).await, [ids[0], ids[3]]);
        assert_eq!(seen(ids[0], 10, Some(Source::Issue)).await, [ids[3]]);
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_cannot_be_read_costs_the_others_nothing() {
    on_each_schema(&crate::migrations(), |db| async move {
        add_hook(&db, 2, 1, "push,unheard", true).await;
        let site = add_hook(&db, 0, 0, "push", true).await;
        let own = add_hook(&db, 2, 1, "push", true).await;
        add_hook(&db, 2, 1, "push", false).await;
        let mut tx = db.begin().await.unwrap();
        let hooks = matching_hooks(&mut tx, RepositoryId(1), None).await.unwrap();
        assert_eq!(hooks.iter().map(|hook| hook.id.0).collect::<Vec<_>>(), [own, site]);
    })
    .await;
}

#[tokio::test]
async fn events_are_wanted_if_an_active_hook_may_get_them() {
    on_each_schema(&crate::migrations(), |db| async move {
        let wanted = async |repository: i64| {
            let mut tx = db.begin().await.unwrap();
            is_wanted(&mut tx, RepositoryId(repository)).await.unwrap()
        };
        add_hook(&db, 2, 1, "push", true).await;
        add_hook(&db, 2, 2, "push", false).await;
        add_hook(&db, 0, 0, "push", false).await;
        assert_eq!((wanted(1).await, wanted(2).await), (true, false));
        add_hook(&db, 1, 9, "push", true).await;
        assert!(wanted(2).await, "the organization of a repository is not known here");
    })
    .await;
}

#[tokio::test]
async fn a_deleted_repository_is_kept_as_it_was() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = EventTable::new(db.clone());
        let mut tx = db.begin().await.unwrap();
        assert!(!lock_repository(&mut tx, RepositoryId(1)).await.unwrap());
        lock_repository(&mut tx, RepositoryId(2)).await.unwrap();
        let snapshot = repo::Repository { name: "demo".to_owned(), ..Default::default() };
        keep_snapshot(&mut tx, RepositoryId(1), &snapshot).await.unwrap();
        tx.commit().await.unwrap();
        let found = store.snapshots(&[RepositoryId(1), RepositoryId(2), RepositoryId(3)]).await.unwrap();
        assert_eq!(found, HashMap::from([(RepositoryId(1), snapshot)]));
    })
    .await;
}
