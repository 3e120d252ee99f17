//! Issues and their parts. Constructors validate.

mod issue;
mod text;
pub(crate) mod words;

#[cfg(test)]
pub(crate) use issue::NewPullRequest;
pub(crate) use issue::{
    Class, Comment, CommitAction, FullIssue, Issue, IssueChange, Label, LabelEdit, LabelOwner, Milestone, NewIssue,
    NewLabel, PullRequest,
};
pub(crate) use text::{Body, Color, Description, LabelDescription, LabelName, MilestoneTitle, Title};
