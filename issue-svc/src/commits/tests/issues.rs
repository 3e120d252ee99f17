//! Tests of scans with the real issue tables.

use ferrite_db::args;
use ferrite_events::{Relay, Subscribers};
use ferrite_proto::id::UserId;
use ferrite_proto::issue::TimelineAction;

use super::*;
use crate::model::{Body, NewIssue, Title};
use crate::store::IssueTable;
use crate::writer::{IssueWriter, TextTargets};

const OTHER_USER: i64 = 3;

fn writer(setup: &Setup) -> IssueWriter {
    let relay = Relay::new(setup.db.clone(), setup.clock.clone(), Subscribers::new());
    IssueWriter { store: IssueTable::new(setup.db.clone()), relay, clock: setup.clock.clone() }
}

/// Opens an issue in the repository that is pushed to.
async fn open(writer: &IssueWriter, author: i64) {
    let new = NewIssue {
        repository: RepositoryId(REPOSITORY),
        organization: None,
        author: UserId(author),
        title: Title::parse("title").unwrap(),
        body: Body::parse(String::new()).unwrap(),
        is_closed: false,
        assignees: Vec::new(),
        milestone_id: 0,
        due_us: None,
        label_ids: Vec::new(),
        pull_request: None,
    };
    let mut write = writer.begin_open(&new).await.unwrap();
    write.open(&new, &TextTargets::default()).await.unwrap();
    write.commit(None, ()).await.unwrap();
}

/// Returns the numbers of the closed issues.
async fn closed(setup: &Setup) -> Vec<i64> {
    let sql = "SELECT number FROM issues WHERE class = 1 ORDER BY number";
    let rows: Vec<(i64,)> = setup.db.all(sql, &[]).await.unwrap();
    rows.into_iter().map(|(number,)| number).collect()
}

/// Returns how often an action occurs in timelines.
async fn entries(setup: &Setup, action: TimelineAction) -> i64 {
    let sql = "SELECT COUNT(*) FROM timeline WHERE action = $1";
    setup.db.one::<(i64,)>(sql, &args![i32::from(action)]).await.unwrap().0
}

#[tokio::test]
async fn a_commit_acts_once_however_often_it_arrives() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let writer = writer(&setup);
        open(&writer, OTHER_USER).await;
        setup.start_scanner_of(writer);
        setup.push(REPOSITORY, "a", &["fixes #1", "closes #1, see #2"]).await;
        setup.until_scanned().await;
        assert_eq!(closed(&setup).await, [1]);
        setup.push(REPOSITORY, "b", &["reopens #1"]).await;
        setup.until_scanned().await;
        for _ in 0..2 {
            // The branch was moved back and forth.
            setup.push(REPOSITORY, "a", &["fixes #1", "closes #1"]).await;
        }
        setup.until_scanned().await;
        assert_eq!(closed(&setup).await, [0_i64; 0]);
        assert_eq!(entries(&setup, TimelineAction::Referenced).await, 3);
        assert_eq!(entries(&setup, TimelineAction::Closed).await, 1);
        assert_eq!(entries(&setup, TimelineAction::Reopened).await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_pusher_who_may_read_refers_to_all_issues_and_closes_own_ones() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.add_repository("ada", "site", REPOSITORY, Permission::Read);
        let writer = writer(&setup);
        open(&writer, OTHER_USER).await;
        open(&writer, USER).await;
        setup.start_scanner_of(writer);
        setup.push(REPOSITORY, "a", &["fixes #1, fixes #2, fixes #3"]).await;
        setup.until_scanned().await;
        assert_eq!(closed(&setup).await, [2]);
        assert_eq!(entries(&setup, TimelineAction::Referenced).await, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_of_several_repositories_close_an_issue_once() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let writer = writer(&setup);
        open(&writer, OTHER_USER).await;
        let repositories = [50, 51, 52, 53];
        for repository in repositories {
            setup.peers.add_repository("ada", &format!("r{repository}"), repository, Permission::Write);
            setup.push(repository, &format!("c{repository}"), &["fixes ada/site#1"]).await;
        }
        setup.start_scanner_of(writer.clone());
        setup.start_scanner_of(writer);
        setup.until_scanned().await;
        assert_eq!(closed(&setup).await, [1]);
        assert_eq!(entries(&setup, TimelineAction::Closed).await, 1);
        assert_eq!(entries(&setup, TimelineAction::Referenced).await, 4);
    })
    .await;
}
