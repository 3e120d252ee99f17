//! Tests which events a hook gets.

use ferrite_core::timestamp;
use ferrite_proto::events::{IssueAction, IssueUpdated, PullReviewed, RepositoryForked};
use ferrite_proto::{issue, repo};
use serde_json::json;

use super::*;

#[tokio::test]
async fn a_hook_gets_the_events_that_happen_after_it_was_made() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let old = setup.hook(of_repository(), "push", true).await;
        setup.event(REPOSITORY, "push", "1").await;
        let (site, new) = (setup.hook((0, 0), "push", true).await, setup.hook(of_repository(), "push", true).await);
        let begin = "UPDATE hooks SET since_us = $1, after_event_id = (SELECT MAX(id) FROM events) WHERE id <> $2";
        setup.db.execute(begin, &args![START_US, old]).await.unwrap();
        // The second event also happened before, but was received later.
        setup.event_at(REPOSITORY, "push", "2", START_US - 1).await;
        setup.event_at(REPOSITORY, "push", "3", START_US).await;
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 3);
        let told = |hook, after: &str| (hook, "push".to_owned(), after.to_owned());
        assert_eq!(
            setup.deliveries().await,
            [told(old, "1"), told(old, "2"), told(old, "3"), told(new, "3"), told(site, "3")]
        );
    })
    .await;
}

#[tokio::test]
async fn a_hook_gets_the_branches_and_the_types_that_it_asks_for() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let all = setup.hook(of_repository(), "push,create,issues", true).await;
        let main = setup.hook(of_repository(), "push,create,issues", true).await;
        let labels = setup.hook(of_repository(), "issue_label", true).await;
        let only = setup.hook(of_repository(), "issues_only,push", true).await;
        for (hook, filter) in [(main, "{main,release/*}"), (only, "release/*")] {
            let sql = "UPDATE hooks SET branch_filter = $2 WHERE id = $1";
            setup.db.execute(sql, &args![hook, filter]).await.unwrap();
        }
        let told = async |name: &'static str, reference: &str| {
            let update =
                RefUpdate { name: reference.as_bytes().to_vec(), old_id: ZEROS.to_owned(), new_id: "1".repeat(40) };
            let fact = Fact::RefsUpdated(RefsUpdated { updates: vec![update], user_id: 7, ..Default::default() });
            setup.tell(REPOSITORY, Source::Git, name, fact, START_US).await;
        };
        told("push", "refs/heads/main").await;
        told("push", "refs/heads/topic").await;
        told("push", "refs/heads/release/1").await;
        // A filter is about branches alone.
        told("create", "refs/tags/v1").await;
        for action in [IssueAction::Opened, IssueAction::LabelUpdated, IssueAction::Assigned] {
            let issue = issue::Issue {
                user_id: 7,
                state: issue::IssueState::Open.into(),
                create_time: Some(timestamp(0)),
                update_time: Some(timestamp(0)),
                ..Default::default()
            };
            let updated = IssueUpdated { action: action.into(), issue: Some(issue), user_id: 7, ..Default::default() };
            setup.tell(REPOSITORY, Source::Issue, "issues", Fact::IssueUpdated(updated), START_US).await;
        }
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 7);
        let sql = "SELECT hook_id, event_id - (SELECT MIN(id) FROM events) FROM deliveries ORDER BY hook_id, event_id";
        let deliveries: Vec<(i64, i64)> = setup.db.all(sql, &[]).await.unwrap();
        let of = |hook| -> Vec<i64> {
            deliveries.iter().filter(|(other, _)| *other == hook).map(|(_, event)| *event).collect()
        };
        assert_eq!(of(all), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(of(main), [0, 2, 3, 4, 5, 6]);
        assert_eq!(of(labels), [5]);
        assert_eq!(of(only), [2, 4]);
    })
    .await;
}

#[tokio::test]
async fn a_hook_gets_what_its_owner_may_read() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        setup.peers.add_repository(REPOSITORY, Some(ORGANIZATION));
        let site = setup.hook((0, 0), "fork,issues", true).await;
        let organization = setup.hook((1, ORGANIZATION), "fork,issues", true).await;
        let own = setup.hook(of_repository(), "fork,issues", true).await;
        let forked = |id, owner, is_private| {
            let parent = Some(Box::new(repository(REPOSITORY, Some(ORGANIZATION))));
            let fork = repo::Repository { parent, is_private, ..repository(id, owner) };
            Fact::RepositoryForked(RepositoryForked { fork: Some(fork), user_id: 7 })
        };
        setup.tell(REPOSITORY, Source::Repo, "fork", forked(100, None, true), START_US).await;
        setup.tell(REPOSITORY, Source::Repo, "fork", forked(101, Some(ORGANIZATION), true), START_US).await;
        setup.tell(REPOSITORY, Source::Repo, "fork", forked(102, None, false), START_US).await;
        // The fork was created public and is private now.
        setup.peers.change_repository(103, |fork| fork.is_private = true);
        setup.tell(REPOSITORY, Source::Repo, "fork", forked(103, None, false), START_US).await;
        // The organization that owns it was hidden since.
        setup.peers.add_repository(104, Some(ORGANIZATION + 1));
        setup.peers.change_repository(104, |fork| fork.owner_visibility = repo::Visibility::Private.into());
        setup.tell(REPOSITORY, Source::Repo, "fork", forked(104, Some(ORGANIZATION + 1), false), START_US).await;
        setup.peers.add_repository(REPOSITORY + 1, None);
        setup.peers.change_repository(REPOSITORY + 1, |repository| repository.has_issues = false);
        let (time, state) = (Some(timestamp(1)), issue::IssueState::Open.into());
        let issue =
            issue::Issue { id: 1, number: 1, state, create_time: time, update_time: time, ..Default::default() };
        let (action, issue) = (IssueAction::Opened.into(), Some(issue));
        let opened = IssueUpdated { action, issue, user_id: 7, ..Default::default() };
        for repository in [REPOSITORY, REPOSITORY + 1] {
            setup.tell(repository, Source::Issue, "issues", Fact::IssueUpdated(opened.clone()), START_US).await;
        }
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 7);
        let sql = "SELECT d.hook_id, e.name, e.payload FROM deliveries d JOIN events e ON e.id = d.event_id \
             ORDER BY d.hook_id, e.id";
        let rows: Vec<(i64, String, String)> = setup.db.all(sql, &[]).await.unwrap();
        let told = |hook| -> Vec<Value> {
            let of_hook = rows.iter().filter(|(id, ..)| *id == hook);
            let payload = |(_, _, payload): &(i64, String, String)| serde_json::from_str::<Value>(payload).unwrap();
            of_hook.map(payload).map(|payload| payload["forkee"]["id"].clone()).collect()
        };
        assert_eq!(told(site), [100.into(), 101.into(), 102.into(), 103.into(), 104.into(), Value::Null]);
        assert_eq!(told(organization), [101.into(), 102.into(), Value::Null]);
        assert_eq!(told(own), [102.into(), Value::Null]);
    })
    .await;
}

#[tokio::test]
async fn pull_requests_are_told_while_they_are_on_and_show_only_an_open_head() {
    on_each_schema(&crate::migrations(), |db| async move {
        let setup = Setup::new(db).await;
        let all = setup.hook(of_repository(), "pull_request", true).await;
        let pushes = setup.hook(of_repository(), "pull_request_sync", true).await;
        let others = setup.hook(of_repository(), "issues,pull_request_only", true).await;
        setup.peers.add_repository(100, None);
        setup.peers.add_repository(101, None);
        setup.peers.change_repository(101, |fork| fork.is_private = true);
        setup.peers.add_repository(102, Some(ORGANIZATION));
        setup.peers.change_repository(102, |fork| fork.owner_visibility = repo::Visibility::Limited.into());
        let tell = async |repository, action: IssueAction, head_repository_id| {
            let (time, state) = (Some(timestamp(1)), issue::IssueState::Open.into());
            let pull_request = Some(issue::PullRequest { head_repository_id, ..Default::default() });
            let issue = issue::Issue {
                id: 1,
                repository_id: repository,
                number: 1,
                state,
                create_time: time,
                update_time: time,
                pull_request,
                ..Default::default()
            };
            let updated = IssueUpdated { action: action.into(), issue: Some(issue), user_id: 7, ..Default::default() };
            setup.tell(repository, Source::Issue, "pull_request", Fact::IssueUpdated(updated), START_US).await;
        };
        // An issue tracker that is off does not hide pull requests.
        setup.peers.change_repository(REPOSITORY, |repository| repository.has_issues = false);
        tell(REPOSITORY, IssueAction::Opened, REPOSITORY).await;
        for head in [100, 101, 102, 0] {
            tell(REPOSITORY, IssueAction::Synchronized, head).await;
        }
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 5);
        let sql =
            "SELECT d.hook_id, e.payload FROM deliveries d JOIN events e ON e.id = d.event_id ORDER BY d.hook_id, e.id";
        let rows: Vec<(i64, String)> = setup.db.all(sql, &[]).await.unwrap();
        let told = |hook| -> Vec<Value> {
            let of_hook = rows.iter().filter(|(id, _)| *id == hook);
            let payloads = of_hook.map(|(_, payload)| serde_json::from_str::<Value>(payload).unwrap());
            payloads.map(|payload| payload["pull_request"]["head"]["repo"]["id"].clone()).collect()
        };
        let nothing = Value::Null;
        let heads = [REPOSITORY.into(), 100.into(), nothing.clone(), nothing.clone(), nothing];
        assert_eq!(told(all), heads);
        assert_eq!(told(pushes), heads[1..]);
        assert_eq!(told(others), heads[..1]);

        let reviews = setup.hook(of_repository(), "pull_request_review", true).await;
        for (name, state, head_repository_id) in [
            ("pull_request_approved", issue::ReviewState::Approved, 100),
            ("pull_request_comment", issue::ReviewState::Commented, 101),
        ] {
            let (time, open) = (Some(timestamp(1)), issue::IssueState::Open.into());
            let pull_request = Some(issue::PullRequest { head_repository_id, ..Default::default() });
            let pull = issue::Issue {
                repository_id: REPOSITORY,
                state: open,
                create_time: time,
                update_time: time,
                pull_request,
                ..Default::default()
            };
            let review = issue::Review { user_id: 7, state: state.into(), ..Default::default() };
            let reviewed = PullReviewed { pull: Some(pull), review: Some(review), is_deleted: false };
            setup.tell(REPOSITORY, Source::Issue, name, Fact::PullReviewed(reviewed), START_US).await;
        }
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 2);
        let rows: Vec<(i64, String)> = setup.db.all(sql, &[]).await.unwrap();
        let of_hook = |hook| -> Vec<Value> {
            let payloads = rows.iter().filter(|(id, _)| *id == hook);
            payloads.map(|(_, payload)| serde_json::from_str(payload).unwrap()).collect()
        };
        let told = of_hook(reviews);
        let heads: Vec<_> = told.iter().map(|told| &told["pull_request"]["head"]["repo"]["id"]).collect();
        assert_eq!(heads, [&json!(100), &Value::Null]);
        assert_eq!((&told[0]["sender"]["username"], &told[1]["action"]), (&json!("ada"), &json!("reviewed")));
        assert_eq!([all, pushes, others].map(|hook| of_hook(hook).len()), [7, 4, 1]);

        let off = repo::PullSettings::default();
        setup.peers.change_repository(REPOSITORY, |repository| repository.pulls = Some(off));
        tell(REPOSITORY, IssueAction::Closed, REPOSITORY).await;
        assert_eq!(setup.pass(&mut Backoff::default()).await.dispatched, 1);
        let after: Vec<(i64, String)> = setup.db.all(sql, &[]).await.unwrap();
        assert_eq!(after.len(), rows.len(), "pull requests are off");
    })
    .await;
}
