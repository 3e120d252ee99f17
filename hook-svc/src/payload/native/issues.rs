//! Payloads of `issues` and `issue_comment`.

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::{Comment, Issue, Repository, User};
use ferrite_proto::events::{CommentAction, CommentChanged, IssueAction, IssueUpdated};
use ferrite_proto::issue;
use serde::Serialize;

use super::{Context, Payload};
use crate::payload::limits::{Cut, cut_text, within_limits};

#[derive(Serialize)]
struct Issues<'a> {
    action: &'static str,
    number: i64,
    issue: Issue,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
    repository: &'a Repository,
    sender: &'a User,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

#[derive(Serialize)]
struct IssueComment<'a> {
    action: &'static str,
    issue: Issue,
    comment: Comment,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Changes>,
    repository: &'a Repository,
    sender: &'a User,
    /// Whether the comment is on a pull request.
    is_pull: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// The values before the change.
#[derive(Serialize)]
pub(super) struct Changes {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<Before>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Before>,
    /// The target branch.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    base_branch: Option<Before>,
}

#[derive(Serialize)]
struct Before {
    from: String,
}

/// Cuts texts and remembers whether it cut any.
pub(super) struct Cutter<'a> {
    cut: &'a Cut,
    pub(super) is_cut: bool,
}

impl<'a> Cutter<'a> {
    pub(super) fn new(cut: &'a Cut) -> Self {
        Self { cut, is_cut: false }
    }

    pub(super) fn text(&mut self, text: &mut String) {
        let (short, is_cut) = cut_text(std::mem::take(text), self.cut.text_bytes);
        *text = short;
        self.is_cut |= is_cut;
    }

    fn issue(&mut self, context: &Context, issue: &issue::Issue) -> Result<Issue, MissingField> {
        Issue::new(self.short(issue), context.accounts, &context.urls)
    }

    /// Returns an issue or pull request with short texts.
    pub(super) fn short(&mut self, issue: &issue::Issue) -> issue::Issue {
        let mut issue = issue.clone();
        self.text(&mut issue.body);
        if let Some(milestone) = &mut issue.milestone {
            self.text(&mut milestone.description);
        }
        issue
    }

    fn before(&mut self, text: Option<&String>) -> Option<Before> {
        let mut from = text?.clone();
        self.text(&mut from);
        Some(Before { from })
    }

    /// Returns the values before an edit; `None` if the update is another one.
    pub(super) fn changes(&mut self, updated: &IssueUpdated) -> Option<Changes> {
        let title = self.before(updated.old_title.as_ref());
        let body = self.before(updated.old_body.as_ref());
        let base_branch = self.before(updated.old_base_branch.as_ref());
        let is_edit = title.is_some() || body.is_some() || base_branch.is_some();
        is_edit.then_some(Changes { title, body, base_branch })
    }
}

pub(crate) fn issues(context: &Context, updated: &IssueUpdated) -> Payload {
    let issue = updated.issue.as_ref().ok_or(MissingField("issue"))?;
    let action = issue_action(updated.action())?;
    within_limits(|cut| {
        let mut cutter = Cutter::new(cut);
        let shown = cutter.issue(context, issue)?;
        let changes = cutter.changes(updated);
        Ok(serde_json::to_string(&Issues {
            action,
            number: issue.number,
            issue: shown,
            changes,
            repository: &context.repository,
            sender: &context.sender,
            truncated: cutter.is_cut,
        })?)
    })
}

pub(crate) fn issue_comment(context: &Context, changed: &CommentChanged) -> Payload {
    let issue = changed.issue.as_ref().ok_or(MissingField("issue"))?;
    let comment = changed.comment.as_ref().ok_or(MissingField("comment"))?;
    let action = comment_action(changed.action())?;
    let is_pull = issue.pull_request.is_some();
    within_limits(|cut| {
        let mut cutter = Cutter::new(cut);
        let issue = cutter.issue(context, issue)?;
        let mut comment = comment.clone();
        cutter.text(&mut comment.body);
        let body = cutter.before(changed.old_body.as_ref());
        Ok(serde_json::to_string(&IssueComment {
            action,
            issue,
            comment: Comment::new(comment, context.accounts, &context.urls)?,
            changes: body.map(|body| Changes { title: None, body: Some(body), base_branch: None }),
            repository: &context.repository,
            sender: &context.sender,
            is_pull,
            truncated: cutter.is_cut,
        })?)
    })
}

pub(super) fn issue_action(action: IssueAction) -> Result<&'static str, MissingField> {
    match action {
        IssueAction::Opened => Ok("opened"),
        IssueAction::Closed => Ok("closed"),
        IssueAction::Reopened => Ok("reopened"),
        IssueAction::Edited => Ok("edited"),
        IssueAction::Assigned => Ok("assigned"),
        IssueAction::Unassigned => Ok("unassigned"),
        IssueAction::LabelUpdated => Ok("label_updated"),
        IssueAction::LabelCleared => Ok("label_cleared"),
        IssueAction::Milestoned => Ok("milestoned"),
        IssueAction::Demilestoned => Ok("demilestoned"),
        IssueAction::Synchronized => Ok("synchronized"),
        IssueAction::ReviewRequested => Ok("review_requested"),
        IssueAction::ReviewRequestRemoved => Ok("review_request_removed"),
        IssueAction::Unspecified => Err(MissingField("action")),
    }
}

fn comment_action(action: CommentAction) -> Result<&'static str, MissingField> {
    match action {
        CommentAction::Created => Ok("created"),
        CommentAction::Edited => Ok("edited"),
        CommentAction::Deleted => Ok("deleted"),
        CommentAction::Unspecified => Err(MissingField("action")),
    }
}
