//! What the protection of the base branch requires of a merge, as far as its administrators see.

use serde::Deserialize;

use super::view::{CombinedStatus, Pull, Review, ReviewState};
use crate::pages::view::Account;

/// A branch protection rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rule {
    pattern: String,
    required_approvals: usize,
    enable_approvals_whitelist: bool,
    approvals_whitelist_username: Vec<String>,
    block_on_rejected_reviews: bool,
    block_on_official_review_requests: bool,
    block_on_outdated_branch: bool,
    ignore_stale_approvals: bool,
    enable_status_check: bool,
    status_check_contexts: Vec<String>,
    enable_merge_whitelist: bool,
    merge_whitelist_usernames: Vec<String>,
}

/// Something that a merge needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) text: String,
    pub(super) is_met: bool,
}

/// What requirements are compared with.
pub(super) struct Facts<'a> {
    pub(super) pull: &'a Pull,
    pub(super) viewer: Option<&'a Account>,
    /// The latest review of each user.
    pub(super) latest: &'a [&'a Review],
    pub(super) checks: &'a CombinedStatus,
}

/// Returns the rules for a branch: the one with its name, else all whose pattern matches.
pub(super) fn rules_of(rules: Vec<Rule>, branch: &str) -> Vec<Rule> {
    match rules.iter().position(|rule| rule.pattern == branch) {
        Some(place) => rules.into_iter().skip(place).take(1).collect(),
        None => rules.into_iter().filter(|rule| matches(&rule.pattern, branch)).collect(),
    }
}

/// Returns whether a pattern, in which `*` is any text, matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| name.strip_prefix(start)) else { return false };
    let mut parts: Vec<_> = parts.collect();
    let Some(end) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(end)
}

impl Rule {
    /// Returns what the rule requires of a merge.
    pub(super) fn requirements(&self, facts: &Facts<'_>) -> Vec<Requirement> {
        let mut found = Vec::new();
        let mut require = |text: String, is_met: bool| found.push(Requirement { text, is_met });
        if self.required_approvals > 0 {
            let count = facts.latest.iter().filter(|review| self.counts(review)).count();
            require(format!("Approvals: {count} of {}", self.required_approvals), count >= self.required_approvals);
        }
        if self.block_on_rejected_reviews {
            let is_rejected = facts.latest.iter().any(|review| rejects(review));
            require("No reviewer requests changes".to_owned(), !is_rejected);
        }
        if self.block_on_official_review_requests {
            let pull = facts.pull;
            let is_done = pull.requested_reviewers.is_empty() && pull.requested_reviewers_teams.is_empty();
            require("All requested reviews are given".to_owned(), is_done);
        }
        if self.block_on_outdated_branch {
            let text = format!("The head has all commits of {}", facts.pull.base.label);
            require(text, !facts.pull.is_behind());
        }
        if self.enable_status_check {
            found.extend(self.checks(facts.checks));
        }
        if self.enable_merge_whitelist {
            let names = &self.merge_whitelist_usernames;
            let is_listed = facts.viewer.is_some_and(|viewer| has(names, &viewer.login));
            found.push(Requirement { text: format!("Only {} can merge", names.join(", ")), is_met: is_listed });
        }
        found
    }

    fn counts(&self, review: &Review) -> bool {
        let is_listed =
            || review.user.as_ref().is_some_and(|user| has(&self.approvals_whitelist_username, &user.login));
        review.state == ReviewState::Approved
            && review.official
            && !review.dismissed
            && !(review.stale && self.ignore_stale_approvals)
            && (!self.enable_approvals_whitelist || is_listed())
    }

    fn checks(&self, checks: &CombinedStatus) -> Vec<Requirement> {
        if self.status_check_contexts.is_empty() {
            let is_met = checks.total_count > 0 && checks.state == "success";
            return vec![Requirement { text: "All checks have passed".to_owned(), is_met }];
        }
        let passed = |context: &String| {
            checks.statuses.iter().any(|status| status.context == *context && status.status == "success")
        };
        let contexts = self.status_check_contexts.iter();
        let check = |context: &String| Requirement { text: format!("Check {context}"), is_met: passed(context) };
        contexts.map(check).collect()
    }
}

fn rejects(review: &Review) -> bool {
    review.state == ReviewState::RequestChanges && review.official && !review.dismissed
}

fn has(names: &[String], login: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(login))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::pulls::view::testing::{pull, review};

    #[test]
    fn a_star_is_any_text() {
        for (pattern, name, expected) in [
            ("main", "main", true),
            ("main", "main2", false),
            ("*", "a/b", true),
            ("release/*", "release/1", true),
            ("release/*", "release", false),
            ("*/fix-*", "eve/fix-1", true),
            ("a*a", "a", false),
            ("a*b*c", "aXbYbc", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn the_rule_with_the_name_of_the_branch_is_the_only_one() {
        let rule = |pattern: &str| Rule { pattern: pattern.to_owned(), ..Rule::default() };
        let found = |branch| {
            let rules = vec![rule("*"), rule("main"), rule("m*")];
            rules_of(rules, branch).into_iter().map(|rule| rule.pattern).collect::<Vec<_>>()
        };
        assert_eq!(found("main"), ["main"]);
        assert_eq!(found("mine"), ["*", "m*"]);
    }

    #[test]
    fn approvals_and_checks_are_counted() {
        let (pull, approval) = (pull("x"), review(5, "APPROVED"));
        let checks = CombinedStatus::default();
        let facts = Facts { pull: &pull, viewer: None, latest: &[&approval], checks: &checks };
        let rule = Rule {
            required_approvals: 2,
            enable_status_check: true,
            status_check_contexts: vec!["ci".to_owned()],
            ..Rule::default()
        };
        let expected = [("Approvals: 1 of 2", false), ("Check ci", false)];
        let expected = expected.map(|(text, is_met)| Requirement { text: text.to_owned(), is_met });
        assert_eq!(rule.requirements(&facts), expected);
        let stale = Review { stale: true, ..approval.clone() };
        let rule = Rule { required_approvals: 1, ignore_stale_approvals: true, ..Rule::default() };
        let facts = Facts { latest: &[&stale], ..facts };
        assert!(!rule.requirements(&facts)[0].is_met);
    }
}
