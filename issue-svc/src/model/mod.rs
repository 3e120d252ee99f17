//! Issues and their parts. Constructors validate.

mod issue;
mod pull;
mod reaction;
mod review;
mod review_request;
mod text;
pub(crate) mod words;

pub(crate) use issue::{
    Class, Comment, CommitAction, FullIssue, Issue, IssueChange, Label, LabelEdit, LabelOwner, Milestone, NewIssue,
    NewLabel,
};
pub(crate) use pull::{
    Merged, NewPullRequest, OpenPull, PullEnds, PullRequest, ScheduledMerge, ShownSchedule, Verdict, allows_style,
    check_branch, check_commit_id, is_draft, merge_style,
};
pub(crate) use reaction::{Reaction, ReactionContent, ReactionSubject, ReactionTarget};
pub(crate) use review::{NewReviewComment, Review, ReviewComment, is_verdict, position_field};
pub(crate) use review_request::{NewReviewRequest, Requested, ReviewRequest};
pub(crate) use text::{Body, Color, Description, LabelDescription, LabelName, MilestoneTitle, Title, check_dismissal};
