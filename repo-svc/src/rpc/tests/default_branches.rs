//! Changes of the default branch: the store moves HEAD after the commit, once, and for the change
//! that has won. On both databases.

use std::time::Duration;

use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::reason;
use ferrite_proto::repo::*;
use tonic::{Request, Status};

use super::conditional::{asking, fixture, is_refused, requiring, told};
use super::releases::Fixture;
use crate::testing::{Harness, StoreMode, with_token};

fn branch_change(fixture: &Fixture, default_branch: Option<&str>, description: &str) -> UpdateRepositoryRequest {
    UpdateRepositoryRequest {
        repository: fixture.repository(),
        default_branch: default_branch.map(str::to_owned),
        description: Some(description.to_owned()),
        ..UpdateRepositoryRequest::default()
    }
}

async fn update(harness: &Harness, request: Request<UpdateRepositoryRequest>) -> Result<Repository, Status> {
    Ok(harness.repository().update_repository(request).await?.into_inner().repository.unwrap())
}

/// Returns the repository and its version as a precondition.
async fn shown(fixture: &Fixture) -> (Repository, String) {
    let read = GetRepositoryRequest { repository: fixture.repository() };
    let shown = fixture.harness.repository().get_repository(asking(read, &fixture.ada)).await.unwrap();
    let version = told(&shown);
    (shown.into_inner().repository.unwrap(), version)
}

/// How often the store was asked to move HEAD or create a tag since the last call.
fn asked(harness: &Harness, wanted: &str) -> usize {
    harness.take_asked_stores().iter().filter(|(call, _)| *call == wanted).count()
}

pub(super) async fn until_asked(harness: &Harness, wanted: &str) {
    while asked(harness, wanted) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const MOVE_HEAD: &str = "set default branch";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn head_moves_only_for_a_change_that_has_won() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let (_, version) = shown(&fixture).await;
        let conditional =
            |branch: Option<&str>, text: &str| requiring(branch_change(&fixture, branch, text), ada, &version);
        let never = requiring(branch_change(&fixture, Some("dev"), "x"), ada, "never");
        assert!(is_refused(&update(harness, never).await));
        assert_eq!(asked(harness, MOVE_HEAD), 0);

        // The change is committed although the store has not moved HEAD yet.
        harness.set_store(StoreMode::Waits);
        let first = update(harness, conditional(Some("dev"), "first"));
        let others = async {
            until_asked(harness, MOVE_HEAD).await;
            for branch in [Some("dev"), Some("main"), None] {
                assert!(is_refused(&update(harness, conditional(branch, "late")).await), "{branch:?}");
            }
            let described = update(harness, with_token(branch_change(&fixture, None, "second"), ada)).await.unwrap();
            assert_eq!((described.default_branch.as_str(), described.description.as_str()), ("dev", "second"));
            harness.set_store(StoreMode::Works);
        };
        let (done, ()) = tokio::join!(first, others);
        assert_eq!(done.unwrap().default_branch, "dev");
        assert_eq!(asked(harness, MOVE_HEAD), 0, "once in all");
        let (shown, _) = shown(&fixture).await;
        assert_eq!((shown.default_branch.as_str(), shown.description.as_str()), ("dev", "second"));
        assert_eq!(shown.size_bytes, 4_711);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_changes_of_the_default_branch_at_once_each_waits_for_the_one_before() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        harness.set_store(StoreMode::Waits);
        let change = |branch: &str| update(harness, with_token(branch_change(&fixture, Some(branch), branch), ada));
        let second = async {
            until_asked(harness, MOVE_HEAD).await;
            let second = change("main");
            tokio::pin!(second);
            let waited = tokio::time::timeout(Duration::from_millis(300), &mut second).await;
            assert!(waited.is_err() && asked(harness, MOVE_HEAD) == 0);
            harness.set_store(StoreMode::Works);
            second.await
        };
        let (first, second) = tokio::join!(change("dev"), second);
        first.unwrap();
        assert_eq!(second.unwrap().default_branch, "main");
        assert_eq!(shown(&fixture).await.0.default_branch, "main");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_default_branch_that_the_store_missed_is_made_later() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let (_, version) = shown(&fixture).await;
        harness.set_store(StoreMode::KeepsHead);
        let change = || requiring(branch_change(&fixture, Some("dev"), "changed"), ada, &version);
        let failed = update(harness, change()).await.unwrap_err();
        assert_eq!(reason(&failed).as_deref(), Some("STORE_UNAVAILABLE"));
        assert!(is_refused(&update(harness, change()).await));
        let decided = shown(&fixture).await;
        assert_eq!((decided.0.default_branch.as_str(), decided.0.description.as_str()), ("dev", "changed"));
        assert_eq!(asked(harness, MOVE_HEAD), 1);

        // As after a crash.
        let (state, db) = (harness.state().await, harness.db().await);
        let sweep = || state.heads.sweep();
        sweep().await.unwrap();
        assert_eq!(asked(harness, MOVE_HEAD), 0, "somebody may be at it");
        db.execute("UPDATE repositories SET head_claimed_us = 1", &[]).await.unwrap();
        harness.set_store(StoreMode::Works);
        let left = async || {
            let sql = "SELECT COUNT(*) FROM repositories WHERE new_default_branch IS NOT NULL";
            let (count,): (i64,) = db.one(sql, &[]).await.unwrap();
            count
        };
        // The service sweeps too.
        while left().await > 0 {
            sweep().await.unwrap();
        }
        assert_eq!(asked(harness, MOVE_HEAD), 1);
        assert_eq!(shown(&fixture).await.1, decided.1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_of_a_change_of_the_default_branch_gets_its_response() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let (_, version) = shown(&fixture).await;
        let change = || {
            let mut request = requiring(branch_change(&fixture, Some("dev"), "changed"), ada, &version);
            request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
            request
        };
        let first = update(harness, change()).await.unwrap();
        assert_eq!((first.default_branch.as_str(), first.size_bytes), ("dev", 4_711));
        assert_eq!(update(harness, change()).await.unwrap(), first);
        assert_eq!(asked(harness, MOVE_HEAD), 1);
    })
    .await;
}

/// Claims made by a clock that was far ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_branch_claimed_in_the_future_is_finished_and_changed() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let (state, db) = (harness.state().await, harness.db().await);
        let change = |branch: &str| update(harness, with_token(branch_change(&fixture, Some(branch), branch), ada));
        let wrong = "UPDATE repositories SET new_default_branch = 'main', head_claimed_us = $1";
        db.execute(wrong, &args![i64::MAX / 2]).await.unwrap();
        assert_eq!(change("dev").await.unwrap().default_branch, "dev");

        db.execute(wrong, &args![i64::MAX / 2]).await.unwrap();
        let left = async || {
            let sql = "SELECT COUNT(*) FROM repositories WHERE new_default_branch IS NOT NULL";
            let (count,): (i64,) = db.one(sql, &[]).await.unwrap();
            count
        };
        // The service sweeps too.
        while left().await > 0 {
            state.heads.sweep().await.unwrap();
        }
        assert_eq!(shown(&fixture).await.0.default_branch, "main");
    })
    .await;
}
