use ferrite_proto::error::FieldViolation;
use ferrite_proto::repo;

use super::changed_fields;
use crate::error::RepoError;

const ALLOWED_FIELD: &str = "allow_merge_commits";
const DEFAULT_FIELD: &str = "default_merge_style";
/// The names of all styles, in the order of [`PullSettings::allowed`].
const STYLES: [&str; 5] = ["merge", "rebase", "rebase-merge", "squash", "fast-forward-only"];

/// How pull requests of a repository are merged. The fields are columns of repositories.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct PullSettings {
    pub(crate) has_pulls: bool,
    pub(crate) allow_merge: bool,
    pub(crate) allow_rebase: bool,
    pub(crate) allow_rebase_merge: bool,
    pub(crate) allow_squash: bool,
    pub(crate) allow_fast_forward_only: bool,
    pub(crate) allow_rebase_update: bool,
    pub(crate) delete_branch_after_merge: bool,
    pub(crate) detects_manual_merges: bool,
    pub(crate) allow_manual_merge: bool,
    pub(crate) default_merge_style: String,
}

impl PullSettings {
    /// Returns the request fields that differ in `after`.
    pub(super) fn changed_fields(&self, after: &Self) -> Vec<&'static str> {
        changed_fields([
            ("has_pull_requests", self.has_pulls != after.has_pulls),
            (ALLOWED_FIELD, self.allow_merge != after.allow_merge),
            ("allow_rebase", self.allow_rebase != after.allow_rebase),
            ("allow_rebase_explicit", self.allow_rebase_merge != after.allow_rebase_merge),
            ("allow_squash_merge", self.allow_squash != after.allow_squash),
            ("allow_fast_forward_only_merge", self.allow_fast_forward_only != after.allow_fast_forward_only),
            ("allow_rebase_update", self.allow_rebase_update != after.allow_rebase_update),
            ("default_delete_branch_after_merge", self.delete_branch_after_merge != after.delete_branch_after_merge),
            ("autodetect_manual_merge", self.detects_manual_merges != after.detects_manual_merges),
            ("allow_manual_merge", self.allow_manual_merge != after.allow_manual_merge),
            (DEFAULT_FIELD, self.default_merge_style != after.default_merge_style),
        ])
    }

    /// Whether each of [`STYLES`] is allowed.
    fn allowed(&self) -> [bool; 5] {
        [self.allow_merge, self.allow_rebase, self.allow_rebase_merge, self.allow_squash, self.allow_fast_forward_only]
    }
}

/// Absent fields stay as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct PullSettingsChange(repo::PullSettingsChange);

impl PullSettingsChange {
    pub(super) fn check(change: Option<repo::PullSettingsChange>) -> Result<Self, FieldViolation> {
        let change = change.unwrap_or_default();
        match change.default_style.as_deref() {
            Some(style) if !STYLES.contains(&style) => {
                let message = format!("must be one of `{}`", STYLES.join("`, `"));
                Err(FieldViolation::new(DEFAULT_FIELD, "unknown", message))
            }
            _ => Ok(Self(change)),
        }
    }

    /// Returns the settings after the change. A default style that the change forbids is replaced,
    /// because many clients do not know the setting. Fails if no style is allowed, or if the given
    /// default is not.
    pub(super) fn apply(&self, before: &PullSettings) -> Result<PullSettings, RepoError> {
        let Self(change) = self;
        let mut after = PullSettings {
            has_pulls: change.has_pulls.unwrap_or(before.has_pulls),
            allow_merge: change.allow_merge.unwrap_or(before.allow_merge),
            allow_rebase: change.allow_rebase.unwrap_or(before.allow_rebase),
            allow_rebase_merge: change.allow_rebase_merge.unwrap_or(before.allow_rebase_merge),
            allow_squash: change.allow_squash.unwrap_or(before.allow_squash),
            allow_fast_forward_only: change.allow_fast_forward_only.unwrap_or(before.allow_fast_forward_only),
            allow_rebase_update: change.allow_rebase_update.unwrap_or(before.allow_rebase_update),
            delete_branch_after_merge: change.delete_branch_after_merge.unwrap_or(before.delete_branch_after_merge),
            detects_manual_merges: change.detects_manual_merges.unwrap_or(before.detects_manual_merges),
            allow_manual_merge: change.allow_manual_merge.unwrap_or(before.allow_manual_merge),
            default_merge_style: change.default_style.as_ref().unwrap_or(&before.default_merge_style).clone(),
        };
        let allowed: Vec<_> = STYLES.into_iter().zip(after.allowed()).filter(|(_, is_allowed)| *is_allowed).collect();
        let Some((first, _)) = allowed.first() else {
            let violation = FieldViolation::new(ALLOWED_FIELD, "required", "at least one merge style must be allowed");
            return Err(RepoError::Invalid(vec![violation]));
        };
        if !allowed.iter().any(|(style, _)| *style == after.default_merge_style) {
            if change.default_style.is_some() {
                return Err(RepoError::field(DEFAULT_FIELD, "invalid", "must be an allowed merge style"));
            }
            after.default_merge_style = (*first).to_owned();
        }
        Ok(after)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The settings of a new repository.
    pub(in crate::model) fn new_settings() -> PullSettings {
        PullSettings {
            has_pulls: true,
            allow_merge: true,
            allow_rebase: true,
            allow_rebase_merge: true,
            allow_squash: true,
            allow_fast_forward_only: true,
            allow_rebase_update: true,
            delete_branch_after_merge: false,
            detects_manual_merges: true,
            allow_manual_merge: false,
            default_merge_style: "merge".to_owned(),
        }
    }

    fn style(name: &str) -> repo::PullSettingsChange {
        repo::PullSettingsChange { default_style: Some(name.to_owned()), ..Default::default() }
    }

    fn applied(change: repo::PullSettingsChange) -> Result<PullSettings, Vec<(String, &'static str)>> {
        let change = PullSettingsChange::check(Some(change)).map_err(|violation| RepoError::Invalid(vec![violation]));
        change.and_then(|change| change.apply(&new_settings())).map_err(|error| match error {
            RepoError::Invalid(violations) => {
                violations.into_iter().map(|violation| (violation.field, violation.code)).collect()
            }
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_change_keeps_what_it_does_not_name() {
        assert_eq!(applied(repo::PullSettingsChange::default()), Ok(new_settings()));
        let change = repo::PullSettingsChange { has_pulls: Some(false), allow_squash: Some(false), ..style("rebase") };
        let after = applied(change).unwrap();
        let expected = PullSettings {
            has_pulls: false,
            allow_squash: false,
            default_merge_style: "rebase".to_owned(),
            ..new_settings()
        };
        assert_eq!(after, expected);
        let fields = ["has_pull_requests", "allow_squash_merge", "default_merge_style"];
        assert_eq!(new_settings().changed_fields(&after), fields);
    }

    #[test]
    fn the_default_style_is_known_and_allowed() {
        let invalid = |field: &str, code| Err(vec![(field.to_owned(), code)]);
        assert_eq!(applied(style("octopus")), invalid("default_merge_style", "unknown"));
        assert_eq!(applied(style("")), invalid("default_merge_style", "unknown"));
        let forbidden = repo::PullSettingsChange { allow_squash: Some(false), ..style("squash") };
        assert_eq!(applied(forbidden), invalid("default_merge_style", "invalid"));
        let without_merges = repo::PullSettingsChange {
            allow_merge: Some(false),
            allow_rebase: Some(false),
            ..repo::PullSettingsChange::default()
        };
        assert_eq!(applied(without_merges).unwrap().default_merge_style, "rebase-merge");
    }

    #[test]
    fn one_style_stays_allowed() {
        let none = repo::PullSettingsChange {
            allow_merge: Some(false),
            allow_rebase: Some(false),
            allow_rebase_merge: Some(false),
            allow_squash: Some(false),
            allow_fast_forward_only: Some(false),
            ..repo::PullSettingsChange::default()
        };
        let violation = ("allow_merge_commits".to_owned(), "required");
        assert_eq!(applied(none.clone()), Err(vec![violation]));
        let only = repo::PullSettingsChange { allow_fast_forward_only: None, ..none };
        assert_eq!(applied(only).unwrap().default_merge_style, "fast-forward-only");
    }
}
