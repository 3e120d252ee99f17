//! Issues and their parts, which are checked when they are constructed.

mod issue;
pub(crate) mod references;
mod text;

#[cfg(test)]
pub(crate) use issue::NewPullRequest;
pub(crate) use issue::{Class, Comment, FullIssue, Issue, IssueChange, Label, Milestone, NewIssue, PullRequest};
pub(crate) use text::{Body, Color, Description, LabelName, MilestoneTitle, Title};
