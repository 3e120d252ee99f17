//! Branch protection rules of a repository, and the rule in effect for a branch and an account.

use std::collections::HashSet;

use ferrite_proto::{
    Permission,
    grant::{Grant, IssueReach},
};

use super::{
    error::{Denial, GitError},
    merge_requirements::{Requirement, named},
    name::BranchName,
    required_reviews::{RequiredReviews, Reviews},
};

const MAX_PATTERN: usize = 200;
/// Maximum number of rules per repository.
pub const MAX_RULES: usize = 50;
/// Maximum number of accounts that one rule lists.
pub const MAX_USERS: usize = 100;
/// Maximum number of status contexts that one rule requires.
pub const MAX_CONTEXTS: usize = 50;

/// A branch name, or a pattern in which `*` matches any text, including slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern(String);

impl Pattern {
    /// Validates a pattern: with `x` for every `*`, it must be a valid branch name.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        if text.len() > MAX_PATTERN {
            return Err(GitError::invalid("pattern", "too_long", "is too long"));
        }
        BranchName::parse(text.replace('*', "x").as_bytes()).map_err(|error| error.of("pattern"))?;
        Ok(Self(text.to_owned()))
    }

    /// Wraps a pattern from the database, which was validated when it was stored.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Returns whether the pattern matches a branch name.
    fn matches(&self, branch: &str) -> bool {
        matches(&self.0, branch)
    }
}

/// Returns whether a pattern matches a text. Searches once for each part between two `*`, so each
/// `*` costs time linear in the text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The status contexts that must succeed before a branch may point to a commit. `*` in a context
/// matches any text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredChecks {
    /// Whether statuses are required.
    pub are_required: bool,
    /// The contexts; if there are none, every reported context must succeed.
    pub contexts: Vec<String>,
}

impl RequiredChecks {
    /// Returns the required contexts that the newest statuses of a commit do not meet: those that
    /// were not reported, and those of which a match did not succeed; `*` if every reported context
    /// must succeed. `newest` has each context once, with whether it succeeded.
    #[must_use]
    pub fn missing(&self, newest: &[(String, bool)]) -> Vec<&str> {
        let found = self.found(newest);
        found.filter(|(_, statuses)| !statuses.are_met()).map(|(context, _)| context).collect()
    }

    /// Returns each required context as a requirement of a merge.
    fn requirements(&self, newest: &[(String, bool)]) -> impl Iterator<Item = Requirement> {
        self.found(newest).map(|(context, statuses)| Requirement::Check {
            context: context.to_owned(),
            is_reported: statuses.are_reported,
            is_met: statuses.are_met(),
        })
    }

    /// Returns the required contexts with what is known of their statuses.
    fn found(&self, newest: &[(String, bool)]) -> impl Iterator<Item = (&str, Found)> {
        let any = self.contexts.is_empty().then_some("*");
        let required = self.contexts.iter().map(String::as_str).chain(any).filter(move |_| self.are_required);
        required.map(move |required| {
            let mut found = newest.iter().filter(|(context, _)| matches(required, context)).peekable();
            let are_reported = found.peek().is_some();
            (required, Found { are_reported, have_succeeded: found.all(|(_, succeeded)| *succeeded) })
        })
    }
}

/// The newest statuses of a required context.
struct Found {
    are_reported: bool,
    /// Also true if there are none.
    have_succeeded: bool,
}

impl Found {
    fn are_met(&self) -> bool {
        self.are_reported && self.have_succeeded
    }
}

/// A branch protection rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Id of the rule.
    pub id: i64,
    /// The branches that the rule applies to.
    pub pattern: Pattern,
    /// Whether force pushes are allowed.
    pub allow_force: bool,
    /// Whether the branch may be deleted.
    pub allow_delete: bool,
    /// Whether nobody may push to the branch.
    pub forbids_push: bool,
    /// Users that may push to the branch; empty if everyone with write permission may.
    pub users: Vec<i64>,
    /// The statuses that a commit needs before the branch may point to it.
    pub checks: RequiredChecks,
    /// Users that may merge pull requests into the branch; empty if everyone with write permission
    /// may.
    pub mergers: Vec<i64>,
    /// Whether the head of a pull request must contain all commits of the branch.
    pub requires_current_head: bool,
    /// The reviews that a pull request needs.
    pub reviews: RequiredReviews,
    /// Creation time, in microseconds since 1970.
    pub created_us: i64,
    /// Time of the last change, in microseconds since 1970.
    pub updated_us: i64,
}

impl Rule {
    fn admits(&self, actor: &Actor) -> bool {
        !self.forbids_push && (self.users.is_empty() || actor.is_among(&self.users))
    }

    fn admits_merge(&self, actor: &Actor) -> bool {
        self.mergers.is_empty() || actor.is_among(&self.mergers)
    }
}

/// The rules of one repository, sorted by pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

/// The combined rules of one branch for one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveRule {
    /// Whether force pushes are allowed.
    pub allow_force: bool,
    /// Whether the branch may be deleted.
    pub allow_delete: bool,
    /// Whether the account may push to the branch.
    pub admits: bool,
    /// Whether the account may merge pull requests into the branch.
    pub admits_merge: bool,
    /// Whether not everyone with write permission may.
    pub restricts_merge: bool,
    /// Whether the head of a pull request must contain all commits of the branch.
    pub requires_current_head: bool,
    /// The reviews that a pull request needs; all of them.
    pub reviews: Vec<RequiredReviews>,
    /// The statuses that its next commit needs; all of them.
    pub checks: Vec<RequiredChecks>,
}

impl Rules {
    /// Sorts the rules by pattern.
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by(|one, other| one.pattern.cmp(&other.pattern));
        Self(rules)
    }

    /// Returns whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the rules, sorted by pattern.
    pub fn into_vec(self) -> Vec<Rule> {
        self.0
    }

    /// Returns whether any rule applies to the branch with this short name.
    pub fn protect(&self, branch: &[u8]) -> bool {
        let branch = String::from_utf8_lossy(branch);
        self.0.iter().any(|rule| rule.pattern.matches(&branch))
    }

    /// Returns the rule with exactly this branch name as its pattern.
    pub fn exact(&self, branch: &[u8]) -> Option<&Rule> {
        self.0.iter().find(|rule| rule.pattern.is_exact() && rule.pattern.as_str().as_bytes() == branch)
    }

    /// Returns what `actor` may do to a branch; `None` if no rule applies. A rule with exactly this
    /// name overrides the patterns; otherwise every matching rule must allow an action.
    pub fn effective(&self, branch: &[u8], actor: &Actor) -> Option<EffectiveRule> {
        let matching = self.matching(branch);
        (!matching.is_empty()).then(|| EffectiveRule {
            allow_force: matching.iter().all(|rule| rule.allow_force),
            allow_delete: matching.iter().all(|rule| rule.allow_delete),
            admits: matching.iter().all(|rule| rule.admits(actor)),
            admits_merge: matching.iter().all(|rule| rule.admits_merge(actor)),
            restricts_merge: matching.iter().any(|rule| !rule.mergers.is_empty()),
            requires_current_head: matching.iter().any(|rule| rule.requires_current_head),
            reviews: matching.iter().map(|rule| rule.reviews.clone()).collect(),
            checks: matching.iter().map(|rule| &rule.checks).filter(|checks| checks.are_required).cloned().collect(),
        })
    }

    /// Returns whether a push to the head of a pull request into a branch dismisses its approvals.
    pub fn dismiss_approvals(&self, branch: &[u8]) -> bool {
        self.matching(branch).iter().any(|rule| rule.reviews.dismisses_stale)
    }

    /// Returns the rules that count for a branch.
    fn matching(&self, branch: &[u8]) -> Vec<&Rule> {
        // Bytes that are not UTF-8 become U+FFFD, which `*` matches.
        let branch = String::from_utf8_lossy(branch);
        let exact = self.0.iter().find(|rule| rule.pattern.is_exact() && rule.pattern.as_str() == branch);
        match exact {
            Some(rule) => vec![rule],
            None => self.0.iter().filter(|rule| rule.pattern.matches(&branch)).collect(),
        }
    }
}

impl EffectiveRule {
    /// Returns the reason to deny a change that is not a force push, apart from missing checks.
    pub fn deny(&self, is_deletion: bool) -> Option<Denial> {
        if !self.admits {
            return Some(Denial::Pusher);
        }
        (is_deletion && !self.allow_delete).then_some(Denial::Delete)
    }

    /// Returns what the merge of a pull request needs whose head has these newest statuses and reviews,
    /// each thing once. Who may push does not matter: a branch that nobody may push to changes by pull
    /// requests.
    pub fn requirements(&self, is_behind: bool, newest: &[(String, bool)], reviews: &Reviews) -> Vec<Requirement> {
        let merger = self.restricts_merge.then_some(Requirement::Merger { is_met: self.admits_merge });
        let current = self.requires_current_head.then_some(Requirement::CurrentHead { is_met: !is_behind });
        let checks = self.checks.iter().flat_map(|checks| checks.requirements(newest));
        let reviews = self.reviews.iter().flat_map(|required| required.requirements(reviews));
        let all = merger.into_iter().chain(current).chain(checks).chain(reviews);
        let mut seen = HashSet::new();
        all.filter(|requirement| seen.insert(requirement.clone())).collect()
    }

    /// Returns the reason to deny a commit with these newest statuses (see
    /// [`RequiredChecks::missing`]); `None` if it has all that are required.
    pub fn deny_checks(&self, newest: &[(String, bool)]) -> Option<Denial> {
        let missing: Vec<_> = self.checks.iter().flat_map(|checks| checks.missing(newest)).collect();
        (!missing.is_empty()).then(|| Denial::Checks { missing: named(&missing) })
    }
}

/// The account that changes refs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The user id; zero if there is none.
    pub user: i64,
    /// The account's permission on the repository.
    pub permission: Permission,
    /// Repositories whose issues the account may change by commit messages.
    pub issue_reach: IssueReach,
}

impl Actor {
    /// Returns the account of a grant.
    pub fn of(grant: &Grant) -> Self {
        Self {
            user: grant.user_id().map_or(0, |user| user.0),
            permission: grant.permission,
            issue_reach: grant.issue_reach,
        }
    }

    /// Returns whether `users` lists this account; owners count as listed.
    fn is_among(&self, users: &[i64]) -> bool {
        self.permission >= Permission::Owner || (self.user != 0 && users.contains(&self.user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::merge_requirements::deny as deny_merge;
    use ferrite_proto::Permission;

    fn rule(pattern: &str, allow: bool, users: &[i64]) -> Rule {
        let pattern = Pattern::parse(pattern).unwrap();
        Rule {
            id: 1,
            pattern,
            allow_force: allow,
            allow_delete: allow,
            forbids_push: false,
            users: users.to_vec(),
            checks: RequiredChecks::default(),
            mergers: Vec::new(),
            requires_current_head: false,
            reviews: RequiredReviews::default(),
            created_us: 0,
            updated_us: 0,
        }
    }

    #[test]
    fn each_required_context_is_reported_and_successful() {
        let newest = [("ci/build".to_owned(), true), ("ci/test".to_owned(), false), ("lint".to_owned(), true)];
        for (contexts, missing) in [
            (&["lint"][..], &[][..]),
            (&["lint", "ci/build"], &[]),
            (&["ci/test"], &["ci/test"]),
            (&["ci/*"], &["ci/*"]),
            (&["l*"], &[]),
            (&["other"], &["other"]),
            (&["lint", "other"], &["other"]),
            (&[], &["*"]),
        ] {
            let contexts = contexts.iter().map(ToString::to_string).collect();
            let checks = RequiredChecks { are_required: true, contexts };
            assert_eq!(checks.missing(&newest), missing, "{checks:?}");
        }
        let any = RequiredChecks { are_required: true, contexts: Vec::new() };
        assert_eq!((any.missing(&newest[..1]), any.missing(&[])), (vec![], vec!["*"]));
        assert!(RequiredChecks::default().missing(&[]).is_empty());
    }

    #[test]
    fn a_refusal_names_a_few_missing_contexts() {
        let contexts = ["a", "b", "c", "d", "e"].map(str::to_owned);
        let checks = vec![RequiredChecks { are_required: true, contexts: contexts.to_vec() }];
        let rule = EffectiveRule {
            allow_force: false,
            allow_delete: false,
            admits: true,
            admits_merge: true,
            restricts_merge: false,
            requires_current_head: false,
            reviews: Vec::new(),
            checks,
        };
        let newest = contexts.map(|context| (context, true));
        let text = |newest: &[(String, bool)]| rule.deny_checks(newest).map(|denial| denial.to_string());
        let begin = "required status checks have not succeeded: ";
        assert_eq!(text(&newest), None);
        assert_eq!(text(&newest[..3]), Some(format!("{begin}`d`, `e`")));
        assert_eq!(text(&[]), Some(format!("{begin}`a`, `b`, `c` and 2 more")));
    }

    #[test]
    fn a_rule_can_forbid_pushes_and_checks_of_all_patterns_count() {
        let checks = RequiredChecks { are_required: true, contexts: vec!["ci".to_owned()] };
        let closed = Rule { forbids_push: true, checks: checks.clone(), ..rule("ma*", true, &[]) };
        let rules = Rules::new(vec![closed, rule("*", true, &[])]);
        let owner = Actor { user: 1, permission: Permission::Owner, issue_reach: IssueReach::None };
        let effective = rules.effective(b"main", &owner).unwrap();
        assert_eq!((effective.deny(false), effective.checks), (Some(Denial::Pusher), vec![checks]));
        assert!(rules.effective(b"other", &owner).unwrap().checks.is_empty());
    }

    #[test]
    fn merges_have_rules_apart_from_pushes() {
        let checks = RequiredChecks { are_required: true, contexts: vec!["ci".to_owned()] };
        let closed = Rule { forbids_push: true, mergers: vec![7], ..rule("ma*", false, &[]) };
        let current = Rule { requires_current_head: true, checks, ..rule("*", false, &[3]) };
        let rules = Rules::new(vec![closed, current]);
        let succeeded = [("ci".to_owned(), true)];
        let deny = |user, permission, is_behind, newest: &[(String, bool)]| {
            let actor = Actor { user, permission, issue_reach: IssueReach::None };
            let rule = rules.effective(b"main", &actor).unwrap();
            deny_merge(&rule.requirements(is_behind, newest, &Reviews::default()))
        };
        assert_eq!(deny(7, Permission::Write, false, &succeeded), None);
        assert_eq!(deny(8, Permission::Owner, false, &succeeded), None);
        assert_eq!(deny(8, Permission::Admin, false, &succeeded), Some(Denial::Merger));
        assert_eq!(deny(7, Permission::Write, true, &succeeded), Some(Denial::Behind));
        assert!(matches!(deny(7, Permission::Write, false, &[]), Some(Denial::Checks { .. })));
    }

    #[test]
    fn what_several_rules_require_is_listed_once() {
        let checks = RequiredChecks { are_required: true, contexts: vec!["ci".to_owned()] };
        let one = Rule { checks: checks.clone(), requires_current_head: true, ..rule("ma*", true, &[]) };
        let rules = Rules::new(vec![Rule { checks, ..rule("*", true, &[]) }, one]);
        let actor = Actor { user: 1, permission: Permission::Write, issue_reach: IssueReach::None };
        let found = |newest: &[(String, bool)]| {
            rules.effective(b"main", &actor).unwrap().requirements(false, newest, &Reviews::default())
        };
        let check = |is_reported, is_met| Requirement::Check { context: "ci".to_owned(), is_reported, is_met };
        let current = || Requirement::CurrentHead { is_met: true };
        assert_eq!(found(&[]), [current(), check(false, false)]);
        assert_eq!(found(&[("ci".to_owned(), false)]), [current(), check(true, false)]);
        assert_eq!(found(&[("ci".to_owned(), true)]), [current(), check(true, true)]);
    }

    #[test]
    fn reviews_of_all_rules_that_count_are_required() {
        let reviews = |approvals, approvers: &[i64], dismisses_stale| RequiredReviews {
            approvals,
            approvers: approvers.to_vec(),
            dismisses_stale,
            ..RequiredReviews::default()
        };
        let one = Rule { reviews: reviews(1, &[7], true), ..rule("ma*", true, &[]) };
        let two = Rule { reviews: reviews(2, &[], false), ..rule("*", true, &[]) };
        let exact = Rule { reviews: reviews(0, &[], false), ..rule("master", true, &[]) };
        let rules = Rules::new(vec![one, two, exact]);
        let owner = Actor { user: 1, permission: Permission::Owner, issue_reach: IssueReach::None };
        let deny = |branch: &str, approvals: &[i64]| {
            let given = Reviews { approvals: approvals.to_vec(), ..Reviews::default() };
            let rule = rules.effective(branch.as_bytes(), &owner).unwrap();
            deny_merge(&rule.requirements(false, &[], &given))
        };
        let denied = |count, required| Some(Denial::Approvals { count, required });
        for (branch, approvals, expected) in [
            ("main", &[7, 8][..], None),
            ("main", &[7], denied(1, 2)),
            ("main", &[8, 9], denied(0, 1)),
            ("other", &[8, 9], None),
            ("other", &[7], denied(1, 2)),
            ("master", &[], None),
        ] {
            assert_eq!(deny(branch, approvals), expected, "{branch} {approvals:?}");
        }
        let dismissed = ["main", "other", "master"].map(|branch| rules.dismiss_approvals(branch.as_bytes()));
        assert_eq!(dismissed, [true, false, false]);
        // Pushes need no reviews.
        assert_eq!(rules.effective(b"main", &owner).unwrap().deny(false), None);
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, matches) in [
            ("main", "main", true),
            ("main", "mainx", false),
            ("*", "a/b", true),
            ("release/*", "release/1/2", true),
            ("release/*", "release", false),
            ("*-stable", "a-stable", true),
            ("*-stable", "a-stable-b", false),
            ("a*a", "a", false),
            ("a*b*c", "a-bb-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*bc*c", "abc", false),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(name), matches, "{pattern} {name}");
        }
        for wrong in ["", "a b", "refs/heads/main", "a..b", "-x*", "a?", &"x".repeat(201), "*.lock"] {
            assert!(Pattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_exact_rule_stands_alone_and_others_add_up() {
        let rules = Rules::new(vec![rule("*", false, &[]), rule("dev*", true, &[7]), rule("develop", true, &[])]);
        let actor = |user, permission| Actor { user, permission, issue_reach: IssueReach::None };
        let exact = rules.effective(b"develop", &actor(1, Permission::Write)).unwrap();
        assert!(exact.allow_force && exact.admits);
        let both = rules.effective(b"dev-1", &actor(1, Permission::Admin)).unwrap();
        assert!(!both.allow_force && !both.admits);
        assert!(rules.effective(b"dev-1", &actor(7, Permission::Write)).unwrap().admits);
        let owner = rules.effective(b"dev-1", &actor(1, Permission::Owner)).unwrap();
        assert!(owner.admits && !owner.allow_delete && owner.deny(true) == Some(Denial::Delete));
        assert_eq!(rules.exact(b"develop").map(|rule| rule.pattern.as_str()), Some("develop"));
        assert!(rules.exact(b"dev*").is_none() && rules.exact(b"dev-1").is_none());
        assert!(rules.protect(b"\xff") && Rules::default().effective(b"main", &actor(1, Permission::Write)).is_none());
    }
}
