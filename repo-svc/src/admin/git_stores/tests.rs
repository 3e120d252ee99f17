use ferrite_db::args;

use super::*;
use crate::testing::on_both;

const AUDIT: &str = "SELECT action, target, details FROM audit_log WHERE target_kind = $1 ORDER BY id";
/// Inserts as many stores as are allowed.
const INSERT_MOST_STORES: &str = "INSERT INTO stores (name, created_us) WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL \
     SELECT number + 1 FROM numbers WHERE number < 1024) SELECT 'git-' || CAST(number AS TEXT), 1 FROM numbers";

fn name(text: &str) -> StoreName {
    text.parse().unwrap()
}

#[tokio::test]
async fn an_operator_adds_weighs_and_removes_stores() {
    on_both(async |db: Db| {
        let stores = GitStores::over(db.clone());
        let listed = async || {
            let stores = stores.list().await.unwrap();
            stores.into_iter().map(|store| (store.name, store.weight)).collect::<Vec<_>>()
        };
        assert!(stores.add(&name("git-0"), None).await.unwrap());
        assert!(stores.add(&name("git-1"), Some(7)).await.unwrap());
        assert!(!stores.add(&name("git-1"), None).await.unwrap());
        assert_eq!(listed().await, [("git-0".to_owned(), 100), ("git-1".to_owned(), 7)]);
        assert!(!stores.add(&name("git-1"), Some(8)).await.unwrap());
        stores.set_weight(&name("git-0"), 0).await.unwrap();
        stores.set_weight(&name("git-0"), 0).await.unwrap();
        assert_eq!(listed().await, [("git-0".to_owned(), 0), ("git-1".to_owned(), 8)]);
        stores.remove(&name("git-1")).await.unwrap();
        assert_eq!(listed().await, [("git-0".to_owned(), 0)]);

        for weight in [-1, 10_001] {
            assert!(matches!(stores.add(&name("git-2"), Some(weight)).await, Err(RepoError::Invalid(_))));
            assert!(matches!(stores.set_weight(&name("git-0"), weight).await, Err(RepoError::Invalid(_))));
        }
        assert!(matches!(stores.set_weight(&name("git-2"), 1).await, Err(RepoError::StoreNotFound)));
        assert!(matches!(stores.remove(&name("git-2")).await, Err(RepoError::StoreNotFound)));

        let entries: Vec<(String, String, String)> = db.all(AUDIT, &args!["store"]).await.unwrap();
        let entries: Vec<_> =
            entries.iter().map(|(action, target, details)| format!("{action} {target} {details}")).collect();
        let expected = [
            r#"store.add git-0 {"weight":"100"}"#,
            r#"store.add git-1 {"weight":"7"}"#,
            r#"store.update git-1 {"weight":"8"}"#,
            r#"store.update git-0 {"weight":"0"}"#,
            "store.remove git-1 {}",
        ];
        assert_eq!(entries, expected);
    })
    .await;
}

#[tokio::test]
async fn the_number_of_stores_is_bounded() {
    on_both(async |db: Db| {
        let stores = GitStores::over(db.clone());
        db.execute(INSERT_MOST_STORES, &[]).await.unwrap();
        assert!(matches!(stores.add(&name("one-more"), None).await, Err(RepoError::StoreLimit { limit: 1_024 })));
        assert_eq!(stores.list().await.unwrap().len(), 1_024);
    })
    .await;
}
