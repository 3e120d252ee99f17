//! The states of commit statuses: their words in REST and webhooks, and which of several counts.

use crate::git::StatusState;

/// States from the worst to the best.
const BY_SEVERITY: [StatusState; 6] = [
    StatusState::Error,
    StatusState::Failure,
    StatusState::Warning,
    StatusState::Pending,
    StatusState::Success,
    StatusState::Skipped,
];

impl StatusState {
    /// All states, each with its word.
    pub const WORDS: [(&'static str, Self); 6] = [
        ("pending", Self::Pending),
        ("success", Self::Success),
        ("error", Self::Error),
        ("failure", Self::Failure),
        ("warning", Self::Warning),
        ("skipped", Self::Skipped),
    ];

    /// Returns the word of a state; `pending` if it is not set.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, state)| *state == self).map_or("pending", |(word, _)| *word)
    }

    /// Returns the worst state; pending if there is none.
    #[must_use]
    pub fn worst(states: impl IntoIterator<Item = Self>) -> Self {
        let rank = |state: &Self| BY_SEVERITY.iter().position(|other| other == state).unwrap_or(BY_SEVERITY.len());
        states.into_iter().min_by_key(rank).unwrap_or(Self::Pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_a_word() {
        assert_eq!((StatusState::Failure.word(), StatusState::Unspecified.word()), ("failure", "pending"));
    }

    #[test]
    fn the_worst_state_counts() {
        use StatusState::{Error, Failure, Pending, Skipped, Success, Warning};
        for (states, expected) in [
            (&[][..], Pending),
            (&[Success, Skipped], Success),
            (&[Skipped], Skipped),
            (&[Success, Pending], Pending),
            (&[Pending, Warning], Warning),
            (&[Failure, Warning], Failure),
            (&[Failure, Error], Error),
        ] {
            assert_eq!(StatusState::worst(states.iter().copied()), expected, "{states:?}");
        }
    }
}
