//! Reasons why a branch protection rule refuses an update.

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
