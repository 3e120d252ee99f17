//! Tests of labels of organizations on issues, and of what removes them.

use ferrite_proto::error::{FieldViolation, ServiceError};
use ferrite_proto::issue::TimelineAction;

use super::*;
use crate::error::IssueError;
use crate::model::{Label, LabelOwner};
use crate::store::{CounterChange, Deleted};
use crate::testing::on_each_schema;
use crate::writer::purge::purge_batch;

const OTHER_REPOSITORY: RepositoryId = RepositoryId(2);
const OWNER: LabelOwner = LabelOwner::Organization(ORGANIZATION);

async fn label(writer: &IssueWriter, owner: LabelOwner, name: &str) -> Label {
    let change = CounterChange { labels: 1, ..Default::default() };
    let mut write = writer.begin_labels(owner, change).await.unwrap();
    let label = write.add_label(&new_label(name)).await.unwrap();
    commit(write).await;
    label
}

async fn relabel(writer: &IssueWriter, change: IssueLabelChange) -> Result<Vec<String>, IssueError> {
    let mut write = writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
    let issue = write.issue(1).await.unwrap();
    let labels = write.change_labels(&issue, change, UserId(5)).await?;
    commit(write).await;
    Ok(labels.into_iter().map(|label| format!("{} {}", label.id, label.name)).collect())
}

async fn shown(writer: &IssueWriter, repository: RepositoryId) -> Vec<String> {
    let full = writer.store.find_full(repository, 1).await.unwrap().unwrap();
    full.labels.into_iter().map(|label| label.name).collect()
}

async fn count(db: &Db, sql: &str) -> i64 {
    let (count,): (i64,) = db.one(sql, &[]).await.unwrap();
    count
}

const LINKS: &str = "SELECT COUNT(*) FROM issue_labels";
const TALLIES: &str = "SELECT COUNT(*) FROM issue_tallies WHERE list = 4";

#[tokio::test]
async fn a_name_means_the_label_of_the_repository_first() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let own = label(&writer, LabelOwner::Repository(REPOSITORY), "Bug").await;
        let shared = label(&writer, OWNER, "bug").await;
        let docs = label(&writer, OWNER, "docs").await;
        let text = |label: &Label| format!("{} {}", label.id, label.name);
        open(&writer, &issue("title", "")).await;
        let by_name = label_change(LabelChange::Add, &[], &["BUG", "Docs"]);
        assert_eq!(relabel(&writer, by_name).await.unwrap(), [text(&own), text(&docs)]);
        let by_id = label_change(LabelChange::Add, &[shared.id], &["docs"]);
        assert_eq!(relabel(&writer, by_id).await.unwrap(), [text(&own), text(&shared), text(&docs)]);
        let violation = |error: IssueError| -> Vec<FieldViolation> { error.violations() };
        for (ids, names) in [(&[99][..], &[][..]), (&[], &["nope"]), (&[own.id], &["docs", ""])] {
            let error = relabel(&writer, label_change(LabelChange::Replace, ids, names)).await.unwrap_err();
            assert_eq!(violation(error)[0].code, "unknown", "{ids:?} {names:?}");
        }
        // The labels of an organization are for its repositories alone.
        let elsewhere = IssueLabelChange { organization: None, ..label_change(LabelChange::Replace, &[docs.id], &[]) };
        assert_eq!(violation(relabel(&writer, elsewhere).await.unwrap_err())[0].field, "labels");
        let left = relabel(&writer, label_change(LabelChange::Remove, &[own.id, docs.id], &[])).await.unwrap();
        assert_eq!(left, [text(&shared)]);
        let store = &writer.store;
        let page = ferrite_core::page::Page::parse(1, 100, 100).unwrap();
        let (entries, _) = store.timeline(find(&writer, 1).await.id, &[REPOSITORY], page).await.unwrap();
        let last = entries.last().map(|entry| (entry.action, entry.label_id, entry.label_owner));
        assert_eq!(last, Some((i64::from(i32::from(TimelineAction::Unlabeled)), docs.id, -ORGANIZATION.0)));
    })
    .await;
}

#[tokio::test]
async fn a_deleted_label_of_an_organization_goes_from_the_issues_of_all_repositories() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let (gone, kept) = (label(&writer, OWNER, "gone").await, label(&writer, OWNER, "kept").await);
        for repository in [REPOSITORY, OTHER_REPOSITORY] {
            let new = NewIssue { repository, label_ids: vec![gone.id, kept.id], ..issue("title", "") };
            open(&writer, &new).await;
        }
        let (links, tallies) = (count(&db, LINKS).await, count(&db, TALLIES).await);
        let mut write = writer.begin_labels(OWNER, CounterChange::default()).await.unwrap();
        write.delete_label(gone.id).await.unwrap();
        assert!(matches!(write.delete_label(gone.id).await, Err(IssueError::LabelNotFound)));
        commit(write).await;
        for repository in [REPOSITORY, OTHER_REPOSITORY] {
            assert_eq!(shown(&writer, repository).await, ["kept"]);
        }
        while purge_batch(&writer).await.unwrap() {}
        assert_eq!((count(&db, LINKS).await, count(&db, TALLIES).await), (links / 2, tallies / 2));
    })
    .await;
}

#[tokio::test]
async fn a_label_that_is_put_on_an_issue_while_it_is_deleted_leaves_nothing() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let label = label(&writer, OWNER, "bug").await;
        open(&writer, &issue("title", "")).await;
        let put = relabel(&writer, label_change(LabelChange::Add, &[label.id], &[]));
        let delete = async {
            let mut write = writer.begin_labels(OWNER, CounterChange::default()).await.unwrap();
            write.delete_label(label.id).await.unwrap();
            commit(write).await;
        };
        // Either may be the first.
        let (_, ()) = tokio::join!(put, delete);
        while purge_batch(&writer).await.unwrap() {}
        assert_eq!((count(&db, LINKS).await, count(&db, TALLIES).await), (0, 0));
        assert!(shown(&writer, REPOSITORY).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_has_left_shows_no_label_of_the_organization_and_gets_none() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (writer, new_owner) = (writer(&db), OrganizationId(5));
        let own = label(&writer, LabelOwner::Repository(REPOSITORY), "own").await;
        let former = label(&writer, OWNER, "former").await;
        let next = label(&writer, LabelOwner::Organization(new_owner), "next").await;
        open(&writer, &NewIssue { label_ids: vec![own.id, former.id], ..issue("title", "") }).await;
        // A grant of after the transfer comes before its event.
        let early =
            IssueLabelChange { organization: Some(new_owner), ..label_change(LabelChange::Add, &[next.id], &[]) };
        relabel(&writer, early.clone()).await.unwrap();
        let store = &writer.store;
        let mut tx = db.begin().await.unwrap();
        assert!(store.set_owner(&mut tx, REPOSITORY, UserId(new_owner.0), 1_000_000_000).await.unwrap());
        tx.commit().await.unwrap();
        assert_eq!(shown(&writer, REPOSITORY).await, ["next", "own"], "hidden before it is removed");
        let late = relabel(&writer, label_change(LabelChange::Add, &[former.id], &[])).await;
        assert_eq!(late.unwrap_err().violations()[0].code, "unknown", "a grant of before the transfer");
        let mut tx = db.begin().await.unwrap();
        assert!(!store.purge(&mut tx, Deleted::ForeignLabels(REPOSITORY), 9).await.unwrap());
        // An older transfer that is delivered again changes nothing.
        assert!(!store.set_owner(&mut tx, REPOSITORY, UserId(ORGANIZATION.0), 1).await.unwrap());
        tx.commit().await.unwrap();
        let links = "SELECT COUNT(*) FROM issue_labels WHERE repository_id <> 0";
        assert_eq!((count(&db, links).await, count(&db, LINKS).await), (1, 2));
        let counted = "SELECT COUNT(*) FROM issue_tallies WHERE list = 4 AND block = -1";
        assert_eq!(count(&db, counted).await, 2);
        assert_eq!(relabel(&writer, early).await.unwrap().len(), 2);
    })
    .await;
}
