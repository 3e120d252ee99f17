//! The requirements of the merge of a pull request, as the API responds with them.

use serde::Deserialize;

/// The kinds that the protection of the base branch requires.
const OF_PROTECTION: [&str; 6] = ["merger", "up_to_date", "check", "approvals", "no_rejection", "requested_reviews"];

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct MergeRequirements {
    requirements: Vec<Requirement>,
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

    #[test]
    fn requirements_of_the_protection_have_their_words() {
        let of = |kind: &str, met: bool| json!({"kind": kind, "met": met, "reason": null, "message": "why"});
        let mut approvals = of("approvals", false);
        (approvals["approvals"], approvals["required_approvals"]) = (1.into(), 2.into());
        let mut check = of("check", true);
        check["context"] = "ci".into();
        let all = json!({"requirements": [of("open", true), of("ready", false), approvals, check, of("merger", true)]});
        let found: MergeRequirements = serde_json::from_value(all).unwrap();
        let shown: Vec<_> = found.of_protection().iter().map(|one| (one.text(), one.met)).collect();
        let expected = [("Approvals: 1 of 2", false), ("Check ci", true), ("Only some users can merge", true)];
        assert_eq!(shown, expected.map(|(text, met)| (text.to_owned(), met)));
        assert_eq!((found.missing("ready"), found.missing("open")), (Some("why".to_owned()), None));
    }
}
