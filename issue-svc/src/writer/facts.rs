//! Facts for hook-svc: the issue, comment or review after a change, with the previous texts.

use ferrite_proto::MAX_FACT_TEXT_BYTES;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::{CommentAction, CommentChanged, IssueAction, IssueUpdated, PullReviewed};
use ferrite_proto::id::UserId;
use ferrite_proto::issue::{self, ReviewTeam};

use super::Write;
use crate::encode;
use crate::error::IssueError;
use crate::model::{Comment, FullIssue, Issue, Requested, Review};

impl Write<'_> {
    pub(super) fn tell_opened(&mut self, new: &FullIssue) {
        let mut actions = vec![IssueAction::Opened];
        // Report an issue created as closed as both, to keep the counts of subscribers right.
        actions.extend(new.issue.class.is_closed.then_some(IssueAction::Closed));
        self.tell_issue(&actions, None, new, new.issue.author);
    }

    /// Reports the differences between two states of an issue, one fact per kind.
    pub(super) fn tell_changes(&mut self, old: &Issue, new: &FullIssue, actor: UserId) {
        self.tell_issue(&changes(old, &new.issue), Some(old), new, actor);
    }

    /// Reports changes of an issue, one fact each. Edits include the previous texts from `old`.
    pub(super) fn tell_issue(&mut self, actions: &[IssueAction], old: Option<&Issue>, new: &FullIssue, actor: UserId) {
        let snapshot = snapshot(new);
        for action in actions {
            let old = old.filter(|_| *action == IssueAction::Edited);
            let old_title = old.filter(|old| old.title != new.issue.title).map(|old| old.title.clone());
            let old_body = old.filter(|old| old.body != new.issue.body).map(|old| beginning(&old.body).to_owned());
            let issue = Some(snapshot.clone());
            let action = (*action).into();
            let fact = IssueUpdated { action, issue, user_id: actor.0, old_title, old_body, ..Default::default() };
            self.facts.push(Fact::IssueUpdated(fact));
        }
    }

    /// Reports a new target branch of a pull request.
    pub(super) fn tell_new_base(&mut self, new: &FullIssue, old_base_branch: String, actor: UserId) {
        self.facts.push(Fact::IssueUpdated(IssueUpdated {
            action: IssueAction::Edited.into(),
            issue: Some(snapshot(new)),
            user_id: actor.0,
            old_base_branch: Some(old_base_branch),
            ..Default::default()
        }));
    }

    /// Reports a new head of a pull request.
    pub(super) fn tell_new_head(&mut self, new: &FullIssue, old_head_id: String, actor: UserId) {
        self.facts.push(Fact::IssueUpdated(IssueUpdated {
            action: IssueAction::Synchronized.into(),
            issue: Some(snapshot(new)),
            user_id: actor.0,
            old_head_id: Some(old_head_id),
            ..Default::default()
        }));
    }

    /// Reports requests for reviews, or that they were taken back, one fact each.
    pub(super) fn tell_requests(
        &mut self,
        action: IssueAction,
        new: &FullIssue,
        requested: &[Requested],
        actor: UserId,
    ) {
        let snapshot = snapshot(new);
        for requested in requested {
            let (reviewer_id, team_id, name) = requested.columns();
            self.facts.push(Fact::IssueUpdated(IssueUpdated {
                action: action.into(),
                issue: Some(snapshot.clone()),
                user_id: actor.0,
                reviewer_id,
                reviewing_team: (team_id != 0).then(|| ReviewTeam { id: team_id, name: name.to_owned() }),
                ..Default::default()
            }));
        }
    }

    /// Reports a change of a comment. `issue` is the state after the change, and `old_body` the
    /// previous text of an edited comment.
    pub(super) async fn tell_comment(
        &mut self,
        action: CommentAction,
        issue: Issue,
        comment: Comment,
        old_body: Option<&str>,
        actor: UserId,
    ) -> Result<(), IssueError> {
        let issue = self.complete(issue).await?;
        let mut comment = encode::comment(comment);
        cut(&mut comment.body);
        let fact = CommentChanged {
            action: action.into(),
            issue: Some(snapshot(&issue)),
            comment: Some(comment),
            user_id: actor.0,
            old_body: old_body.map(|body| beginning(body).to_owned()),
        };
        self.facts.push(Fact::CommentChanged(fact));
        Ok(())
    }

    /// Reports a review that was submitted, or a submitted one that was deleted, which is told
    /// without its body.
    pub(super) fn tell_review(&mut self, pull: &FullIssue, review: Review, is_deleted: bool) {
        let mut review = encode::review(review);
        if is_deleted {
            review.body.clear();
        }
        cut(&mut review.body);
        let (pull, review) = (Some(snapshot(pull)), Some(review));
        self.facts.push(Fact::PullReviewed(PullReviewed { pull, review, is_deleted }));
    }
}

/// Returns the kinds of differences between two states of an issue, in timeline order.
fn changes(old: &Issue, new: &Issue) -> Vec<IssueAction> {
    // There is no action of its own for the due date.
    let is_edited = (&old.title, &old.body, old.due_us) != (&new.title, &new.body, new.due_us);
    let edit = is_edited.then_some(IssueAction::Edited);
    let is_assigned = new.assignees.iter().any(|user| !old.assignees.contains(user));
    let assignee = (old.assignees != new.assignees).then_some(match is_assigned {
        true => IssueAction::Assigned,
        false => IssueAction::Unassigned,
    });
    let milestone = (old.milestone_id != new.milestone_id).then_some(match new.milestone_id {
        0 => IssueAction::Demilestoned,
        _ => IssueAction::Milestoned,
    });
    let state = (old.class.is_closed != new.class.is_closed).then_some(match new.class.is_closed {
        true => IssueAction::Closed,
        false => IssueAction::Reopened,
    });
    [edit, assignee, milestone, state].into_iter().flatten().collect()
}

fn snapshot(full: &FullIssue) -> issue::Issue {
    let mut issue = encode::issue(full.clone());
    cut(&mut issue.body);
    issue
}

fn cut(text: &mut String) {
    text.truncate(beginning(text).len());
}

/// Returns as much of a text as fits into a fact.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_FACT_TEXT_BYTES)]
}
