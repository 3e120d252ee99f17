use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::UpdateRepositoryRequest;

use super::changed_fields;
use super::clone_address::check_mirror_interval;
use super::name::RepoName;
use super::profile::parse_website;
use super::text::Description;
use super::violations::Violations;
use crate::error::RepoError;

const MAX_WEBSITE_CHARS: usize = 1_024;
const MAX_BRANCH_CHARS: usize = 255;

/// Settings that administrators of a repository can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositorySettings {
    /// As spelled.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) website: String,
    pub(crate) is_private: bool,
    pub(crate) is_archived: bool,
}

impl RepositorySettings {
    /// Returns the request fields that differ in `after`.
    pub(crate) fn changed_fields(&self, after: &Self) -> Vec<&'static str> {
        changed_fields([
            ("name", self.name != after.name),
            ("description", self.description != after.description),
            ("website", self.website != after.website),
            ("private", self.is_private != after.is_private),
            ("archived", self.is_archived != after.is_archived),
        ])
    }

    /// Returns whether the change only makes the repository private.
    pub(crate) fn loses_only_readers(&self, after: &Self) -> bool {
        !self.is_private && *after == Self { is_private: true, ..self.clone() }
    }

    /// Returns the folded name, to compare names.
    pub(crate) fn name_key(&self) -> String {
        self.name.to_ascii_lowercase()
    }
}

/// `None` keeps a field.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepositoryChange {
    pub(crate) name: Option<RepoName>,
    description: Option<Description>,
    website: Option<String>,
    is_private: Option<bool>,
    is_archived: Option<bool>,
    /// The short name. The store checks that the branch exists.
    pub(crate) default_branch: Option<String>,
    /// Of a mirror, in seconds. The store has checked that it is one.
    pub(crate) mirror_interval_secs: Option<i64>,
}

impl RepositoryChange {
    pub(crate) fn check(request: UpdateRepositoryRequest) -> Result<Self, RepoError> {
        let mut violations = Violations::default();
        let name = violations.take_optional(request.name.as_deref(), "name", RepoName::parse);
        let description = violations.take_optional(request.description.as_deref(), "description", Description::parse);
        let website = |text: &str, field: &str| parse_website(text, MAX_WEBSITE_CHARS, field);
        let website = violations.take_optional(request.website.as_deref(), "website", website);
        let default_branch = violations.take(request.default_branch.map(branch).transpose());
        let interval = violations.take(request.mirror_interval_seconds.map(check_mirror_interval).transpose());
        match (name, description, website, default_branch, interval) {
            (Some(name), Some(description), Some(website), Some(default_branch), Some(interval)) => Ok(Self {
                name,
                description,
                website,
                is_private: request.is_private,
                is_archived: request.is_archived,
                default_branch,
                mirror_interval_secs: interval,
            }),
            _ => Err(violations.into_error()),
        }
    }

    pub(crate) fn apply(&self, before: &RepositorySettings) -> RepositorySettings {
        RepositorySettings {
            name: self.name.as_ref().map_or(&*before.name, RepoName::as_str).to_owned(),
            description: self.description.as_ref().map_or(&*before.description, Description::as_str).to_owned(),
            website: self.website.as_ref().unwrap_or(&before.website).clone(),
            is_private: self.is_private.unwrap_or(before.is_private),
            is_archived: self.is_archived.unwrap_or(before.is_archived),
        }
    }
}

/// Checks only the length. The store has the other rules, and must have the branch.
fn branch(text: String) -> Result<String, FieldViolation> {
    let refuse = |code, message: String| Err(FieldViolation::new("default_branch", code, message));
    if text.is_empty() {
        return refuse("required", "is required".to_owned());
    }
    if text.chars().count() > MAX_BRANCH_CHARS {
        return refuse("too_long", format!("must have at most {MAX_BRANCH_CHARS} characters"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn before() -> RepositorySettings {
        RepositorySettings {
            name: "demo".to_owned(),
            description: "about".to_owned(),
            website: "https://example.com".to_owned(),
            is_private: false,
            is_archived: false,
        }
    }

    #[test]
    fn an_absent_field_keeps_its_value_and_an_empty_text_clears_it() {
        let change = |request| RepositoryChange::check(request).unwrap().apply(&before());
        assert_eq!(change(UpdateRepositoryRequest::default()), before());
        let cleared = change(UpdateRepositoryRequest {
            description: Some(String::new()),
            website: Some(String::new()),
            ..UpdateRepositoryRequest::default()
        });
        assert_eq!((cleared.description.as_str(), cleared.website.as_str()), ("", ""));
        assert_eq!(before().changed_fields(&cleared), ["description", "website"]);
        let rest = change(UpdateRepositoryRequest {
            name: Some("Demo".to_owned()),
            is_private: Some(true),
            is_archived: Some(true),
            ..UpdateRepositoryRequest::default()
        });
        assert_eq!(before().changed_fields(&rest), ["name", "private", "archived"]);
        assert_eq!(rest.name_key(), before().name_key());
    }

    #[test]
    fn a_repository_loses_only_readers_if_nothing_else_changes() {
        let private = RepositorySettings { is_private: true, ..before() };
        assert!(before().loses_only_readers(&private));
        let archived = RepositorySettings { is_archived: true, ..private.clone() };
        for (old, new) in
            [(before(), before()), (private.clone(), private.clone()), (private, before()), (before(), archived)]
        {
            assert!(!old.loses_only_readers(&new), "{old:?} {new:?}");
        }
    }

    #[test]
    fn every_field_that_breaks_a_rule_is_named() {
        let refused = RepositoryChange::check(UpdateRepositoryRequest {
            name: Some("x.git".to_owned()),
            description: Some("d".repeat(256)),
            website: Some("example.com".to_owned()),
            default_branch: Some("b".repeat(256)),
            mirror_interval_seconds: Some(0),
            ..UpdateRepositoryRequest::default()
        });
        let Err(RepoError::Invalid(violations)) = refused else { panic!("{refused:?}") };
        let fields: Vec<_> = violations.iter().map(|violation| (violation.field.as_str(), violation.code)).collect();
        let expected = [
            ("name", "reserved"),
            ("description", "too_long"),
            ("website", "invalid"),
            ("default_branch", "too_long"),
            ("mirror_interval", "invalid"),
        ];
        assert_eq!(fields, expected);
    }
}
