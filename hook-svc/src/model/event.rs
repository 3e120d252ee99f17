//! Events that webhooks can ask for.

use ferrite_proto::error::FieldViolation;

/// All names, in the order in which responses list them: first those of events, then the finer ones
/// of Gitea and Forgejo. A hook also keeps those that are never sent, because clients compare the
/// events that they read with those that they sent.
const EVENT_NAMES: [&str; 41] = [
    "create",
    "delete",
    "fork",
    "push",
    "issues",
    PULLS,
    "pull_request_approved",
    "pull_request_rejected",
    "issue_comment",
    "release",
    "repository",
    ISSUES_ONLY,
    "issue_assign",
    "issue_label",
    "issue_milestone",
    PULLS_ONLY,
    "pull_request_assign",
    "pull_request_label",
    "pull_request_milestone",
    PULL_COMMENTS,
    REVIEWS,
    "pull_request_review_approved",
    "pull_request_review_rejected",
    "pull_request_review_comment",
    "pull_request_review_request",
    "pull_request_sync",
    "wiki",
    "package",
    "status",
    "workflow_run",
    "workflow_job",
    "workflow_job_blocked",
    "workflow_job_cancelled",
    "workflow_job_failure",
    "workflow_job_running",
    "workflow_job_skipped",
    "workflow_job_success",
    "workflow_job_waiting",
    "action_run_failure",
    "action_run_recover",
    "action_run_success",
];
const DEFAULT_EVENT: &str = "push";
/// Also selects reviews.
const PULLS: &str = "pull_request";
/// Selects the three events of reviews.
const REVIEWS: &str = "pull_request_review";
/// Selects comments on pull requests, though Gitea gives a review that only comments this name, too.
const PULL_COMMENTS: &str = "pull_request_comment";
/// Stands for those `issues` that have no finer type.
const ISSUES_ONLY: &str = "issues_only";
/// Stands for those `pull_request` that have no finer type.
const PULLS_ONLY: &str = "pull_request_only";

/// A non-empty set of the events that trigger a hook, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HookEvents(u64);

impl HookEvents {
    /// Parses event names. An empty list means `push`.
    pub(crate) fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, FieldViolation> {
        let mut events = 0;
        for name in names {
            events |= bit(name.as_ref()).ok_or_else(|| {
                FieldViolation::new(
                    "events",
                    "unknown",
                    format!("must be one or more of `{}`", EVENT_NAMES.join("`, `")),
                )
            })?;
        }
        if events == 0 { Ok(Self(bit(DEFAULT_EVENT).unwrap_or(1))) } else { Ok(Self(events)) }
    }

    /// Parses a column written by [`HookEvents::to_column`]. Returns `None` for an unknown name.
    pub(crate) fn from_column(text: &str) -> Option<Self> {
        let names: Vec<_> = text.split(',').collect();
        Self::parse(&names).ok()
    }

    pub(crate) fn to_column(self) -> String {
        self.names().collect::<Vec<_>>().join(",")
    }

    fn contains(self, name: &str) -> bool {
        bit(name).is_some_and(|bit| self.0 & bit != 0)
    }

    /// Returns whether a hook with these events gets an event: by its name, or by its finer type
    /// (see [`event_type`]).
    pub(crate) fn wants(self, name: &str, event_type: &str) -> bool {
        let only = match name {
            "issues" => Some(ISSUES_ONLY),
            PULLS => Some(PULLS_ONLY),
            _ => None,
        };
        let is_only = event_type == name && only.is_some_and(|only| self.contains(only));
        let is_of_reviews = is_review(event_type) && (self.contains(REVIEWS) || self.contains(PULLS));
        let is_named = name != PULL_COMMENTS && self.contains(name);
        is_named || self.contains(event_type) || is_only || is_of_reviews
    }

    /// Returns the names in the order of [`EVENT_NAMES`].
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        EVENT_NAMES.into_iter().filter(move |name| self.contains(name))
    }
}

/// Returns the type of an event as Gitea tells it, which is finer than the event's name. `action`
/// is that of the event; `is_pull` is set for a comment on a pull request.
pub(crate) fn event_type<'a>(name: &'a str, action: &str, is_pull: bool) -> &'a str {
    match (name, action) {
        ("issues", "assigned" | "unassigned") => "issue_assign",
        ("issues", "label_updated" | "label_cleared") => "issue_label",
        ("issues", "milestoned" | "demilestoned") => "issue_milestone",
        ("pull_request", "assigned" | "unassigned") => "pull_request_assign",
        ("pull_request", "label_updated" | "label_cleared") => "pull_request_label",
        ("pull_request", "milestoned" | "demilestoned") => "pull_request_milestone",
        ("pull_request", "synchronized") => "pull_request_sync",
        ("pull_request", "review_requested" | "review_request_removed") => "pull_request_review_request",
        ("pull_request_approved", _) => "pull_request_review_approved",
        ("pull_request_rejected", _) => "pull_request_review_rejected",
        (PULL_COMMENTS, _) => "pull_request_review_comment",
        ("issue_comment", _) if is_pull => PULL_COMMENTS,
        _ => name,
    }
}

fn is_review(event_type: &str) -> bool {
    matches!(
        event_type,
        "pull_request_review_approved" | "pull_request_review_rejected" | "pull_request_review_comment"
    )
}

fn bit(name: &str) -> Option<u64> {
    EVENT_NAMES.iter().position(|known| *known == name).map(|index| 1 << index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};

    use super::*;

    #[test]
    fn no_names_mean_pushes() {
        let events = HookEvents::parse::<&str>(&[]).unwrap();
        assert_eq!(events.names().collect::<Vec<_>>(), ["push"]);
    }

    /// A comment on a contract and the table of `docs/webhooks.md` name what `split.rs` makes.
    #[test]
    fn the_pages_name_every_event_that_is_sent() {
        let split = include_str!("../rpc/split.rs").split("#[cfg(test)]").next().unwrap();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/webhooks.md");
        let page = std::fs::read_to_string(page).unwrap();
        let contract = include_str!("../../../proto/ferrite/hook/v1/hook.proto");
        let sent = |name: &str| split.contains(&format!("\"{name}\""));
        let table = page.split("\n## ").find(|section| section.starts_with("Events\n")).unwrap();
        for name in EVENT_NAMES {
            assert_eq!(table.contains(&format!("\n| `{name}` |")), sent(name), "{name}");
        }
        let listed = contract.split("whole site: ").nth(1).unwrap().split(';').next().unwrap();
        for name in EVENT_NAMES.into_iter().filter(|name| sent(name)) {
            assert!(listed.contains(&format!("`{name}`")), "{name}: {listed}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        for name in ["", "Push", "pushes", "push,issues", "*"] {
            let violation = HookEvents::parse(&["push", name]).unwrap_err();
            assert_eq!((violation.field.as_str(), violation.code), ("events", "unknown"), "{name:?}");
        }
    }

    #[test]
    fn an_event_is_wanted_by_its_name_and_by_its_type() {
        let told = |name: &'static str, action: &str, is_pull: bool| (name, event_type(name, action, is_pull));
        for ((name, event_type), wanting, others) in [
            (told("issues", "opened", false), &["issues", "issues_only"][..], &["issue_label", "push"][..]),
            (told("issues", "unassigned", false), &["issues", "issue_assign"], &["issues_only", "issue_label"]),
            (told("issues", "label_cleared", false), &["issues", "issue_label"], &["issues_only", "issue_assign"]),
            (told("issues", "milestoned", false), &["issues", "issue_milestone"], &["issues_only"]),
            (told("issue_comment", "created", false), &["issue_comment"], &["pull_request_comment", "issues"]),
            (
                told("issue_comment", "created", true),
                &["issue_comment", "pull_request_comment"],
                &["pull_request", "pull_request_review_comment"],
            ),
            (
                told("pull_request", "opened", false),
                &["pull_request", "pull_request_only"],
                &["issues", "pull_request_sync"],
            ),
            (
                told("pull_request", "synchronized", false),
                &["pull_request", "pull_request_sync"],
                &["pull_request_only", "pull_request_review", "push"],
            ),
            (told("pull_request", "assigned", false), &["pull_request_assign"], &["issue_assign", "pull_request_only"]),
            (told("pull_request", "label_cleared", false), &["pull_request_label"], &["issue_label", "issues"]),
            (told("pull_request", "demilestoned", false), &["pull_request_milestone"], &["issue_milestone"]),
            (
                told("pull_request", "review_requested", false),
                &["pull_request", "pull_request_review_request"],
                &["pull_request_only", "pull_request_review"],
            ),
            (
                told("pull_request_approved", "reviewed", false),
                &["pull_request", "pull_request_review", "pull_request_review_approved", "pull_request_approved"],
                &["pull_request_only", "pull_request_review_rejected", "pull_request_comment", "issue_comment"],
            ),
            (
                told("pull_request_rejected", "reviewed", false),
                &["pull_request", "pull_request_review", "pull_request_review_rejected", "pull_request_rejected"],
                &["pull_request_review_request", "pull_request_approved"],
            ),
            (
                told("pull_request_comment", "reviewed", false),
                &["pull_request", "pull_request_review", "pull_request_review_comment"],
                &["pull_request_comment", "issue_comment", "pull_request_approved"],
            ),
            (told("push", "", false), &["push"], &["create", "issues_only"]),
        ] {
            for (names, is_wanted) in [(wanting, true), (others, false)] {
                for one in names {
                    let events = HookEvents::parse(&[one]).unwrap();
                    assert_eq!(events.wants(name, event_type), is_wanted, "{one}: {name} {event_type}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_names_in_any_order_come_back_once_in_the_fixed_order(
            wanted in subsequence(EVENT_NAMES.to_vec(), 1..=EVENT_NAMES.len()),
            repeats in proptest::collection::vec(select(EVENT_NAMES.to_vec()), 0..8),
        ) {
            let mut sent: Vec<_> = repeats.into_iter().filter(|name| wanted.contains(name)).collect();
            sent.extend(wanted.iter().rev());
            let events = HookEvents::parse(&sent).unwrap();
            prop_assert_eq!(events.names().collect::<Vec<_>>(), wanted);
            prop_assert_eq!(HookEvents::from_column(&events.to_column()), Some(events));
        }

        #[test]
        fn arbitrary_names_are_known_or_refused(names in proptest::collection::vec(".{0,8}", 1..4)) {
            let known = names.iter().all(|name| EVENT_NAMES.contains(&name.as_str()));
            prop_assert_eq!(HookEvents::parse(&names).is_ok(), known);
        }
    }
}
