//! Tests of the webhook store, on both databases.

use ferrite_kit::db::{Db, Tx};
use ferrite_kit::page::Page;
use ferrite_kit::{Secret, args};
use ferrite_proto::id::RepositoryId;

use super::HookStore;
use crate::error::HookError;
use crate::model::{ChatOptions, ContentType, Hook, HookEvents, HookType, HookUrl, NewHook};
use crate::testing::on_each_schema;

const REPOSITORY: RepositoryId = RepositoryId(1);

fn new(secret: Option<&str>) -> NewHook {
    NewHook {
        repository: REPOSITORY,
        kind: HookType::Slack,
        url: HookUrl::parse("http://example.com/'").unwrap(),
        content_type: ContentType::Form,
        secret: secret.map(Secret::new),
        options: ChatOptions {
            channel: Some("#\u{1f600}'".to_owned()),
            color: Some(String::new()),
            ..Default::default()
        },
        events: HookEvents::parse(&["release", "push"]).unwrap(),
        is_active: true,
    }
}

async fn write(tx: Tx, store: &HookStore, new: &NewHook) -> Option<Hook> {
    let mut tx = tx;
    let hook = store.insert(&mut tx, new, 5).await.unwrap();
    tx.commit().await.unwrap();
    hook
}

async fn all(db: &Db) -> Result<(Vec<Hook>, i64), HookError> {
    HookStore::new(db.clone()).list(REPOSITORY, Page::parse(1, 1000, 1000).unwrap()).await
}

#[tokio::test]
async fn a_hook_is_read_as_it_was_written_without_its_secret() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = HookStore::new(db.clone());
        let first = write(db.begin().await.unwrap(), &store, &new(Some("hunter2"))).await.unwrap();
        let second = write(db.begin().await.unwrap(), &store, &new(None)).await.unwrap();
        assert!(first.id < second.id);
        let (hooks, total) = all(&db).await.unwrap();
        assert_eq!(total, 2);
        assert!(!format!("{hooks:?}").contains("hunter2"));
        assert_eq!(hooks, [first, second]);
        let secrets: Vec<(Option<Vec<u8>>,)> = db.all("SELECT secret FROM hooks ORDER BY id", &[]).await.unwrap();
        assert_eq!(secrets, [(Some(b"hunter2".to_vec()),), (None,)]);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_value_in_a_row_is_an_internal_error() {
    on_each_schema(&crate::migrations(), |db| async move {
        let hook = write(db.begin().await.unwrap(), &HookStore::new(db.clone()), &new(None)).await.unwrap();
        db.execute("UPDATE hooks SET events = 'push,wiki' WHERE id = $1", &args![hook.id]).await.unwrap();
        assert!(matches!(all(&db).await, Err(HookError::Unreadable { column: "events", .. })));
    })
    .await;
}

#[tokio::test]
async fn a_deletion_includes_hooks_of_concurrent_transactions() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = HookStore::new(db.clone());
        let (started, starts) = tokio::sync::oneshot::channel();
        let register = async {
            let mut tx = db.begin().await.unwrap();
            store.insert(&mut tx, &new(None), 1).await.unwrap().unwrap();
            started.send(()).unwrap();
            // Long enough for the deletion to reach the lock. A shorter sleep tests less, but does not fail.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            tx.commit().await.unwrap();
        };
        let delete = async {
            starts.await.unwrap();
            let mut tx = db.begin().await.unwrap();
            let removed = store.purge(&mut tx, REPOSITORY).await.unwrap();
            tx.commit().await.unwrap();
            removed
        };
        let ((), removed) = tokio::join!(register, delete);
        assert_eq!(removed, 1);
        assert_eq!(write(db.begin().await.unwrap(), &store, &new(None)).await, None);
        assert_eq!(all(&db).await.unwrap().1, 0);
    })
    .await;
}
