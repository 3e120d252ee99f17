//! Tests of which rows a write changes and which it leaves alone.

use ferrite_core::page::Page;
use ferrite_proto::issue::TimelineAction;

use super::*;
use crate::model::{Label, MilestoneTitle};
use crate::store::{
    CounterChange, IssueFilter, MAX_LISTED_TEXT_BYTES, MAX_PAGE_TEXT_BYTES, MentionSource, Order, Sort,
};
use crate::testing::on_each_schema;

pub(super) async fn label(writer: &IssueWriter, name: &str) -> Label {
    let mut write = writer.begin(REPOSITORY, CounterChange { labels: 1, ..Default::default() }).await.unwrap();
    let label = write.add_label(&new_label(name)).await.unwrap();
    commit(write).await;
    label
}

async fn relabel(writer: &IssueWriter, number: i64, change: LabelChange, ids: &[i64]) -> Vec<Label> {
    let mut write = writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
    let issue = write.issue(number).await.unwrap();
    let labels = write.change_labels(&issue, label_change(change, ids, &[]), UserId(5)).await.unwrap();
    commit(write).await;
    labels
}

async fn actions(writer: &IssueWriter, number: i64) -> Vec<TimelineAction> {
    let issue = find(writer, number).await;
    let page = Page::parse(1, 100, 100).unwrap();
    let (entries, total) = writer.store.timeline(issue.id, &[REPOSITORY], page).await.unwrap();
    assert_eq!(total, i64::try_from(entries.len()).unwrap());
    entries.iter().map(|entry| TimelineAction::try_from(i32::try_from(entry.action).unwrap()).unwrap()).collect()
}

#[tokio::test]
async fn a_change_to_what_is_there_is_none() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let before = open(&writer, &issue("same", "body")).await.issue;
        let same = IssueChange {
            title: Some(Title::parse("same").unwrap()),
            body: Some(Body::parse("body".to_owned()).unwrap()),
            assignees: Some(Vec::new()),
            milestone_id: Some(0),
            due_us: Some(None),
            is_closed: Some(false),
        };
        assert_eq!(change(&writer, 1, same).await.issue, before);
        assert!(actions(&writer, 1).await.is_empty());
        let kinds: Vec<(String,)> = db.all("SELECT kind FROM outbox", &[]).await.unwrap();
        assert!(kinds.is_empty(), "only a commit of the service writes events");
    })
    .await;
}

#[tokio::test]
async fn a_due_date_is_set_replaced_and_removed_and_the_timeline_has_the_dates() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        open(&writer, &NewIssue { due_us: Some(1_000_000), ..issue("dated", "") }).await;
        open(&writer, &issue("t", "")).await;
        assert_eq!(find(&writer, 1).await.due_us, Some(1_000_000));
        let due = |due_us| IssueChange { due_us: Some(due_us), ..Default::default() };
        let kept = IssueChange { title: Some(Title::parse("u").unwrap()), ..Default::default() };
        let changes =
            [due(None), due(Some(1_000_000)), due(Some(1_000_000)), kept, due(Some(2_000_000)), due(None), due(None)];
        let mut shown = Vec::new();
        for next in changes {
            shown.push(change(&writer, 2, next).await.issue.due_us);
        }
        let one = Some(1_000_000);
        assert_eq!(shown, [None, one, one, one, Some(2_000_000), None, None]);
        let page = Page::parse(1, 100, 100).unwrap();
        let (entries, _) = writer.store.timeline(find(&writer, 2).await.id, &[REPOSITORY], page).await.unwrap();
        use TimelineAction::{DueDateAdded, DueDateChanged, DueDateRemoved, Renamed};
        let actions = [DueDateAdded, Renamed, DueDateChanged, DueDateRemoved].map(i32::from);
        assert_eq!(entries.iter().map(|entry| entry.action).collect::<Vec<_>>(), actions.map(i64::from));
        let entries = entries.into_iter().map(|entry| crate::encode::entry(entry, REPOSITORY.0));
        let seconds = |time: Option<prost_types::Timestamp>| time.map(|time| time.seconds);
        let dates: Vec<_> = entries.map(|entry| (seconds(entry.old_due_time), seconds(entry.new_due_time))).collect();
        assert_eq!(dates, [(None, Some(1)), (None, None), (Some(1), Some(2)), (Some(2), None)]);
    })
    .await;
}

#[tokio::test]
async fn states_change_exactly_as_given_and_the_timeline_tells_of_each_change() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        open(&writer, &issue("t", "")).await;
        let state = |is_closed| IssueChange { is_closed: Some(is_closed), ..Default::default() };
        let closed = change(&writer, 1, state(true)).await.issue;
        assert_eq!(closed.closed_us, Some(closed.updated_us));
        assert_eq!(change(&writer, 1, state(true)).await.issue, closed);
        assert_eq!(change(&writer, 1, state(false)).await.issue.closed_us, None);
        let renamed = IssueChange { title: Some(Title::parse("u").unwrap()), ..Default::default() };
        change(&writer, 1, renamed).await;
        let assigned = IssueChange { assignees: Some(vec![UserId(9)]), ..Default::default() };
        change(&writer, 1, assigned).await;
        use TimelineAction::{Assigned, Closed, Renamed, Reopened};
        assert_eq!(actions(&writer, 1).await, [Closed, Reopened, Renamed, Assigned]);
    })
    .await;
}

#[tokio::test]
async fn labels_are_added_replaced_and_removed() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let ids: Vec<_> = [label(&writer, "b").await, label(&writer, "A").await].iter().map(|label| label.id).collect();
        open(&writer, &issue("t", "")).await;
        let names = |labels: Vec<Label>| labels.into_iter().map(|label| label.name).collect::<Vec<_>>();
        assert_eq!(names(relabel(&writer, 1, LabelChange::Add, &ids).await), ["A", "b"]);
        assert_eq!(names(relabel(&writer, 1, LabelChange::Add, &ids[..1]).await), ["A", "b"]);
        let shown = writer.store.find_full(REPOSITORY, 1).await.unwrap().unwrap();
        let descriptions: Vec<_> = shown.labels.iter().map(|label| label.description.as_str()).collect();
        assert_eq!(descriptions, ["About A", "About b"]);
        let (entries, _) =
            writer.store.timeline(shown.issue.id, &[REPOSITORY], Page::parse(1, 1, 1).unwrap()).await.unwrap();
        assert_eq!(entries[0].label_description, format!("About {}", entries[0].old_text));
        assert_eq!(names(relabel(&writer, 1, LabelChange::Remove, &ids[1..]).await), ["b"]);
        assert_eq!(names(relabel(&writer, 1, LabelChange::Remove, &ids[1..]).await), ["b"]);
        assert_eq!(names(relabel(&writer, 1, LabelChange::Replace, &ids[1..]).await), ["A"]);
        assert!(relabel(&writer, 1, LabelChange::Replace, &[]).await.is_empty());
        use TimelineAction::{Labeled, Unlabeled};
        assert_eq!(actions(&writer, 1).await, [Labeled, Labeled, Unlabeled, Unlabeled, Labeled, Unlabeled]);
    })
    .await;
}

#[tokio::test]
async fn a_deleted_label_and_milestone_leave_no_issue_behind() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let label = label(&writer, "bug").await;
        let mut write = writer.begin(REPOSITORY, CounterChange { milestones: 1, ..Default::default() }).await.unwrap();
        let milestone =
            write.add_milestone(&MilestoneTitle::parse("m").unwrap(), &Default::default(), None).await.unwrap();
        commit(write).await;
        let new = NewIssue { label_ids: vec![label.id], milestone_id: milestone.id, ..issue("t", "") };
        let full = open(&writer, &new).await;
        assert_eq!((full.labels.len(), full.milestone.unwrap().open_count), (1, 1));
        let mut write = writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
        write.delete_label(label.id).await.unwrap();
        write.delete_milestone(milestone.id, "").await.unwrap();
        commit(write).await;
        let store = &writer.store;
        let left = store.complete_one(store.reader(), find(&writer, 1).await).await.unwrap();
        assert!(left.labels.is_empty() && left.milestone.is_none() && left.issue.milestone_id == 0);
        assert!(left.issue.updated_us > full.issue.updated_us);
        let none = IssueFilter {
            classes: vec![full.issue.class],
            milestone: Some(crate::store::Condition::None),
            ..Default::default()
        };
        let order = Order { sort: Sort::Number, is_ascending: false };
        let page = store.list(REPOSITORY, &none, order, Page::parse(1, 10, 10).unwrap()).await.unwrap();
        assert_eq!((page.total, page.issues.len()), (1, 1));
        let purges: Vec<(i64,)> = db.all("SELECT id FROM purges", &[]).await.unwrap();
        assert!(purges.is_empty());
    })
    .await;
}

#[tokio::test]
async fn references_are_noted_once_and_never_to_oneself() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        for _ in 0..2 {
            open(&writer, &issue("t", "")).await;
        }
        for _ in 0..2 {
            let mut write = writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
            let source = write.issue(2).await.unwrap();
            let issues = vec![(REPOSITORY, 1), (REPOSITORY, 2), (REPOSITORY, 77), (RepositoryId(9), 1)];
            write.refer(&source, &TextTargets { mentions: Vec::new(), issues }, UserId(3)).await.unwrap();
            commit(write).await;
        }
        assert_eq!(actions(&writer, 1).await, [TimelineAction::Referenced]);
        assert!(actions(&writer, 2).await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_deleted_repository_leaves_no_row_behind() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let label = label(&writer, "bug").await;
        let new = NewIssue { label_ids: vec![label.id], ..issue("t", "word") };
        let full = open(&writer, &new).await.issue;
        let mut write = writer.begin(REPOSITORY, CounterChange { comments: 1, ..Default::default() }).await.unwrap();
        let body = Body::parse_comment("text".to_owned()).unwrap();
        let targets = TextTargets { mentions: vec!["ann".to_owned()], issues: Vec::new() };
        let comment = write.add_comment(&full, UserId(3), &body, &targets).await.unwrap();
        let store = &writer.store;
        store.delete_mentions(&mut write.tx, full.id, MentionSource::Comment(comment.id)).await.unwrap();
        commit(write).await;
        let mut tx = db.begin().await.unwrap();
        store.mark_deleted(&mut tx, REPOSITORY).await.unwrap();
        crate::writer::purge_first_batch(store, &mut tx, crate::store::Deleted::Repository(REPOSITORY), 1)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        for count in [
            "SELECT COUNT(*) FROM issues",
            "SELECT COUNT(*) FROM comments",
            "SELECT COUNT(*) FROM labels",
            "SELECT COUNT(*) FROM issue_labels",
            "SELECT COUNT(*) FROM mentions",
            "SELECT COUNT(*) FROM issue_tallies",
        ] {
            assert_eq!(db.one::<(i64,)>(count, &[]).await.unwrap().0, 0, "{count}");
        }
    })
    .await;
}

#[tokio::test]
async fn the_texts_of_a_long_page_of_comments_are_cut_so_that_they_fit() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let issue = open(&writer, &issue("t", "")).await.issue;
        let max = usize::try_from(MAX_LISTED_TEXT_BYTES).unwrap();
        for length in std::iter::repeat_n(max + 1, 70).chain([1]) {
            let change = CounterChange { comments: 1, ..CounterChange::default() };
            let mut write = writer.begin(REPOSITORY, change).await.unwrap();
            let body = Body::parse_comment("x".repeat(length)).unwrap();
            write.add_comment(&issue, UserId(2), &body, &TextTargets::default()).await.unwrap();
            commit(write).await;
        }
        let list = async |size| {
            let page = Page::parse(1, size, 1000).unwrap();
            let of_issue = writer.store.list_issue_comments(&issue, None, page).await.unwrap().comments;
            let of_repository = writer.store.list_repository_comments(REPOSITORY, None, page).await.unwrap().comments;
            assert!(of_issue == of_repository, "the two lists differ");
            of_issue
        };
        let short = list(50).await;
        assert!(short.iter().all(|comment| comment.body.len() == max && comment.is_truncated));
        let (all, size) = (list(100).await, usize::try_from(MAX_PAGE_TEXT_BYTES).unwrap() / 100);
        assert!(all[..70].iter().all(|comment| comment.body.len() == size && comment.is_truncated));
        assert_eq!((all.len(), all[70].body.as_str(), all[70].is_truncated), (71, "x", false));
    })
    .await;
}
