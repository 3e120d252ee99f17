//! Searches over all repositories, on both databases.

use ferrite_proto::id::UserId;

use super::writes::label;
use super::*;
use crate::model::{Class, MilestoneTitle};
use crate::store::{CounterChange, SearchFilter, WINDOW_ROWS};
use crate::testing::on_each_schema;

fn all() -> SearchFilter {
    SearchFilter {
        classes: vec![Class::from_number(0)],
        user: UserId(3),
        mentioned: None,
        is_created: false,
        is_assigned: false,
        title: String::new(),
        label_keys: Vec::new(),
        milestones: Vec::new(),
        since_us: None,
        before_us: None,
    }
}

/// The titles of all that a search finds, window by window.
async fn titles(writer: &IssueWriter, filter: &SearchFilter) -> Vec<String> {
    let (mut titles, mut below) = (Vec::new(), i64::MAX);
    loop {
        let window = writer.store.search_window(filter, below).await.unwrap();
        assert!(window.len() as i64 <= WINDOW_ROWS && window.is_sorted_by(|one, other| one > other));
        let Some(last) = window.last() else { return titles };
        below = *last;
        let found = writer.store.search_matches(filter, &window).await.unwrap();
        let ids: Vec<_> = found.iter().map(|found| found.id).collect();
        let issues = writer.store.issues_by_id(&ids).await.unwrap();
        assert_eq!(issues.len(), found.len());
        for (full, found) in issues.iter().zip(&found) {
            let Issue { repository, class, .. } = &full.issue;
            assert_eq!((*repository, class.is_pull_request), (found.repository, found.is_pull_request));
        }
        titles.extend(issues.into_iter().map(|full| full.issue.title));
    }
}

#[tokio::test]
async fn a_search_finds_what_matches_in_all_repositories_newest_first() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let label = label(&writer, "Bug").await.id;
        let milestone = {
            let mut write = writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
            let title = MilestoneTitle::parse("1.0").unwrap();
            let made = write.add_milestone(&title, &Default::default(), None).await.unwrap();
            commit(write).await;
            made.id
        };
        let elsewhere = |title| NewIssue { repository: RepositoryId(2), organization: None, ..issue(title, "") };
        for new in [
            NewIssue { label_ids: vec![label], ..issue("50% slower", "") },
            elsewhere("Crash"),
            NewIssue { author: UserId(4), assignees: vec![UserId(3)], ..issue("first assignee", "") },
            NewIssue { author: UserId(4), assignees: vec![UserId(5), UserId(3)], ..elsewhere("other assignee") },
            NewIssue { is_closed: true, assignees: vec![UserId(3)], ..issue("closed crash", "") },
            NewIssue { author: UserId(4), milestone_id: milestone, ..issue("planned", "") },
        ] {
            open(&writer, &new).await;
        }
        let newest = ["planned", "other assignee", "first assignee", "Crash", "50% slower"];
        assert_eq!(titles(&writer, &all()).await, newest);
        for (filter, expected) in [
            (SearchFilter { is_created: true, ..all() }, &["Crash", "50% slower"][..]),
            (SearchFilter { is_assigned: true, ..all() }, &["other assignee", "first assignee"]),
            (SearchFilter { is_assigned: true, is_created: true, ..all() }, &[]),
            (SearchFilter { title: "CRASH".into(), ..all() }, &["Crash"]),
            (SearchFilter { title: "0%".into(), ..all() }, &["50% slower"]),
            (SearchFilter { title: "5%s".into(), ..all() }, &[]),
            (SearchFilter { label_keys: vec!["none".into(), "bug".into()], ..all() }, &["50% slower"]),
            (SearchFilter { milestones: vec!["1.0".into()], ..all() }, &["planned"]),
            (SearchFilter { mentioned: Some("ada".into()), ..all() }, &[]),
            (SearchFilter { since_us: Some(i64::MAX), ..all() }, &[]),
            (SearchFilter { before_us: Some(0), ..all() }, &[]),
            (SearchFilter { classes: vec![Class::from_number(1)], ..all() }, &["closed crash"]),
        ] {
            assert_eq!(titles(&writer, &filter).await, expected, "{filter:?}");
        }
    })
    .await;
}
