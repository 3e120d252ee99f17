use ferrite_core::Secret;
use ferrite_outbound::{OutboundUrl, Policy};
use ferrite_proto::id::RepositoryId;

use super::*;
use crate::store::purge;
use crate::testing::{on_each_schema, sealer};

const REPOSITORY: RepositoryId = RepositoryId(42);
const LIMIT: i64 = 10;

fn new(owner: Owner, secret: Option<&str>) -> NewHook {
    NewHook {
        owner,
        kind: HookType::Slack,
        url: OutboundUrl::parse("https://ada:hunter1@example.com/x?y", &Policy::default()).unwrap(),
        content_type: ContentType::Form,
        secret: secret.map(Secret::new),
        options: ChatOptions {
            channel: Some("#\u{1f600}'".to_owned()),
            color: Some(String::new()),
            ..Default::default()
        },
        events: HookEvents::parse(&["release", "push"]).unwrap(),
        branch_filter: BranchFilter::parse("release/*").unwrap(),
        authorization: Some(Secret::new("Bearer hunter3")),
        is_active: true,
    }
}

fn of_repository(secret: Option<&str>) -> NewHook {
    new(Owner::Repository(REPOSITORY), secret)
}

fn store(db: &Db) -> HookTable {
    HookTable::new(db.clone(), sealer())
}

async fn write(store: &HookTable, new: &NewHook) -> Result<StoredHook, HookError> {
    let mut tx = store.db().begin().await.unwrap();
    let hook = store.insert(&mut tx, new, LIMIT, 5).await?;
    tx.commit().await.unwrap();
    Ok(hook)
}

async fn all(store: &HookTable, owner: Owner) -> Result<(Vec<StoredHook>, i64), HookError> {
    store.list(owner, Page::parse(1, 1000, 1000).unwrap()).await
}

#[tokio::test]
async fn a_hook_is_read_as_it_was_written_and_its_secrets_open_with_the_key_alone() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = store(&db);
        let first = write(&store, &of_repository(Some("hunter2"))).await.unwrap();
        let second = write(&store, &of_repository(None)).await.unwrap();
        assert!(first.id < second.id);
        let (hooks, total) = all(&store, Owner::Repository(REPOSITORY)).await.unwrap();
        assert_eq!(total, 2);
        let sealer = sealer();
        assert_eq!(hooks[0].url(&sealer).unwrap().expose(), "https://ada:hunter1@example.com/x?y");
        assert_eq!(hooks[0].shown_url, "https://ada:***@example.com/x?y");
        assert_eq!(hooks[0].secret(&sealer).unwrap().unwrap().expose(), "hunter2");
        assert_eq!(hooks[0].authorization(&sealer).unwrap(), Some(Secret::new("Bearer hunter3")));
        let shown = (hooks[0].shown_authorization.as_str(), hooks[0].branch_filter.as_str());
        assert_eq!(shown, ("Bearer ***", "release/*"));
        assert_eq!((hooks[1].secret(&sealer).unwrap(), hooks[1].has_secret()), (None, false));
        assert_eq!(hooks[0].secret(&Sealer::new(&[1; 32], &[], secrets::SERVICE)), Err(SealError::Unopenable));
        assert_eq!(hooks, [first.clone(), second]);
        assert_eq!(store.find(Owner::Repository(REPOSITORY), first.id).await.unwrap(), first);
        let other = Owner::Organization(REPOSITORY.0);
        assert!(matches!(store.find(other, first.id).await, Err(HookError::HookNotFound)));
    })
    .await;
}

#[tokio::test]
async fn a_replaced_secret_signs_beside_the_new_one_until_its_time() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (store, sealer) = (store(&db), sealer());
        let mut hook = write(&store, &of_repository(Some("one"))).await.unwrap();
        hook.set_secret(&sealer, &Secret::new("two"), 100).unwrap();
        let mut tx = db.begin().await.unwrap();
        store.update(&mut tx, &hook).await.unwrap();
        tx.commit().await.unwrap();
        let read = store.hook(hook.id).await.unwrap().unwrap();
        assert_eq!(read.secret(&sealer).unwrap(), Some(Secret::new("two")));
        assert_eq!(read.previous_secret(&sealer, 99).unwrap(), Some(Secret::new("one")));
        assert_eq!(read.previous_secret(&sealer, 100).unwrap(), None);
        hook.set_secret(&sealer, &Secret::new("three"), 200).unwrap();
        assert_eq!(hook.previous_secret(&sealer, 150).unwrap(), Some(Secret::new("two")));
        hook.drop_previous_secret();
        assert_eq!(hook.previous_secret(&sealer, 0).unwrap(), None);
        hook.remove_secret();
        hook.set_secret(&sealer, &Secret::new("four"), 300).unwrap();
        assert_eq!(hook.previous_secret(&sealer, 0).unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_value_in_a_row_is_an_internal_error() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = store(&db);
        let hook = write(&store, &of_repository(None)).await.unwrap();
        db.execute("UPDATE hooks SET events = 'push,gollum' WHERE id = $1", &args![hook.id]).await.unwrap();
        let found = all(&store, Owner::Repository(REPOSITORY)).await;
        assert!(matches!(found, Err(HookError::Unreadable { column: "events", .. })));
    })
    .await;
}

#[tokio::test]
async fn concurrent_writers_together_keep_the_limit_of_an_owner() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = store(&db);
        for owner in [Owner::Site, Owner::Organization(3), Owner::Repository(REPOSITORY)] {
            let hook = new(owner, None);
            let writes = (0..LIMIT + 5).map(|_| write(&store, &hook));
            let written = futures_util::future::join_all(writes).await.into_iter().filter(Result::is_ok).count();
            assert_eq!(i64::try_from(written), Ok(LIMIT), "{owner:?}");
            assert_eq!(all(&store, owner).await.unwrap().1, LIMIT, "{owner:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn rows_of_before_are_sealed_once_and_another_key_is_refused() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (store, sealer) = (store(&db), sealer());
        let rows = [("http://127.0.0.1/a", Some("hunter2")), ("http://ada:hunter1@example.com/", None), ("a@b", None)];
        for (url, secret) in rows {
            let insert = "INSERT INTO hooks (owner_kind, owner_id, type, url, shown_url, content_type, secret, events, is_active, \
                 created_us, updated_us) VALUES (2, 42, 'gogs', $1, '', 'json', $2, 'push', TRUE, 1, 1)";
            let secret = Value::Bytes(secret.map(|secret| secret.as_bytes().to_vec()));
            db.execute(insert, &args![url.as_bytes().to_vec(), secret]).await.unwrap();
        }
        store.check_key().await.unwrap();
        let any = Policy::new("0.0.0.0/0,::/0".parse().unwrap());
        assert_eq!(store.seal_rows(&any).await.unwrap(), 3);
        assert_eq!(store.seal_rows(&any).await.unwrap(), 0);
        let (hooks, _) = all(&store, Owner::Repository(REPOSITORY)).await.unwrap();
        let shown: Vec<_> = hooks.iter().map(|hook| hook.shown_url.as_str()).collect();
        assert_eq!(shown, ["http://127.0.0.1/a", "http://ada:***@example.com/", "***"]);
        for (hook, (url, secret)) in hooks.iter().zip(rows) {
            assert_eq!(hook.url(&sealer).unwrap().expose(), url);
            assert_eq!(hook.secret(&sealer).unwrap(), secret.map(Secret::new));
        }
        store.check_key().await.unwrap();
        let other = HookTable::new(db.clone(), Sealer::new(&[1; 32], &[], secrets::SERVICE));
        assert!(matches!(other.check_key().await, Err(HookError::Sealed(SealError::Unopenable))));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_organization_loses_its_hooks_and_gets_no_new_ones() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = store(&db);
        for owner in [Owner::Organization(7), Owner::Organization(8), Owner::Site] {
            write(&store, &new(owner, None)).await.unwrap();
        }
        for removed in [1, 0] {
            let mut tx = db.begin().await.unwrap();
            assert_eq!(purge::organization(&mut tx, 7, 9).await.unwrap(), removed);
            tx.commit().await.unwrap();
        }
        let late = write(&store, &new(Owner::Organization(7), None)).await;
        assert!(matches!(late, Err(HookError::Auth(AuthError::OrganizationNotFound))));
        for (owner, count) in [(Owner::Organization(7), 0), (Owner::Organization(8), 1), (Owner::Site, 1)] {
            assert_eq!(all(&store, owner).await.unwrap().1, count);
        }
    })
    .await;
}

#[tokio::test]
async fn a_deletion_includes_hooks_of_concurrent_transactions() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = store(&db);
        let (started, starts) = tokio::sync::oneshot::channel();
        let register = async {
            let mut tx = db.begin().await.unwrap();
            store.insert(&mut tx, &of_repository(None), LIMIT, 1).await.unwrap();
            started.send(()).unwrap();
            // Long enough for the deletion to reach the lock. A shorter sleep tests less, but does
            // not fail.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            tx.commit().await.unwrap();
        };
        let delete = async {
            starts.await.unwrap();
            let mut tx = db.begin().await.unwrap();
            let removed = purge::repository(&mut tx, REPOSITORY, 9).await.unwrap();
            tx.commit().await.unwrap();
            removed
        };
        let ((), removed) = tokio::join!(register, delete);
        assert_eq!(removed, 1);
        assert!(matches!(write(&store, &of_repository(None)).await, Err(HookError::RepositoryDeleted)));
        assert_eq!(all(&store, Owner::Repository(REPOSITORY)).await.unwrap().1, 0);
    })
    .await;
}
