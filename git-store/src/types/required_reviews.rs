//! The reviews that a branch protection rule requires before a pull request is merged.

use std::collections::BTreeSet;

use super::merge_requirements::Requirement;

/// Maximum number of approvals that one rule requires.
pub const MAX_APPROVALS: u8 = 50;

/// What a rule requires of the reviews of a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredReviews {
    /// The number of approvals; zero if none is needed.
    pub approvals: u8,
    /// Users whose approvals count; empty if those of everyone with write permission do.
    pub approvers: Vec<i64>,
    /// Whether a push to the head dismisses the approvals.
    pub dismisses_stale: bool,
    /// Whether approvals of earlier heads do not count.
    pub ignores_stale: bool,
    /// Whether a rejection blocks the merge.
    pub blocks_on_rejection: bool,
    /// Whether an open request for a review blocks the merge.
    pub blocks_on_requests: bool,
}

/// The reviews of a pull request by users with write permission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reviews {
    /// Who approves the head.
    pub approvals: Vec<i64>,
    /// Who approved an earlier head.
    pub stale_approvals: Vec<i64>,
    /// Whether anybody rejects the pull request.
    pub has_rejections: bool,
    /// Whether anybody is asked for a review.
    pub has_requests: bool,
}

impl RequiredReviews {
    /// Returns what the merge of a pull request with these reviews needs.
    pub(super) fn requirements(&self, reviews: &Reviews) -> impl Iterator<Item = Requirement> {
        let (count, required) = (self.count(reviews), usize::from(self.approvals));
        let approvals = (required > 0).then_some(Requirement::Approvals { count, required });
        let is_met = !reviews.has_rejections;
        let rejection = self.blocks_on_rejection.then_some(Requirement::NoRejection { is_met });
        let is_met = !reviews.has_requests;
        let request = self.blocks_on_requests.then_some(Requirement::NoRequest { is_met });
        [approvals, rejection, request].into_iter().flatten()
    }

    /// Returns how many users approve as the rule wants it.
    fn count(&self, reviews: &Reviews) -> usize {
        // A rule that dismisses them may be newer than the push.
        let counts_stale = !self.dismisses_stale && !self.ignores_stale;
        let stale = if counts_stale { reviews.stale_approvals.as_slice() } else { &[] };
        let users: BTreeSet<_> = reviews.approvals.iter().chain(stale).collect();
        users.into_iter().filter(|user| self.approvers.is_empty() || self.approvers.contains(user)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{error::Denial, merge_requirements::deny};

    fn denial(rule: &RequiredReviews, reviews: &Reviews) -> Option<Denial> {
        deny(&rule.requirements(reviews).collect::<Vec<_>>())
    }

    #[test]
    fn each_rule_is_met_by_the_reviews_that_it_counts() {
        let two = || RequiredReviews { approvals: 2, ..RequiredReviews::default() };
        let listed = || RequiredReviews { approvers: vec![1, 2], ..two() };
        let unmoved = || RequiredReviews { blocks_on_rejection: true, ..RequiredReviews::default() };
        let answered = || RequiredReviews { blocks_on_requests: true, ..RequiredReviews::default() };
        let reviews = |approvals: &[i64], stale: &[i64]| Reviews {
            approvals: approvals.to_vec(),
            stale_approvals: stale.to_vec(),
            ..Reviews::default()
        };
        let rejected = || Reviews { has_rejections: true, ..reviews(&[1, 2], &[]) };
        let asked = || Reviews { has_requests: true, ..reviews(&[1, 2], &[]) };
        let approvals = |count| Some(Denial::Approvals { count, required: 2 });
        for (rule, reviews, expected) in [
            (RequiredReviews::default(), reviews(&[], &[]), None),
            (RequiredReviews::default(), rejected(), None),
            (RequiredReviews::default(), asked(), None),
            (two(), reviews(&[], &[]), approvals(0)),
            (two(), reviews(&[1], &[]), approvals(1)),
            (two(), reviews(&[1, 2], &[]), None),
            (two(), reviews(&[1, 2, 3], &[4]), None),
            // Of earlier heads.
            (two(), reviews(&[1], &[2]), None),
            (two(), reviews(&[1], &[1]), approvals(1)),
            (RequiredReviews { ignores_stale: true, ..two() }, reviews(&[1], &[2]), approvals(1)),
            (RequiredReviews { dismisses_stale: true, ..two() }, reviews(&[], &[1, 2]), approvals(0)),
            (RequiredReviews { ignores_stale: true, ..two() }, reviews(&[1, 2], &[3]), None),
            // Of users on a list.
            (listed(), reviews(&[1, 3], &[]), approvals(1)),
            (listed(), reviews(&[1], &[2]), None),
            (RequiredReviews { ignores_stale: true, ..listed() }, reviews(&[1, 3], &[2]), approvals(1)),
            (listed(), reviews(&[1, 2], &[]), None),
            (RequiredReviews { approvers: vec![1], ..RequiredReviews::default() }, reviews(&[], &[]), None),
            // Rejections and requests, which no approval outweighs.
            (unmoved(), rejected(), Some(Denial::Rejection)),
            (unmoved(), asked(), None),
            (answered(), asked(), Some(Denial::ReviewRequest)),
            (answered(), rejected(), None),
            (RequiredReviews { blocks_on_rejection: true, ..two() }, rejected(), Some(Denial::Rejection)),
            (RequiredReviews { blocks_on_requests: true, ..two() }, reviews(&[1, 2], &[]), None),
        ] {
            assert_eq!(denial(&rule, &reviews), expected, "{rule:?} {reviews:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_missing() {
        let rule = RequiredReviews { approvals: 2, ..RequiredReviews::default() };
        let reviews = Reviews { approvals: vec![7], ..Reviews::default() };
        assert_eq!(denial(&rule, &reviews).unwrap().to_string(), "the pull request has 1 of 2 required approvals");
    }
}
