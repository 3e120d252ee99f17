//! What branch protection requires of the merge of a pull request. What a merge is denied for and
//! what is told before it are one list.

use super::error::Denial;

/// Maximum number of missing contexts that a refusal names.
const MAX_NAMED_CONTEXTS: usize = 3;

/// Something that a merge needs, as it is for one account and one pull request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// The account is among those that may merge.
    Merger {
        /// Whether it is.
        is_met: bool,
    },
    /// The head contains all commits of the base.
    CurrentHead {
        /// Whether it does.
        is_met: bool,
    },
    /// The newest statuses of a context are successes.
    Check {
        /// The context, in which `*` matches any text.
        context: String,
        /// Whether there are statuses.
        is_reported: bool,
        /// Whether there are, and all are successes.
        is_met: bool,
    },
    /// Enough users approve the pull request.
    Approvals {
        /// The approvals that count.
        count: usize,
        /// The approvals that are wanted.
        required: usize,
    },
    /// Nobody rejects the pull request.
    NoRejection {
        /// Whether nobody does.
        is_met: bool,
    },
    /// Everybody who was asked for a review has given one.
    NoRequest {
        /// Whether everybody has.
        is_met: bool,
    },
}

impl Requirement {
    /// Returns whether a merge has what it needs.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self {
            Self::Merger { is_met }
            | Self::CurrentHead { is_met }
            | Self::Check { is_met, .. }
            | Self::NoRejection { is_met }
            | Self::NoRequest { is_met } => *is_met,
            Self::Approvals { count, required } => count >= required,
        }
    }
}

/// Returns the reason to deny a merge: that of the first requirement that is not met. All missing
/// checks are one reason.
#[must_use]
pub fn deny(requirements: &[Requirement]) -> Option<Denial> {
    let first = requirements.iter().find(|requirement| !requirement.is_met())?;
    Some(match first {
        Requirement::Merger { .. } => Denial::Merger,
        Requirement::CurrentHead { .. } => Denial::Behind,
        Requirement::Check { .. } => {
            let missing = requirements.iter().filter_map(|requirement| match requirement {
                Requirement::Check { context, is_met: false, .. } => Some(context.as_str()),
                _ => None,
            });
            Denial::Checks { missing: named(&missing.collect::<Vec<_>>()) }
        }
        Requirement::Approvals { count, required } => Denial::Approvals { count: *count, required: *required },
        Requirement::NoRejection { .. } => Denial::Rejection,
        Requirement::NoRequest { .. } => Denial::ReviewRequest,
    })
}

/// Names a few of the missing contexts.
pub(super) fn named(missing: &[&str]) -> String {
    let named: Vec<_> = missing.iter().take(MAX_NAMED_CONTEXTS).map(|context| format!("`{context}`")).collect();
    match missing.len() - named.len() {
        0 => named.join(", "),
        rest => format!("{} and {rest} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(context: &str, is_met: bool) -> Requirement {
        Requirement::Check { context: context.to_owned(), is_reported: is_met, is_met }
    }

    #[test]
    fn the_first_requirement_that_is_not_met_denies_a_merge() {
        let is_met = false;
        let all = [
            (Requirement::Merger { is_met }, Denial::Merger),
            (Requirement::CurrentHead { is_met }, Denial::Behind),
            (check("ci", false), Denial::Checks { missing: "`ci`".to_owned() }),
            (Requirement::Approvals { count: 1, required: 2 }, Denial::Approvals { count: 1, required: 2 }),
            (Requirement::NoRejection { is_met }, Denial::Rejection),
            (Requirement::NoRequest { is_met }, Denial::ReviewRequest),
        ];
        for first in 0..all.len() {
            let rest: Vec<_> = all[first..].iter().map(|(requirement, _)| requirement.clone()).collect();
            assert_eq!(deny(&rest), Some(all[first].1.clone()));
        }
        let met = [check("ci", true), Requirement::Approvals { count: 2, required: 2 }];
        assert_eq!((deny(&met), deny(&[])), (None, None));
    }

    #[test]
    fn all_missing_checks_are_one_reason() {
        let found = [check("a", false), Requirement::NoRequest { is_met: false }, check("b", true), check("c", false)];
        assert_eq!(deny(&found), Some(Denial::Checks { missing: "`a`, `c`".to_owned() }));
        assert_eq!(named(&["a", "b", "c", "d", "e"]), "`a`, `b`, `c` and 2 more");
    }
}
