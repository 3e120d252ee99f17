//! The events that a form offers, each with when it is sent.

const EVENTS: [(&str, &str); 10] = [
    ("push", "Commits are pushed to a branch"),
    ("create", "A branch or tag is created"),
    ("delete", "A branch or tag is deleted"),
    ("issues", "An issue is opened, closed, edited, assigned, labelled or given a milestone"),
    ("pull_request", "The same for a pull request, and reviews, requests for reviews and new commits"),
    ("issue_comment", "A comment on an issue or pull request is written, edited or deleted"),
    ("release", "A release is published"),
    ("fork", "A repository is forked"),
    ("repository", "A repository is created, deleted, renamed, transferred or archived, or its visibility changes"),
    ("status", "A commit gets a status"),
];
/// Parts of the events above. Those who select the whole need none of them.
const PARTS: [(&str, &str); 15] = [
    ("issues_only", "An issue is opened, closed, reopened or edited"),
    ("issue_assign", "An issue is assigned or unassigned"),
    ("issue_label", "The labels of an issue change"),
    ("issue_milestone", "The milestone of an issue changes"),
    ("pull_request_only", "A pull request is opened, closed, reopened or edited"),
    ("pull_request_assign", "A pull request is assigned or unassigned"),
    ("pull_request_label", "The labels of a pull request change"),
    ("pull_request_milestone", "The milestone of a pull request changes"),
    ("pull_request_sync", "Commits are pushed to a pull request"),
    ("pull_request_review_request", "A review is requested, or the request withdrawn"),
    ("pull_request_review", "A pull request is reviewed"),
    ("pull_request_review_approved", "A review approves"),
    ("pull_request_review_rejected", "A review requests changes"),
    ("pull_request_review_comment", "A review neither approves nor rejects"),
    ("pull_request_comment", "A comment on a pull request is written, edited or deleted"),
];
/// Names that only deliveries have.
const SENT: [&str; 4] = ["pull_request_approved", "pull_request_rejected", "pull_request_comment", "ping"];

/// A box of a form.
pub(super) struct Choice {
    pub(super) name: String,
    pub(super) meaning: &'static str,
    pub(super) is_chosen: bool,
}

/// The boxes of a form.
pub(super) struct Choices {
    pub(super) events: Vec<Choice>,
    pub(super) parts: Vec<Choice>,
    /// What a program chose over the API and the form does not offer.
    pub(super) others: Vec<Choice>,
}

impl Choices {
    pub(super) fn of(chosen: &[String]) -> Self {
        let is_offered = |name: &str| EVENTS.iter().chain(&PARTS).any(|(offered, _)| *offered == name);
        let others = chosen.iter().filter(|name| !is_offered(name));
        Self {
            events: choices(&EVENTS, chosen),
            parts: choices(&PARTS, chosen),
            others: others.map(|name| Choice { name: name.clone(), meaning: "", is_chosen: true }).collect(),
        }
    }

    pub(super) fn has_parts(&self) -> bool {
        self.parts.iter().any(|part| part.is_chosen)
    }
}

fn choices(offered: &[(&str, &'static str)], chosen: &[String]) -> Vec<Choice> {
    let choice = |&(name, meaning): &(&str, &'static str)| Choice {
        name: name.to_owned(),
        meaning,
        is_chosen: chosen.iter().any(|other| other == name),
    };
    offered.iter().map(choice).collect()
}

/// Returns the names that deliveries have, for a filter.
pub(super) fn sent() -> impl Iterator<Item = &'static str> {
    EVENTS.into_iter().map(|(name, _)| name).chain(SENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_keeps_events_that_it_does_not_offer() {
        let chosen = ["push", "issue_label", "wiki"].map(str::to_owned);
        let choices = Choices::of(&chosen);
        let names = |choices: &[Choice]| {
            choices.iter().filter(|choice| choice.is_chosen).map(|choice| choice.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&choices.events), ["push"]);
        assert_eq!((names(&choices.parts), choices.has_parts()), (vec!["issue_label".to_owned()], true));
        assert_eq!(names(&choices.others), ["wiki"]);
        assert!(!Choices::of(&[]).has_parts());
    }
}
