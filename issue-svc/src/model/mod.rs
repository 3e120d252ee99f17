//! Issues and their parts. Constructors validate.

mod issue;
mod text;
pub(crate) mod words;

#[cfg(test)]
pub(crate) use issue::NewPullRequest;
pub(crate) use issue::{
    Class, Comment, CommitAction, FullIssue, Issue, IssueChange, Label, LabelOwner, Milestone, NewIssue, PullRequest,
};
pub(crate) use text::{Body, Color, Description, LabelName, MilestoneTitle, Title};
