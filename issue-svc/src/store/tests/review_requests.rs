//! Tests of requests for reviews and of verdicts.

use super::*;
use crate::model::{FullIssue, NewPullRequest, NewReviewRequest, Requested, Verdict};
use crate::store::Reader;
use crate::testing::review_row;

const PENDING: i64 = 1;
const COMMENTED: i64 = 2;
const APPROVED: i64 = 3;
const REJECTED: i64 = 4;

async fn open_pull(db: &Db) -> Issue {
    let pull_request = NewPullRequest {
        head_repository: REPOSITORY,
        head_branch: "topic".to_owned(),
        base_branch: "main".to_owned(),
        head_id: "head".to_owned(),
        merge_base_id: "base".to_owned(),
    };
    open(db, &NewIssue { pull_request: Some(pull_request), ..new("title", false) }, 1).await.unwrap()
}

async fn review(db: &Db, user: i64, state: i64, commit_id: &str, time: i64) {
    db.execute(&review_row(user, state, commit_id, time), &[]).await.unwrap();
}

fn verdict(user: i64, approves: bool, commit_id: &str) -> Verdict {
    Verdict { user: UserId(user), approves, commit_id: commit_id.to_owned() }
}

#[tokio::test]
async fn the_latest_decision_of_each_user_stands_unless_it_is_dismissed() {
    on_each_schema(&crate::migrations(), |db| async move {
        let issue = open_pull(&db).await;
        let store = IssueTable::new(db.clone());
        // The last of two at the same time counts.
        review(&db, 10, REJECTED, "a", 1).await;
        review(&db, 10, APPROVED, "b", 1).await;
        // Other states decide nothing.
        review(&db, 11, APPROVED, "a", 2).await;
        review(&db, 11, COMMENTED, "b", 3).await;
        review(&db, 11, PENDING, "b", 4).await;
        // A dismissal brings nothing back.
        review(&db, 12, REJECTED, "a", 5).await;
        review(&db, 12, APPROVED, "a", 6).await;
        db.execute("UPDATE reviews SET is_dismissed = TRUE WHERE submitted_us = 6", &[]).await.unwrap();
        // An older one may have been stored later.
        review(&db, 13, APPROVED, "a", 8).await;
        review(&db, 13, REJECTED, "b", 7).await;
        review(&db, 14, REJECTED, "a", 9).await;
        db.execute("UPDATE reviews SET is_official = FALSE WHERE user_id = 14", &[]).await.unwrap();
        review(&db, 15, REJECTED, "a", 1).await;

        let verdicts = async || store.verdicts(store.reader(), issue.id).await.unwrap();
        let (rejection, unofficial) = (verdict(15, false, "a"), verdict(14, false, "a"));
        let approvals = [verdict(13, true, "a"), verdict(11, true, "a"), verdict(10, true, "b")];
        let expected: Vec<_> = [rejection.clone()].into_iter().chain(approvals).chain([unofficial.clone()]).collect();
        assert_eq!(verdicts().await, expected);

        let mut tx = db.begin().await.unwrap();
        store.dismiss_stale_approvals(&mut tx, issue.id, "b", 20).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(verdicts().await, [rejection, verdict(10, true, "b"), unofficial]);
    })
    .await;
}

#[tokio::test]
async fn requests_are_parts_of_the_issue_until_they_end() {
    on_each_schema(&crate::migrations(), |db| async move {
        let issue = open_pull(&db).await;
        let store = IssueTable::new(db.clone());
        let pull = store.pull(store.reader(), issue.id).await.unwrap().unwrap();
        let requested = vec![
            Requested::User(UserId(12)),
            Requested::Team { id: 12, name: "the A team".to_owned() },
            Requested::User(UserId(9)),
            Requested::Team { id: 13, name: "b".to_owned() },
        ];
        let new: Vec<_> = requested
            .iter()
            .map(|requested| NewReviewRequest { requested: requested.clone(), is_official: true })
            .collect();
        let mut tx = db.begin().await.unwrap();
        store.add_review_requests(&mut tx, &issue, &pull, &new, 5).await.unwrap();
        let full = store.complete_one(Reader::Tx(&mut tx), issue.clone()).await.unwrap();
        assert_eq!(full.requests, requested);
        tx.commit().await.unwrap();
        let requests = async || {
            let full: FullIssue = store.find_full(REPOSITORY, 1).await.unwrap().unwrap();
            let rows = store.review_requests(store.reader(), issue.id).await.unwrap();
            assert_eq!(rows.into_iter().map(|row| row.requested).collect::<Vec<_>>(), full.requests);
            full.requests
        };
        assert_eq!(requests().await, requested);

        let end = async |user, teams: &'static [i64]| {
            let mut tx = db.begin().await.unwrap();
            store.end_review_requests(&mut tx, issue.id, UserId(user), teams).await.unwrap();
            tx.commit().await.unwrap();
        };
        // A request to a team is no request to the user with its id, and the other way around.
        end(13, &[9, 0]).await;
        assert_eq!(requests().await, requested);
        end(9, &[]).await;
        assert_eq!(requests().await, [&requested[..2], &requested[3..]].concat());
        end(20, &[12, 13]).await;
        assert_eq!(requests().await, requested[..1]);
    })
    .await;
}
