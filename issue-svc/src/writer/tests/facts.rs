//! Tests of the facts of each write and of their cost.

use ferrite_markdown::commit::Action;
use ferrite_proto::Permission;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{CommentAction, CommentChanged, Event, IssueAction, IssueUpdated};
use ferrite_proto::issue::{IssueState, LabelChange};
use prost::Message;

use super::super::{ApplyReferences, CounterChange, HOOK_SVC};
use super::writes::label;
use super::*;
use crate::model::{Comment, CommitAction, Label};
use crate::testing::on_each_schema;

const ACTOR: UserId = UserId(5);

/// Performs a write. Returns its result and its facts.
async fn written<T>(
    writer: &IssueWriter,
    change: CounterChange,
    write: impl AsyncFnOnce(&mut Write<'_>) -> T,
) -> (T, Vec<Fact>) {
    let mut begun = writer.begin(REPOSITORY, change).await.unwrap();
    let result = write(&mut begun).await;
    let facts = begun.facts.clone();
    commit(begun).await;
    (result, facts)
}

async fn changed(writer: &IssueWriter, number: i64, change: IssueChange) -> Vec<IssueUpdated> {
    let work = async |write: &mut Write<'_>| {
        let old = write.issue(number).await.unwrap();
        write.change(old, change, &TextTargets::default(), ACTOR).await.unwrap();
    };
    updates(written(writer, CounterChange::default(), work).await.1)
}

async fn relabeled(writer: &IssueWriter, change: LabelChange, ids: &[i64]) -> Vec<IssueUpdated> {
    let work = async |write: &mut Write<'_>| {
        let issue = write.issue(1).await.unwrap();
        write.change_labels(&issue, label_change(change, ids, &[]), ACTOR).await.unwrap();
    };
    updates(written(writer, CounterChange::default(), work).await.1)
}

fn updates(facts: Vec<Fact>) -> Vec<IssueUpdated> {
    let update = |fact| match fact {
        Fact::IssueUpdated(fact) => fact,
        other => panic!("not about an issue: {other:?}"),
    };
    facts.into_iter().map(update).collect()
}

fn actions(facts: &[IssueUpdated]) -> Vec<IssueAction> {
    facts.iter().map(IssueUpdated::action).collect()
}

fn label_names(fact: &IssueUpdated) -> Vec<&str> {
    fact.issue.as_ref().unwrap().labels.iter().map(|label| label.name.as_str()).collect()
}

fn title(text: &str) -> Option<Title> {
    Some(Title::parse(text).unwrap())
}

fn body(text: &str) -> Body {
    Body::parse(text.to_owned()).unwrap()
}

async fn comment(writer: &IssueWriter, text: &str) -> (Comment, CommentChanged) {
    let body = body(text);
    let work = async |write: &mut Write<'_>| {
        let issue = write.issue(1).await.unwrap();
        write.add_comment(&issue, ACTOR, &body, &TextTargets::default()).await.unwrap()
    };
    let (comment, facts) = written(writer, CounterChange { comments: 1, ..CounterChange::default() }, work).await;
    (comment, comment_fact(facts))
}

fn comment_fact(facts: Vec<Fact>) -> CommentChanged {
    match <[Fact; 1]>::try_from(facts) {
        Ok([Fact::CommentChanged(fact)]) => fact,
        other => panic!("not one comment: {other:?}"),
    }
}

#[tokio::test]
async fn an_issue_is_told_as_it_was_opened() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let Label { id, .. } = label(&writer, "bug").await;
        let new = NewIssue { label_ids: vec![id], assignees: vec![UserId(8)], ..issue("title", "body") };
        for is_closed in [false, true] {
            let new = NewIssue { is_closed, ..new.clone() };
            let mut write = writer.begin_open(&new).await.unwrap();
            let opened = write.open(&new, &TextTargets::default()).await.unwrap();
            let facts = updates(write.facts.clone());
            commit(write).await;
            let expected = [IssueAction::Opened, IssueAction::Closed];
            assert_eq!(actions(&facts), expected[..1 + usize::from(is_closed)]);
            let told = facts[0].issue.as_ref().unwrap();
            assert_eq!(*told, crate::encode::issue(opened));
            assert_eq!((told.title.as_str(), told.assignee_id, facts[0].user_id), ("title", 8, 3));
            assert_eq!(label_names(&facts[0]), ["bug"]);
            assert_eq!((&facts[0].old_title, &facts[0].old_body), (&None, &None));
        }
    })
    .await;
}

#[tokio::test]
async fn each_kind_of_change_is_told_once_with_the_issue_after_all_of_them() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        open(&writer, &issue("title", "body")).await;
        let all = IssueChange {
            title: title("new"),
            body: Some(body("text")),
            assignees: Some(vec![UserId(9)]),
            is_closed: Some(true),
            ..IssueChange::default()
        };
        let facts = changed(&writer, 1, all.clone()).await;
        assert_eq!(actions(&facts), [IssueAction::Edited, IssueAction::Assigned, IssueAction::Closed]);
        assert_eq!(
            (facts[0].old_title.as_deref(), facts[0].old_body.as_deref(), facts[0].user_id),
            (Some("title"), Some("body"), 5)
        );
        for fact in &facts {
            let told = fact.issue.as_ref().unwrap();
            assert_eq!((told.title.as_str(), told.assignee_id, told.state()), ("new", 9, IssueState::Closed));
        }
        assert!(facts[1].old_title.is_none() && facts[1].old_body.is_none());
        assert!(changed(&writer, 1, all).await.is_empty(), "setting the current values changes nothing");
        let facts = changed(&writer, 1, IssueChange { title: title("title"), ..IssueChange::default() }).await;
        assert_eq!((facts[0].old_title.as_deref(), facts[0].old_body.as_deref()), (Some("new"), None));
        let due = IssueChange { due_us: Some(Some(1_000_000)), ..IssueChange::default() };
        let facts = changed(&writer, 1, due.clone()).await;
        assert_eq!(
            (actions(&facts), &facts[0].old_title, &facts[0].old_body),
            (vec![IssueAction::Edited], &None, &None)
        );
        assert_eq!(facts[0].issue.as_ref().unwrap().due_time, Some(ferrite_core::timestamp(1_000_000)));
        assert!(changed(&writer, 1, due).await.is_empty());
        let both = |ids: [i64; 2]| IssueChange { assignees: Some(ids.map(UserId).to_vec()), ..IssueChange::default() };
        let facts = changed(&writer, 1, both([9, 8])).await;
        assert_eq!(actions(&facts), [IssueAction::Assigned]);
        let told = facts[0].issue.as_ref().unwrap();
        assert_eq!((told.assignee_id, &told.other_assignee_ids[..]), (9, &[8][..]));
        assert!(changed(&writer, 1, both([8, 9])).await.is_empty(), "the order is no difference");
        let one = IssueChange { assignees: Some(vec![UserId(8)]), ..IssueChange::default() };
        assert_eq!(actions(&changed(&writer, 1, one).await), [IssueAction::Unassigned]);
        let back = IssueChange { assignees: Some(Vec::new()), is_closed: Some(false), ..IssueChange::default() };
        assert_eq!(actions(&changed(&writer, 1, back).await), [IssueAction::Unassigned, IssueAction::Reopened]);
    })
    .await;
}

#[tokio::test]
async fn milestones_and_labels_are_told_as_they_are_after_the_change() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        open(&writer, &issue("title", "")).await;
        let (bug, ui) = (label(&writer, "bug").await.id, label(&writer, "ui").await.id);
        let facts = relabeled(&writer, LabelChange::Add, &[bug, ui]).await;
        assert_eq!((actions(&facts), label_names(&facts[0])), (vec![IssueAction::LabelUpdated], vec!["bug", "ui"]));
        assert!(relabeled(&writer, LabelChange::Add, &[bug]).await.is_empty());
        let facts = relabeled(&writer, LabelChange::Remove, &[bug]).await;
        assert_eq!((actions(&facts), label_names(&facts[0])), (vec![IssueAction::LabelUpdated], vec!["ui"]));
        let facts = relabeled(&writer, LabelChange::Replace, &[]).await;
        assert_eq!((actions(&facts), label_names(&facts[0])), (vec![IssueAction::LabelCleared], vec![]));
        assert!(relabeled(&writer, LabelChange::Replace, &[]).await.is_empty());

        let milestone = CounterChange { milestones: 1, ..CounterChange::default() };
        let work = async |write: &mut Write<'_>| {
            let title = crate::model::MilestoneTitle::parse("1.0").unwrap();
            write.add_milestone(&title, &crate::model::Description::default(), None).await.unwrap().id
        };
        let (id, facts) = written(&writer, milestone, work).await;
        assert!(facts.is_empty());
        let facts = changed(&writer, 1, IssueChange { milestone_id: Some(id), ..IssueChange::default() }).await;
        let told = facts[0].issue.as_ref().unwrap().milestone.as_ref().unwrap();
        assert_eq!((actions(&facts), told.title.as_str()), (vec![IssueAction::Milestoned], "1.0"));
        assert_eq!(told.open_issue_count, 1);
        let facts = changed(&writer, 1, IssueChange { milestone_id: Some(0), ..IssueChange::default() }).await;
        assert_eq!(actions(&facts), [IssueAction::Demilestoned]);
        assert_eq!(facts[0].issue.as_ref().unwrap().milestone, None);
    })
    .await;
}

#[tokio::test]
async fn comments_are_told_when_written_changed_and_removed() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        open(&writer, &issue("title", "body")).await;
        let (first, fact) = comment(&writer, "one").await;
        assert_eq!((fact.action(), fact.user_id, fact.old_body), (CommentAction::Created, 5, None));
        assert_eq!(fact.comment, Some(crate::encode::comment(first.clone())));
        assert_eq!(fact.issue.unwrap().comment_count, 1);
        let edit = async |text: &str| {
            let (comment, body) = (first.clone(), body(text));
            let work = async |write: &mut Write<'_>| {
                write.change_comment(comment, &body, &TextTargets::default(), ACTOR).await.unwrap();
            };
            written(&writer, CounterChange::default(), work).await.1
        };
        assert!(edit("one").await.is_empty());
        let fact = comment_fact(edit("two").await);
        assert_eq!((fact.action(), fact.old_body.as_deref()), (CommentAction::Edited, Some("one")));
        assert_eq!((fact.comment.unwrap().body.as_str(), fact.issue.unwrap().comment_count), ("two", 1));
        let work = async |write: &mut Write<'_>| {
            let comment = write.comment(1, first.id).await.unwrap();
            write.delete_comment(comment, ACTOR).await.unwrap();
        };
        let fact = comment_fact(written(&writer, CounterChange::default(), work).await.1);
        assert_eq!((fact.action(), fact.old_body), (CommentAction::Deleted, None));
        assert_eq!((fact.comment.unwrap().body.as_str(), fact.issue.unwrap().comment_count), ("two", 0));
        assert_eq!(find(&writer, 1).await.comment_count, 0);
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_closes_an_issue_is_told_with_its_pusher() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        open(&writer, &issue("title", "")).await;
        let reference = |commit_id: &str, action| CommitAction {
            source: REPOSITORY,
            commit_id: commit_id.to_owned(),
            number: 1,
            action,
        };
        let references =
            [reference("a", Action::Mention), reference("b", Action::Close), reference("b", Action::Close)];
        writer.apply(REPOSITORY, &references, ACTOR, Permission::Write).await.unwrap();
        let sql = "SELECT payload FROM outbox WHERE subscriber = $1 ORDER BY id";
        let rows: Vec<(Vec<u8>,)> = db.all(sql, &ferrite_db::args![HOOK_SVC]).await.unwrap();
        let facts = rows.iter().map(|(payload,)| Event::decode(payload.as_slice()).unwrap().fact.unwrap()).collect();
        let facts = updates(facts);
        assert_eq!((actions(&facts), facts[0].user_id), (vec![IssueAction::Closed], ACTOR.0));
        assert_eq!(facts[0].issue.as_ref().unwrap().state(), IssueState::Closed);
    })
    .await;
}

#[tokio::test]
async fn texts_are_cut_between_characters() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        let long = format!("x{}", "\u{4e16}".repeat(30_000));
        open(&writer, &issue("title", &long)).await;
        let facts = changed(&writer, 1, IssueChange { body: Some(body("short")), ..IssueChange::default() }).await;
        let old_body = facts[0].old_body.clone().unwrap();
        assert!(long.starts_with(&old_body) && old_body.len() == 65_536, "{}", old_body.len());
        let (_, fact) = comment(&writer, &long).await;
        assert_eq!(fact.comment.unwrap().body, old_body);
    })
    .await;
}

#[tokio::test]
async fn telling_hook_svc_costs_one_statement_and_one_for_the_labels_of_the_issue() {
    on_each_schema(&crate::migrations(), |db| async move {
        let writer = writer(&db);
        open(&writer, &issue("title", "body")).await;
        let before = db.statements();
        let new = issue("other", "body");
        let mut write = writer.begin_open(&new).await.unwrap();
        write.open(&new, &TextTargets::default()).await.unwrap();
        let opened = db.statements() - before;
        drop(write);
        let before = db.statements();
        let (comment, _) = comment(&writer, "one").await;
        let commented = db.statements() - before;
        let mut write = writer.begin(REPOSITORY, CounterChange::default()).await.unwrap();
        write.delete_comment(comment, ACTOR).await.unwrap();
        let before = db.statements();
        assert_eq!(write.facts.len(), 1);
        write.commit(None, ()).await.unwrap();
        assert_eq!(db.statements() - before, 1, "the event");
        // Each event adds one, and so does that with the number of open issues.
        assert_eq!((opened, commented), (4, 6));
    })
    .await;
}
