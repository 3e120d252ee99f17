//! The requirements of the merge of a pull request, as the API responds with them.

use serde::Deserialize;

use super::view::Review;
use crate::pages::view::Account;

/// The kinds that the protection of the base branch requires.
const OF_PROTECTION: [&str; 6] = ["merger", "up_to_date", "check", "approvals", "no_rejection", "requested_reviews"];

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct MergeRequirements {
    requirements: Vec<Requirement>,
    /// Whether another open pull request has the same head branch.
    pub(super) head_shared: bool,
    /// Those whose reviews count.
    counted_reviewers: Vec<Account>,
}

/// Something that a merge needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Requirement {
    kind: String,
    pub(super) met: bool,
    message: String,
    context: Option<String>,
    approvals: Option<i64>,
    required_approvals: Option<i64>,
}

impl MergeRequirements {
    /// Returns what the protection of the base branch requires.
    pub(super) fn of_protection(&self) -> Vec<Requirement> {
        let of_protection = |requirement: &&Requirement| OF_PROTECTION.contains(&requirement.kind.as_str());
        self.requirements.iter().filter(of_protection).cloned().collect()
    }

    /// Returns whether a review approves or rejects, but does not count: who gave it cannot write to
    /// the repository now.
    pub(super) fn ignores(&self, review: &Review) -> bool {
        let is_counted = |user: &Account| self.counted_reviewers.iter().any(|counted| counted.id == user.id);
        review.is_verdict() && !review.dismissed && !review.user.as_ref().is_some_and(is_counted)
    }

    /// Returns why a requirement of a kind is not met; `None` if it is.
    pub(super) fn missing(&self, kind: &str) -> Option<String> {
        let missing = self.requirements.iter().find(|requirement| !requirement.met && requirement.kind == kind);
        missing.map(|requirement| requirement.message.clone())
    }
}

impl Requirement {
    pub(super) fn text(&self) -> String {
        match self.kind.as_str() {
            "merger" => "Only some users can merge".to_owned(),
            "up_to_date" => "The head has all commits of the base".to_owned(),
            "check" => match self.context.as_deref() {
                None | Some("*") => "All checks have passed".to_owned(),
                Some(context) => format!("Check {context}"),
            },
            "approvals" => {
                let (given, required) = (self.approvals.unwrap_or(0), self.required_approvals.unwrap_or(0));
                format!("Approvals: {given} of {required}")
            }
            "no_rejection" => "No reviewer requests changes".to_owned(),
            "requested_reviews" => "All requested reviews are given".to_owned(),
            _ => self.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pages::pulls::view::testing::review;

    #[test]
    fn requirements_of_the_protection_have_their_words() {
        let of = |kind: &str, met: bool| json!({"kind": kind, "met": met, "reason": null, "message": "why"});
        let mut approvals = of("approvals", false);
        (approvals["approvals"], approvals["required_approvals"]) = (1.into(), 2.into());
        let mut check = of("check", true);
        check["context"] = "ci".into();
        let requirements = [of("open", true), of("ready", false), approvals, check, of("merger", true)];
        let all = json!({"requirements": requirements, "head_shared": false, "counted_reviewers": []});
        let found: MergeRequirements = serde_json::from_value(all).unwrap();
        let shown: Vec<_> = found.of_protection().iter().map(|one| (one.text(), one.met)).collect();
        let expected = [("Approvals: 1 of 2", false), ("Check ci", true), ("Only some users can merge", true)];
        assert_eq!(shown, expected.map(|(text, met)| (text.to_owned(), met)));
        assert_eq!((found.missing("ready"), found.missing("open")), (Some("why".to_owned()), None));
    }

    #[test]
    fn verdicts_of_those_who_cannot_write_are_ignored() {
        let counted_reviewers = vec![Account { id: 1, ..Account::default() }];
        let found = MergeRequirements { counted_reviewers, ..MergeRequirements::default() };
        for (user, state, is_ignored) in
            [(1, "APPROVED", false), (2, "APPROVED", true), (2, "REQUEST_CHANGES", true), (2, "COMMENT", false)]
        {
            assert_eq!(found.ignores(&review(user, state)), is_ignored, "{user} {state}");
        }
        assert!(!found.ignores(&Review { dismissed: true, ..review(2, "APPROVED") }));
    }
}
