//! Reasons why a branch protection rule refuses an update.

/// The action that a rule denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// A change by an account that the rule does not list.
    #[error("you are not among those who may change it")]
    Pusher,
    /// A force push.
    #[error("commits may not be taken away from it")]
    Force,
    /// The deletion of the branch.
    #[error("it may not be deleted")]
    Delete,
}
