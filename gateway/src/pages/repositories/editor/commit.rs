//! The fields of a commit that all forms have.

use ferrite_api_types::links::encode_path;
use serde_json::{Map, Value, json};

use super::form::Place;
use crate::pages::form::Fields;
use crate::pages::repositories::RepositoryVisit;
use crate::pages::repositories::revision::Revision;

/// What is in the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commit {
    /// Empty for one that names the files.
    pub(super) message: String,
    /// A branch to begin with the commit; empty to commit to the branch of the page.
    pub(super) new_branch: String,
}

impl Commit {
    pub(super) fn of_fields(fields: &Fields) -> Self {
        let text = |name| fields.text(name).trim().to_owned();
        Self { message: text("message"), new_branch: text("new_branch") }
    }

    /// The fields of a request.
    pub(super) fn json(&self, branch: &str) -> Map<String, Value> {
        let fields = [("branch", branch), ("message", self.message.as_str()), ("new_branch", self.new_branch.as_str())];
        fields.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
    }

    /// The page after the commit: the form of a pull request for a new branch, else `path`.
    pub(super) fn target(&self, at: &RepositoryVisit, place: &Place, path: &str) -> String {
        if self.new_branch.is_empty() {
            return place.revision.path_of("src", path);
        }
        if !at.repository.has_pull_requests {
            return Revision::branch(at, &self.new_branch, "").path_of("src", path);
        }
        let (base, head) = (encode_path(place.branch().as_bytes()), encode_path(self.new_branch.as_bytes()));
        format!("{}/pulls/new/{base}...{head}", at.repository.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_what_the_form_says() {
        let pairs = [("message", " Fix \n\nit\n"), ("new_branch", " fix "), ("branch", "other")];
        let fields: Fields = pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let commit = Commit::of_fields(&fields);
        let expected = json!({"branch": "main", "message": "Fix \n\nit", "new_branch": "fix"});
        assert_eq!(Value::Object(commit.json("main")), expected);
    }
}
