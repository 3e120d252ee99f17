//! Tests of the issue tables. Lists are tested with the writer, which fills them.

mod review_requests;

use ferrite_db::Db;
use ferrite_proto::id::{RepositoryId, UserId};

use super::{CounterChange, Deleted, IssueTable};
use crate::model::{Body, Issue, NewIssue, Title};
use crate::testing::on_each_schema;

const REPOSITORY: RepositoryId = RepositoryId(1);

fn new(title: &str, is_closed: bool) -> NewIssue {
    NewIssue {
        repository: REPOSITORY,
        organization: None,
        author: UserId(3),
        title: Title::parse(title).unwrap(),
        body: Body::parse("body".to_owned()).unwrap(),
        is_closed,
        assignees: Vec::new(),
        milestone_id: 0,
        due_us: None,
        label_ids: Vec::new(),
        pull_request: None,
    }
}

fn one_more(is_open: bool) -> CounterChange {
    CounterChange { numbers: 1, open: i64::from(is_open), ..CounterChange::default() }
}

async fn open(db: &Db, new: &NewIssue, now_us: i64) -> Option<Issue> {
    let store = IssueTable::new(db.clone());
    let mut tx = db.begin().await.unwrap();
    let counters = store.advance(&mut tx, REPOSITORY, one_more(!new.is_closed)).await.unwrap()?;
    let issue = store.insert(&mut tx, new, counters.last_number, now_us).await.unwrap();
    tx.commit().await.unwrap();
    Some(issue)
}

#[tokio::test]
async fn an_issue_is_read_as_it_was_written() {
    on_each_schema(&crate::migrations(), |db| async move {
        let title = "'; DROP TABLE issues; -- \"\u{1f600}\\ %s $1";
        let new = NewIssue { due_us: Some(-1_000_000), ..new(title, true) };
        let issue = open(&db, &new, 5).await.unwrap();
        assert_eq!(issue.due_us, Some(-1_000_000));
        assert_eq!((issue.title.as_str(), issue.created_us, issue.closed_us), (title, 5, Some(5)));
        let store = IssueTable::new(db);
        assert_eq!(store.find(store.reader(), REPOSITORY, 1).await.unwrap(), Some(issue));
        assert_eq!(store.find(store.reader(), REPOSITORY, 2).await.unwrap(), None);
        assert_eq!(store.find(store.reader(), RepositoryId(2), 1).await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn numbers_and_open_issues_are_counted_except_in_a_transaction_that_is_rolled_back() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = IssueTable::new(db.clone());
        open(&db, &new("a", false), 1).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        store.advance(&mut tx, REPOSITORY, one_more(true)).await.unwrap().unwrap();
        tx.rollback().await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let closed = store.advance(&mut tx, REPOSITORY, one_more(false)).await.unwrap().unwrap();
        let open = store.advance(&mut tx, REPOSITORY, one_more(true)).await.unwrap().unwrap();
        let same = store.advance(&mut tx, REPOSITORY, CounterChange::default()).await.unwrap().unwrap();
        assert_eq!((closed.last_number, closed.open_count, closed.version), (2, 1, 2));
        assert_eq!((open.last_number, open.open_count, open.version), (3, 2, 3));
        assert_eq!(same, open);
    })
    .await;
}

#[tokio::test]
async fn a_number_is_assigned_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        open(&db, &new("first", false), 1).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let twice = IssueTable::new(db.clone()).insert(&mut tx, &new("again", false), 1, 2).await;
        assert!(twice.unwrap_err().is_unique());
    })
    .await;
}

#[tokio::test]
async fn a_deletion_includes_issues_of_concurrent_transactions() {
    on_each_schema(&crate::migrations(), |db| async move {
        let store = IssueTable::new(db.clone());
        let (started, starts) = tokio::sync::oneshot::channel();
        let write = async {
            let mut tx = db.begin().await.unwrap();
            let counters = store.advance(&mut tx, REPOSITORY, one_more(true)).await.unwrap().unwrap();
            started.send(()).unwrap();
            // Long enough for the deletion to reach the lock. A shorter sleep tests less, but does
            // not fail.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            store.insert(&mut tx, &new("late", false), counters.last_number, 1).await.unwrap();
            tx.commit().await.unwrap();
        };
        let delete = async {
            starts.await.unwrap();
            let mut tx = db.begin().await.unwrap();
            store.mark_deleted(&mut tx, REPOSITORY).await.unwrap();
            let has_more = store.purge(&mut tx, Deleted::Repository(REPOSITORY), 1).await.unwrap();
            tx.commit().await.unwrap();
            has_more
        };
        let ((), has_more) = tokio::join!(write, delete);
        assert!(!has_more);
        assert_eq!(open(&db, &new("later", false), 2).await, None);
        assert_eq!(store.find(store.reader(), REPOSITORY, 1).await.unwrap(), None);
    })
    .await;
}
