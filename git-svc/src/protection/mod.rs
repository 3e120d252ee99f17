//! Rules about branches that not everybody may change, and the one place that holds changes of refs to them.
//!
//! Whoever changes refs for a user asks [`Protection::judge`] first, under the repository's write lock.

mod judge;
mod rule;

pub(crate) use self::{
    judge::{Actor, Protection},
    rule::{MAX_RULES, MAX_USERS, Pattern, Rule, Rules},
};

/// What a rule says no to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// Somebody who is not on the list.
    #[error("you are not among those who may change it")]
    Pusher,
    /// Taking commits away.
    #[error("commits may not be taken away from it")]
    Force,
    /// Deleting the branch.
    #[error("it may not be deleted")]
    Delete,
}
