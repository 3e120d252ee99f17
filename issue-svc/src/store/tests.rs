//! Tests of the issue store, on both databases.

use ferrite_kit::db::Db;
use ferrite_kit::page::Page;
use ferrite_proto::id::{RepositoryId, UserId};

use super::IssueStore;
use crate::model::{Body, Issue, NewIssue, Title};
use crate::testing::on_each_schema;

const REPOSITORY: RepositoryId = RepositoryId(1);

fn new(title: &str, is_closed: bool) -> NewIssue {
    let (title, body) = (Title::parse(title).unwrap(), Body::parse("body".to_owned()).unwrap());
    NewIssue { repository: REPOSITORY, author: UserId(3), title, body, is_closed }
}

async fn open(db: &Db, new: &NewIssue, now_us: i64) -> Option<Issue> {
    let store = IssueStore::new(db.clone());
    let mut tx = db.begin().await.unwrap();
    let counter = store.next_number(&mut tx, new).await.unwrap()?;
    let issue = store.insert(&mut tx, new, counter.last_number, now_us).await.unwrap();
    tx.commit().await.unwrap();
    Some(issue)
}

#[tokio::test]
async fn an_issue_is_read_as_it_was_written() {
    on_each_schema(&crate::migrations(), |db| async move {
        let title = "'; DROP TABLE issues; -- \"\u{1f600}\\ %s $1 \u{1}";
        let issue = open(&db, &new(title, true), 5).await.unwrap();
        assert_eq!((issue.title.as_str(), issue.created_us, issue.is_closed), (title, 5, true));
        let store = IssueStore::new(db);
        assert_eq!(store.find(REPOSITORY, 1).await.unwrap(), Some(issue));
        assert_eq!(store.find(REPOSITORY, 2).await.unwrap(), None);
        assert_eq!(store.find(RepositoryId(2), 1).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn numbers_and_open_issues_are_counted_except_in_a_transaction_that_is_rolled_back() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = IssueStore::new(db.clone());
        open(&db, &new("a", false), 1).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        store.next_number(&mut tx, &new("b", false)).await.unwrap().unwrap();
        tx.rollback().await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let closed = store.next_number(&mut tx, &new("c", true)).await.unwrap().unwrap();
        let open = store.next_number(&mut tx, &new("d", false)).await.unwrap().unwrap();
        assert_eq!((closed.last_number, closed.open_count, closed.version), (2, 1, 2));
        assert_eq!((open.last_number, open.open_count, open.version), (3, 2, 3));
    })
    .await;
}

#[tokio::test]
async fn issues_of_one_time_are_listed_by_descending_number() {
    on_each_schema(&crate::migrations(), |db| async move {
        for (title, now_us) in [("1", 9), ("2", 5), ("3", 5), ("4", 7)] {
            open(&db, &new(title, false), now_us).await.unwrap();
        }
        let page = Page::parse(1, 50, 50).unwrap();
        let (issues, total) = IssueStore::new(db).list(REPOSITORY, None, page).await.unwrap();
        assert_eq!(issues.iter().map(|issue| issue.number).collect::<Vec<_>>(), [1, 4, 3, 2]);
        assert_eq!(total, 4);
    })
    .await;
}

#[tokio::test]
async fn a_number_is_assigned_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        open(&db, &new("first", false), 1).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let twice = IssueStore::new(db.clone()).insert(&mut tx, &new("again", false), 1, 2).await;
        assert!(twice.unwrap_err().is_unique());
    })
    .await;
}

#[tokio::test]
async fn a_deletion_includes_issues_of_concurrent_transactions() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = IssueStore::new(db.clone());
        let (started, starts) = tokio::sync::oneshot::channel();
        let write = async {
            let mut tx = db.begin().await.unwrap();
            let counter = store.next_number(&mut tx, &new("late", false)).await.unwrap().unwrap();
            started.send(()).unwrap();
            // Long enough for the deletion to reach the lock. A shorter sleep tests less, but does not fail.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            store.insert(&mut tx, &new("late", false), counter.last_number, 1).await.unwrap();
            tx.commit().await.unwrap();
        };
        let delete = async {
            starts.await.unwrap();
            let mut tx = db.begin().await.unwrap();
            let removed = store.purge(&mut tx, REPOSITORY).await.unwrap();
            tx.commit().await.unwrap();
            removed
        };
        let ((), removed) = tokio::join!(write, delete);
        assert_eq!(removed, 1);
        assert_eq!(open(&db, &new("later", false), 2).await, None);
        assert_eq!(store.find(REPOSITORY, 1).await.unwrap(), None);
    })
    .await;
}
