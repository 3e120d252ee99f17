use ferrite_db::Db;
use ferrite_db::args;
use ferrite_events::part_uuid;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{CommentAction, CommentChanged, Event, IssueUpdated, PullReviewed};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::issue::{Comment, Issue, Review};

use super::*;
use crate::model::{outdated_by, remove_deleted_text};
use crate::store::events::{self, NewEvent, Source};
use crate::testing::on_each_schema;

const REPOSITORY: RepositoryId = RepositoryId(42);

fn issue(id: i64) -> Option<Issue> {
    Some(Issue { id, body: format!("issue {id}"), ..Issue::default() })
}

fn updated(id: i64, old_body: Option<&str>) -> Fact {
    let old_body = old_body.map(str::to_owned);
    Fact::IssueUpdated(IssueUpdated { issue: issue(id), old_body, ..IssueUpdated::default() })
}

fn commented(action: CommentAction, id: i64, old_body: Option<&str>) -> Fact {
    let comment = Some(Comment { id, body: format!("comment {id}"), ..Comment::default() });
    let (issue, old_body) = (issue(1), old_body.map(str::to_owned));
    Fact::CommentChanged(CommentChanged { action: action.into(), issue, comment, user_id: 7, old_body })
}

fn reviewed(id: i64, is_deleted: bool) -> Fact {
    let body = if is_deleted { String::new() } else { format!("review {id}") };
    let review = Some(Review { id, body, ..Review::default() });
    Fact::PullReviewed(PullReviewed { pull: issue(1), review, is_deleted })
}

/// Receives a fact. If `payload` is given, the event has it at once.
async fn receive(db: &Db, name: &'static str, fact: Fact, payload: Option<&str>) {
    let (count,): (i64,) = db.one("SELECT COUNT(*) FROM events", &[]).await.unwrap();
    let outdated = outdated_by(&fact);
    let mut fact = Event { fact: Some(fact), ..Event::default() };
    remove_deleted_text(&mut fact);
    let new = NewEvent {
        uuid: part_uuid("test", count),
        repository: REPOSITORY,
        source: Source::Issue,
        user: UserId(7),
        name,
        fact,
        payload: payload.map(str::to_owned),
        is_dispatched: true,
        is_in_feed: true,
        happened_us: 1,
    };
    let mut tx = db.begin().await.unwrap();
    lock_repository(&mut tx, REPOSITORY).await.unwrap();
    if let Some(subject) = outdated {
        redactions::queue(&mut tx, REPOSITORY, subject).await.unwrap();
    }
    events::insert(&mut tx, &[new], 1).await.unwrap();
    tx.commit().await.unwrap();
}

/// Returns the repository's counted bytes, after checking them against the rows.
async fn kept_bytes(db: &Db) -> i64 {
    let sql = "SELECT r.kept_bytes, CAST((SELECT SUM(bytes) FROM events) AS BIGINT), \
         CAST((SELECT SUM(512 + OCTET_LENGTH(fact) + COALESCE(OCTET_LENGTH(payload), 0)) FROM events) AS BIGINT) \
         FROM hook_repositories r WHERE r.repository_id = $1";
    let (kept, of_events, actual): (i64, i64, i64) = db.one(sql, &args![REPOSITORY]).await.unwrap();
    assert_eq!((kept, of_events), (actual, actual));
    kept
}

/// Removes all outdated texts. Returns the number of rounds.
async fn redact_all(db: &Db) -> usize {
    let redactor = Redactor::new(EventTable::new(db.clone()));
    let mut rounds = 1;
    while !redactor.round().await.unwrap() {
        rounds += 1;
    }
    let (left,): (i64,) = db.one("SELECT COUNT(*) FROM redactions", &[]).await.unwrap();
    assert_eq!(left, 0);
    rounds
}

/// Returns of each event: the issue text, the text of the comment or review and the replaced text in the fact, the
/// payload and the revision.
async fn stored(db: &Db) -> Vec<(String, String, String, Option<String>, i64)> {
    let store = EventTable::new(db.clone());
    let events = store.feed_page(REPOSITORY, 0, 1000, None).await.unwrap();
    let texts = |event: StoredEvent| {
        let (issue, comment, before) = match event.fact.fact.unwrap() {
            Fact::IssueUpdated(updated) => (updated.issue, None, updated.old_body),
            Fact::CommentChanged(changed) => {
                (changed.issue, changed.comment.map(|comment| comment.body), changed.old_body)
            }
            Fact::PullReviewed(reviewed) => (reviewed.pull, reviewed.review.map(|review| review.body), None),
            other => panic!("{other:?}"),
        };
        let issue = issue.map(|issue| issue.body).unwrap_or_default();
        (issue, comment.unwrap_or_default(), before.unwrap_or_default(), event.payload, event.revision)
    };
    events.into_iter().map(texts).collect()
}

fn expected(
    issue: &str,
    comment: &str,
    before: &str,
    payload: Option<&str>,
    revision: i64,
) -> (String, String, String, Option<String>, i64) {
    (issue.to_owned(), comment.to_owned(), before.to_owned(), payload.map(str::to_owned), revision)
}

#[tokio::test]
async fn the_text_of_a_deleted_or_edited_comment_leaves_its_earlier_events() {
    on_each_schema(&crate::migrations(), |db| async move {
        let payload = r#"{"issue":{"body":"issue 1"},"comment":{"body":"comment 4"}}"#;
        receive(&db, "issue_comment", commented(CommentAction::Created, 4, None), Some(payload)).await;
        receive(&db, "issue_comment", commented(CommentAction::Created, 5, None), None).await;
        receive(&db, "issue_comment", commented(CommentAction::Edited, 4, Some("comment 4")), None).await;
        redact_all(&db).await;
        kept_bytes(&db).await;
        let blank = r#"{"issue":{"body":"issue 1"},"comment":{"body":""},"redacted":true}"#;
        let first = expected("issue 1", "", "", Some(blank), 1);
        let other = expected("issue 1", "comment 5", "", None, 0);
        let edited = expected("issue 1", "comment 4", "comment 4", None, 0);
        assert_eq!(stored(&db).await, [first.clone(), other.clone(), edited]);

        receive(&db, "issue_comment", commented(CommentAction::Deleted, 4, None), None).await;
        redact_all(&db).await;
        let edited = expected("issue 1", "", "", None, 1);
        let deleted = expected("issue 1", "", "", None, 0);
        assert_eq!(stored(&db).await, [first, other, edited, deleted]);
    })
    .await;
}

#[tokio::test]
async fn the_text_of_an_edited_issue_leaves_all_its_earlier_events_in_batches() {
    on_each_schema(&crate::migrations(), |db| async move {
        receive(&db, "issues", updated(1, None), Some(r#"{"issue":{"body":"issue 1"}}"#)).await;
        receive(&db, "issues", updated(2, None), None).await;
        for id in 10..60 {
            receive(&db, "issue_comment", commented(CommentAction::Created, id, None), None).await;
        }
        receive(&db, "issues", updated(1, Some("issue 1")), None).await;
        // The edit does not outdate texts in later events.
        receive(&db, "issue_comment", commented(CommentAction::Created, 60, None), None).await;
        let before = kept_bytes(&db).await;
        assert!(redact_all(&db).await >= 51 / BATCH_EVENTS as usize);
        assert!(kept_bytes(&db).await < before);
        let events = stored(&db).await;
        assert_eq!(events[0], expected("", "", "", Some(r#"{"issue":{"body":""},"redacted":true}"#), 1));
        assert_eq!(events[1], expected("issue 2", "", "", None, 0));
        for (event, id) in events[2..52].iter().zip(10..) {
            assert_eq!(*event, expected("", &format!("comment {id}"), "", None, 1));
        }
        assert_eq!(events[52], expected("issue 1", "", "issue 1", None, 0));
        assert_eq!(events[53], expected("issue 1", "comment 60", "", None, 0));
        // A new title does not outdate any text.
        let renamed = IssueUpdated { issue: issue(1), old_title: Some("old".into()), ..IssueUpdated::default() };
        receive(&db, "issues", Fact::IssueUpdated(renamed), None).await;
        let (queued,): (i64,) = db.one("SELECT COUNT(*) FROM redactions WHERE id > $1", &args![0_i64]).await.unwrap();
        assert_eq!(queued, 0);
    })
    .await;
}

#[tokio::test]
async fn the_text_of_an_edited_pull_request_leaves_its_payloads() {
    on_each_schema(&crate::migrations(), |db| async move {
        let payload = r#"{"pull_request":{"body":"issue 1"},"changes":{"body":{"from":"older"}}}"#;
        receive(&db, "pull_request", updated(1, Some("older")), Some(payload)).await;
        receive(&db, "pull_request", updated(1, Some("issue 1")), None).await;
        redact_all(&db).await;
        let blank = r#"{"pull_request":{"body":""},"changes":{"body":{"from":""}},"redacted":true}"#;
        assert_eq!(stored(&db).await[0], expected("", "", "", Some(blank), 1));
    })
    .await;
}

#[tokio::test]
async fn the_texts_of_a_review_leave_its_event() {
    on_each_schema(&crate::migrations(), |db| async move {
        let payload = r#"{"pull_request":{"body":"issue 1"},"review":{"content":"review 4"}}"#;
        // A comment of the same number keeps its text.
        receive(&db, "issue_comment", commented(CommentAction::Created, 4, None), None).await;
        receive(&db, "pull_request_approved", reviewed(4, false), Some(payload)).await;
        receive(&db, "pull_request_comment", reviewed(5, false), None).await;
        let outdated = outdated_by(&reviewed(4, true)).unwrap();
        let mut tx = db.begin().await.unwrap();
        lock_repository(&mut tx, REPOSITORY).await.unwrap();
        redactions::queue(&mut tx, REPOSITORY, outdated).await.unwrap();
        tx.commit().await.unwrap();
        redact_all(&db).await;
        kept_bytes(&db).await;
        let comment = expected("issue 1", "comment 4", "", None, 0);
        let blank = r#"{"pull_request":{"body":"issue 1"},"review":{"content":""},"redacted":true}"#;
        let review = expected("issue 1", "", "", Some(blank), 1);
        let other = expected("issue 1", "review 5", "", None, 0);
        assert_eq!(stored(&db).await, [comment, review, other]);

        receive(&db, "pull_request", updated(1, Some("issue 1")), None).await;
        redact_all(&db).await;
        let blank = r#"{"pull_request":{"body":""},"review":{"content":""},"redacted":true}"#;
        assert_eq!(
            stored(&db).await[1..3],
            [expected("", "", "", Some(blank), 2), expected("", "review 5", "", None, 1)]
        );
    })
    .await;
}

#[tokio::test]
async fn a_started_task_is_woken() {
    on_each_schema(&crate::migrations(), |db| async move {
        let life = Lifecycle::new(Duration::from_secs(5));
        let redactor = Redactor::new(EventTable::new(db.clone()));
        redactor.start(&life);
        receive(&db, "issue_comment", commented(CommentAction::Created, 4, None), None).await;
        receive(&db, "issue_comment", commented(CommentAction::Deleted, 4, None), None).await;
        redactor.wake();
        let until_removed = async {
            while !stored(&db).await[0].1.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(8), until_removed).await.expect("the text is taken out");
        life.stop();
    })
    .await;
}
