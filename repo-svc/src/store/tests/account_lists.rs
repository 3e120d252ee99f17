use super::organizations::make;
use super::*;
use crate::store::{AccountFilter, AccountOrder};

#[tokio::test]
async fn users_are_listed_in_an_order_and_by_name_or_text() {
    on_both(async |db: Db| {
        let store = AccountTable::new(db.clone());
        let (carl, ada, bob) = (user(&db, "carl").await, user(&db, "Ada").await, user(&db, "bob").await);
        make(&db, "acme", &ada).await;
        let list = async |filter: AccountFilter, order: AccountOrder, page: Page| {
            let (rows, total) = store.list(&filter, order, page).await.unwrap();
            (rows.into_iter().map(|row| row.username).collect::<Vec<_>>(), total)
        };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (order, expected) in [
            (AccountOrder::Oldest, ["carl", "Ada", "bob"]),
            (AccountOrder::Newest, ["bob", "Ada", "carl"]),
            (AccountOrder::Name, ["Ada", "bob", "carl"]),
            (AccountOrder::NameDescending, ["carl", "bob", "Ada"]),
        ] {
            let everybody = list(AccountFilter::default(), order, all()).await;
            assert_eq!(everybody, (names(&expected), 3), "{order:?}");
        }
        let second = list(AccountFilter::default(), AccountOrder::Name, Page::nearest(2, 2, 2)).await;
        assert_eq!(second, (names(&["carl"]), 3));
        for (key, expected) in [("ada", &["Ada"][..]), ("ad", &[]), ("acme", &[])] {
            let filter = AccountFilter { name_key: Some(key.to_owned()), text: None };
            let found = list(filter, AccountOrder::Oldest, all()).await;
            assert_eq!(found, (names(expected), expected.len() as i64), "{key}");
        }
        for (text, expected) in
            [("AR", &["carl"][..]), ("full n", &["carl", "Ada", "bob"]), ("%", &["carl", "Ada", "bob"])]
        {
            let filter = AccountFilter { name_key: None, text: SearchText::parse_name(text, "q").unwrap() };
            let found = list(filter, AccountOrder::Oldest, all()).await;
            assert_eq!(found, (names(expected), expected.len() as i64), "{text}");
        }
        let ids = [bob.id.0, carl.id.0];
        let mut details = store.details(&ids).await.unwrap();
        details.sort_by_key(|row| row.id);
        assert_eq!(details.iter().map(|row| row.id).collect::<Vec<_>>(), [carl.id.0, bob.id.0]);
        let one = &details[0];
        assert_eq!((one.is_active, one.created_us, one.website.as_str(), one.location.as_str()), (true, NOW, "", ""));
        let mut tx = db.begin().await.unwrap();
        assert_eq!(store.details_in(&mut tx, carl.id).await.unwrap().as_ref(), Some(one));
        assert_eq!(store.details_in(&mut tx, UserId(999)).await.unwrap(), None);
    })
    .await;
}
