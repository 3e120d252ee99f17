use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo::UpdateRepositoryRequest;

use super::changed_fields;
use super::clone_address::check_mirror_interval;
use super::name::RepoName;
use super::profile::parse_website;
use super::pull_settings::{PullSettings, PullSettingsChange};
use super::text::{Description, is_misleading_ref, is_ref_name};
use super::violations::Violations;
use crate::error::RepoError;

const MAX_WEBSITE_CHARS: usize = 1_024;
const MAX_BRANCH_CHARS: usize = 255;
/// The file system allows 255 bytes for each part of a ref name, and git appends `.lock`.
const MAX_NEW_BRANCH_BYTES: usize = 250;

/// Whether the issue tracker or the wiki of a repository is on, and whether an external one takes its
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Feature {
    pub(crate) is_enabled: bool,
    pub(crate) is_external: bool,
}

impl Feature {
    /// Returns it after a request for the own one, or for none. Without an own one, an external one
    /// stays.
    fn wanted(self, is_wanted: Option<bool>) -> Self {
        match is_wanted {
            Some(true) => Self { is_enabled: true, is_external: false },
            Some(false) => Self { is_enabled: self.is_enabled && self.is_external, ..self },
            None => self,
        }
    }
}

/// Settings that administrators of a repository can change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepositorySettings {
    /// As spelled.
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) website: String,
    pub(crate) is_private: bool,
    pub(crate) is_archived: bool,
    pub(crate) issues: Feature,
    pub(crate) wiki: Feature,
    pub(crate) pulls: PullSettings,
}

impl RepositorySettings {
    /// Returns the request fields that differ in `after`.
    pub(crate) fn changed_fields(&self, after: &Self) -> Vec<&'static str> {
        let mut fields = changed_fields([
            ("name", self.name != after.name),
            ("description", self.description != after.description),
            ("website", self.website != after.website),
            ("private", self.is_private != after.is_private),
            ("archived", self.is_archived != after.is_archived),
            ("has_issues", self.issues != after.issues),
            ("has_wiki", self.wiki != after.wiki),
        ]);
        fields.extend(self.pulls.changed_fields(&after.pulls));
        fields
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
    has_issues: Option<bool>,
    has_wiki: Option<bool>,
    pulls: PullSettingsChange,
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
        let pulls = violations.take(PullSettingsChange::check(request.pulls));
        match (name, description, website, default_branch, interval, pulls) {
            (Some(name), Some(description), Some(website), Some(default_branch), Some(interval), Some(pulls)) => {
                Ok(Self {
                    name,
                    description,
                    website,
                    is_private: request.is_private,
                    is_archived: request.is_archived,
                    has_issues: request.has_issues,
                    has_wiki: request.has_wiki,
                    pulls,
                    default_branch,
                    mirror_interval_secs: interval,
                })
            }
            _ => Err(violations.into_error()),
        }
    }

    /// Returns the settings after the change. Fails if no merge style stays allowed, or if the given
    /// default style is not allowed.
    pub(crate) fn apply(&self, before: &RepositorySettings) -> Result<RepositorySettings, RepoError> {
        Ok(RepositorySettings {
            name: self.name.as_ref().map_or(&*before.name, RepoName::as_str).to_owned(),
            description: self.description.as_ref().map_or(&*before.description, Description::as_str).to_owned(),
            website: self.website.as_ref().unwrap_or(&before.website).clone(),
            is_private: self.is_private.unwrap_or(before.is_private),
            is_archived: self.is_archived.unwrap_or(before.is_archived),
            issues: before.issues.wanted(self.has_issues),
            wiki: before.wiki.wanted(self.has_wiki),
            pulls: self.pulls.apply(&before.pulls)?,
        })
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

/// Checks the default branch of a new repository, by the rules of the store.
pub(crate) fn parse_new_branch(text: &str, field: &str) -> Result<String, FieldViolation> {
    let refuse = |code, message: &str| Err(FieldViolation::new(field, code, message));
    if text.len() > MAX_NEW_BRANCH_BYTES {
        return refuse("too_long", "must have at most 250 bytes");
    }
    if !is_ref_name(text) {
        return refuse("invalid", "is not a valid branch name");
    }
    if is_misleading_ref(text) {
        return refuse("invalid", "looks like an option, a ref or an object id");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use ferrite_proto::repo;

    use super::super::pull_settings::tests::new_settings;
    use super::*;

    const OWN: Feature = Feature { is_enabled: true, is_external: false };

    fn before() -> RepositorySettings {
        RepositorySettings {
            issues: OWN,
            wiki: OWN,
            pulls: new_settings(),
            name: "demo".to_owned(),
            description: "about".to_owned(),
            website: "https://example.com".to_owned(),
            is_private: false,
            is_archived: false,
        }
    }

    #[test]
    fn an_absent_field_keeps_its_value_and_an_empty_text_clears_it() {
        let change = |request| RepositoryChange::check(request).unwrap().apply(&before()).unwrap();
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
    fn an_own_tracker_takes_the_place_of_an_external_one_which_stays_without_it() {
        let external = Feature { is_enabled: true, is_external: true };
        let off = Feature { is_enabled: false, is_external: false };
        let off_and_external = Feature { is_enabled: false, is_external: true };
        for (feature, without) in [(OWN, off), (external, external), (off, off), (off_and_external, off_and_external)] {
            assert_eq!(feature.wanted(None), feature);
            assert_eq!(feature.wanted(Some(true)), OWN, "{feature:?}");
            assert_eq!(feature.wanted(Some(false)), without, "{feature:?}");
        }
        let request = UpdateRepositoryRequest { has_issues: Some(false), has_wiki: Some(false), ..Default::default() };
        let changed = RepositoryChange::check(request).unwrap().apply(&before()).unwrap();
        assert_eq!(before().changed_fields(&changed), ["has_issues", "has_wiki"]);
    }

    #[test]
    fn the_branch_of_a_new_repository_is_a_plain_name() {
        let long = "b".repeat(251);
        for (text, expected) in [
            ("main", Ok(())),
            ("team/\u{e4}", Ok(())),
            ("a..b", Err("invalid")),
            ("-x", Err("invalid")),
            ("refs/heads/main", Err("invalid")),
            ("HEAD", Err("invalid")),
            (long.as_str(), Err("too_long")),
        ] {
            let parsed = parse_new_branch(text, "default_branch").map(drop).map_err(|violation| violation.code);
            assert_eq!(parsed, expected, "{text}");
        }
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
        let unknown_style =
            repo::PullSettingsChange { default_style: Some("octopus".to_owned()), ..Default::default() };
        let refused = RepositoryChange::check(UpdateRepositoryRequest {
            name: Some("x.git".to_owned()),
            description: Some("d".repeat(256)),
            website: Some("example.com".to_owned()),
            default_branch: Some("b".repeat(256)),
            mirror_interval_seconds: Some(0),
            pulls: Some(unknown_style),
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
            ("default_merge_style", "unknown"),
        ];
        assert_eq!(fields, expected);
    }
}
