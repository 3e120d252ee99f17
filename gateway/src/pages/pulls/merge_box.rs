//! The box below a pull request: reviewers, checks, what keeps it from being merged, and the forms
//! that merge, update and revert it.

use super::PullVisit;
use super::requirements::{MergeRequirements, Requirement};
use super::view::{CombinedStatus, Conflicts, EndRepository, Pull, Review, ReviewState};
use crate::pages::error::{PageError, PageResult};
use crate::pages::form::Fields;

/// Checks that are shown.
const MAX_CHECKS: u64 = 50;
/// Bytes of the body of a pull request in the message of a squash, as in the API.
const MAX_DEFAULT_BODY_BYTES: usize = 64 * 1024;

/// The styles: the word of the API, what the button says, and what happens.
const STYLES: [(&str, &str, &str); 5] = [
    ("merge", "Create a merge commit", "All commits of the head, joined by a merge commit."),
    ("rebase", "Rebase and fast-forward", "The commits of the head, copied onto the base."),
    ("rebase-merge", "Rebase and create a merge commit", "The commits, copied onto the base, and a merge commit."),
    ("squash", "Squash into one commit", "One new commit with all changes."),
    ("fast-forward-only", "Fast-forward", "The base moves to the head, without a new commit."),
];
/// For what was merged with other tools.
const MANUAL: &str = "manually-merged";

pub(super) struct MergeBox {
    /// The latest review of each user.
    pub(super) verdicts: Vec<Verdict>,
    pub(super) checks: CombinedStatus,
    /// Why head and base do not fit together.
    pub(super) obstacle: Option<String>,
    pub(super) conflicts: Option<Conflicts>,
    pub(super) requirements: Vec<Requirement>,
    /// Why no style of merging is possible.
    pub(super) style_message: Option<String>,
    pub(super) styles: Vec<StyleForm>,
    pub(super) has_manual_style: bool,
    pub(super) is_manual_open: bool,
    /// Whether another open pull request has the same head branch.
    pub(super) is_head_shared: bool,
    pub(super) deletes_head: bool,
    pub(super) waits: bool,
    pub(super) can_rebase_head: bool,
    pub(super) revert_title: String,
}

pub(super) struct Verdict {
    pub(super) review: Review,
    /// Whether it approves or rejects, but does not count.
    pub(super) is_ignored: bool,
}

/// The form of a style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StyleForm {
    pub(super) word: &'static str,
    pub(super) button: &'static str,
    pub(super) hint: &'static str,
    /// Title and message of the commit that the style makes.
    pub(super) message: Option<(String, String)>,
    pub(super) is_open: bool,
}

/// What the box needs to know from the API, without the reviews.
pub(super) struct Loaded {
    checks: CombinedStatus,
    conflicts: Option<Conflicts>,
    requirements: MergeRequirements,
}

/// Reads what an open pull request waits for.
pub(super) async fn load(on: &PullVisit) -> PageResult<Loaded> {
    let (api, repository, pull) = (&on.visit().api, on.at.repository.api(), &on.pull);
    if !pull.is_open() {
        let (checks, requirements) = (CombinedStatus::default(), MergeRequirements::default());
        return Ok(Loaded { checks, conflicts: None, requirements });
    }
    let checks = async {
        let path = format!("{repository}/commits/{}/status?limit={MAX_CHECKS}", pull.head.sha);
        Ok::<_, PageError>(api.find::<CombinedStatus>(&path).await?.unwrap_or_default())
    };
    let conflicts = async {
        match pull.mergeable {
            Some(false) => {
                let found = api.find::<Conflicts>(&format!("{}/conflicts", on.api())).await?;
                Ok(found.filter(|found| found.total_count > 0))
            }
            _ => Ok(None),
        }
    };
    let path = format!("{}/merge-requirements", on.api());
    let (checks, conflicts, requirements) = tokio::try_join!(checks, conflicts, api.get::<MergeRequirements>(&path))?;
    Ok(Loaded { checks, conflicts, requirements })
}

impl MergeBox {
    /// `typed` is a form that was refused.
    pub(super) fn new(on: &PullVisit, loaded: Loaded, reviews: &[Review], typed: Option<&Fields>) -> Self {
        let (pull, rights) = (&on.pull, on.rights());
        let verdict = |review: &Review| {
            let is_ignored = pull.is_open() && loaded.requirements.ignores(review);
            Verdict { review: review.clone(), is_ignored }
        };
        let verdicts = latest(reviews).into_iter().map(verdict).collect();
        let typed = typed.filter(|typed| typed.text("action") == "merge");
        let base = pull.base.repo.as_ref().filter(|_| rights.merge && pull.is_open());
        let deletes = base.is_some_and(|base| base.default_delete_branch_after_merge);
        Self {
            verdicts,
            checks: loaded.checks,
            obstacle: loaded.requirements.missing("mergeable"),
            conflicts: loaded.conflicts,
            requirements: loaded.requirements.of_protection(),
            style_message: loaded.requirements.missing("style"),
            styles: base.map(|base| styles(pull, base, typed)).unwrap_or_default(),
            has_manual_style: base.is_some_and(|base| base.allow_manual_merge),
            is_manual_open: typed.is_some_and(|typed| typed.text("Do") == MANUAL),
            is_head_shared: loaded.requirements.head_shared,
            deletes_head: typed.map_or(deletes, |typed| typed.is_checked("delete_branch_after_merge")),
            waits: typed.is_some_and(|typed| typed.is_checked("merge_when_checks_succeed")),
            can_rebase_head: pull.head.repo.as_ref().is_some_and(|head| head.allow_rebase_update),
            revert_title: pull.revert_title(),
        }
    }

    /// Files that conflict and are not shown.
    pub(super) fn hidden_conflicts(&self) -> u64 {
        let hidden = |conflicts: &Conflicts| conflicts.total_count.saturating_sub(conflicts.files.len() as u64);
        self.conflicts.as_ref().map_or(0, hidden)
    }

    /// Checks that are not shown.
    pub(super) fn hidden_checks(&self) -> u64 {
        self.checks.total_count.saturating_sub(self.checks.statuses.len() as u64)
    }
}

/// Returns the latest review of each user. One that approves or rejects counts until the next such.
pub(super) fn latest(reviews: &[Review]) -> Vec<&Review> {
    let mut latest: Vec<&Review> = Vec::new();
    for review in reviews.iter().filter(|review| review.is_submitted()) {
        let id = |review: &Review| review.user.as_ref().map(|user| user.id);
        match latest.iter_mut().find(|other| id(other) == id(review)) {
            Some(other) if review.is_verdict() || other.state == ReviewState::Comment => *other = review,
            Some(_) => {}
            None => latest.push(review),
        }
    }
    latest
}

/// Returns the forms of the styles that the settings allow, with the messages of the API or those
/// that were typed.
fn styles(pull: &Pull, base: &EndRepository, typed: Option<&Fields>) -> Vec<StyleForm> {
    let is_allowed = |word: &str| match word {
        "merge" => base.allow_merge_commits,
        "rebase" => base.allow_rebase,
        "rebase-merge" => base.allow_rebase_explicit,
        "squash" => base.allow_squash_merge,
        _ => base.allow_fast_forward_only_merge,
    };
    let allowed: Vec<_> = STYLES.into_iter().filter(|(word, ..)| is_allowed(word)).collect();
    let chosen = typed.map_or(base.default_merge_style.as_str(), |typed| typed.text("Do"));
    let is_known = chosen == MANUAL || allowed.iter().any(|(word, ..)| *word == chosen);
    let chosen = if is_known { chosen } else { allowed.first().map_or("", |(word, ..)| *word) };
    let form = |(word, button, hint): (&'static str, &'static str, &'static str)| {
        let typed = typed.filter(|_| word == chosen);
        let message = default_message(word, pull).map(|(title, message)| match typed {
            Some(typed) => (typed.text("MergeTitleField").to_owned(), typed.text("MergeMessageField").to_owned()),
            None => (title, message),
        });
        StyleForm { word, button, hint, message, is_open: word == chosen }
    };
    allowed.into_iter().map(form).collect()
}

/// Returns title and message that the API would choose; `None` if the style makes no commit.
fn default_message(style: &str, pull: &Pull) -> Option<(String, String)> {
    let Pull { title, number, body, .. } = pull;
    let (head, base) = (&pull.head.label, &pull.base.label);
    match style {
        "merge" | "rebase-merge" => {
            Some((format!("Merge pull request '{title}' (#{number}) from {head} into {base}"), String::new()))
        }
        "squash" => {
            let body = &body[..body.floor_char_boundary(MAX_DEFAULT_BODY_BYTES)];
            Some((format!("{title} (#{number})"), body.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::pulls::view::testing::{pull, review};

    #[test]
    fn a_verdict_counts_until_the_next_one() {
        let of = |user: i64, state: &str| {
            let mut review = review(user, state);
            review.id = 0;
            review
        };
        let reviews = [
            of(1, "COMMENT"),
            of(2, "APPROVED"),
            of(1, "REQUEST_CHANGES"),
            of(2, "COMMENT"),
            of(1, "APPROVED"),
            of(3, "PENDING"),
            of(4, "REQUEST_REVIEW"),
        ];
        let found: Vec<_> =
            latest(&reviews).iter().map(|review| (review.user.as_ref().unwrap().id, review.state)).collect();
        assert_eq!(found, [(1, ReviewState::Approved), (2, ReviewState::Approved)]);
    }

    #[test]
    fn the_styles_of_the_settings_have_their_messages() {
        let pull = pull("Read long lines");
        let base = pull.base.repo.clone().unwrap();
        let forms = styles(&pull, &base, None);
        let words: Vec<_> = forms.iter().map(|form| (form.word, form.is_open)).collect();
        assert_eq!(words, [("merge", false), ("squash", true)]);
        let title = "Merge pull request 'Read long lines' (#7) from topic into main".to_owned();
        assert_eq!(forms[0].message, Some((title, String::new())));
        assert_eq!(forms[1].message, Some(("Read long lines (#7)".to_owned(), "Fixes #5.".to_owned())));
        let base = EndRepository { default_merge_style: "rebase".to_owned(), ..base };
        assert!(styles(&pull, &base, None)[0].is_open, "the default is not allowed");
    }
}
