//! The settings of a branch protection rule in a request.

use ferrite_api_types::schema::{Schema, Schemas};
use serde_json::Value;

use crate::http::request::{
    Fields, Flag, Integer, JsonObject, Kind, Mistakes, NonEmpty, Optional, Text, Texts, fields,
};

/// Settings of Gitea that would have no effect here: only their empty values are accepted.
const WITHOUT_EFFECT: [&str; 15] = [
    "approvals_whitelist_teams",
    "approvals_whitelist_usernames",
    "enable_force_push_allowlist",
    "force_push_allowlist_deploy_keys",
    "force_push_allowlist_teams",
    "force_push_allowlist_usernames",
    "merge_whitelist_teams",
    "priority",
    "protected_file_patterns",
    "push_whitelist_deploy_keys",
    "push_whitelist_teams",
    "require_signed_commits",
    "block_admin_merge_override",
    "unprotected_file_patterns",
    "enable_bypass_allowlist",
];
const PUSH_LIST: ListFields = ListFields {
    users: "push_whitelist_usernames",
    switch: "enable_push_whitelist",
    empty: "must name a user if `enable_push_whitelist` is true; use `enable_push: false` to forbid all pushes",
};
const MERGE_LIST: ListFields = ListFields {
    users: "merge_whitelist_usernames",
    switch: "enable_merge_whitelist",
    empty: "must name a user if `enable_merge_whitelist` is true",
};
const APPROVER_LIST: ListFields = ListFields {
    users: "approvals_whitelist_username",
    switch: "enable_approvals_whitelist",
    empty: "must name a user if `enable_approvals_whitelist` is true",
};

fields! {
    /// A branch protection rule. It replaces the rule with the same pattern.
    pub(super) struct NewProtection {
        ..settings: ProtectionSettings,
        /// The name of a branch. `*` matches any text, including slashes. Required, here or as
        /// `rule_name`.
        pattern: NonEmpty<Text<200>> = "release/*",
        /// The pattern, under Gitea's name.
        rule_name: NonEmpty<Text<200>> = "release/*",
    }
}

fields! {
    /// The settings of the branch protection rule in the path.
    pub(super) struct ReplacedProtection {
        ..settings: ProtectionSettings,
        /// If given, the pattern in the path.
        pattern: NonEmpty<Text<200>> = "release/*",
        /// As `pattern`, under Gitea's name.
        rule_name: NonEmpty<Text<200>> = "release/*",
    }
}

fields! {
    /// The settings of a branch protection rule. Absent ones have their default in a new rule, and
    /// stay as they are in a changed one. Settings of Gitea about teams, files and signatures are
    /// refused unless they are empty.
    struct ProtectionSettings {
        /// Whether force pushes are allowed; false by default. Also accepted under Gitea's name,
        /// `enable_force_push`.
        allow_force | "enable_force_push": Optional<Flag> = false,
        /// Whether the branch can be deleted; false by default.
        allow_delete: Optional<Flag> = false,
        /// Whether anybody can push to the branch; true by default.
        enable_push: Optional<Flag> = true,
        /// Whether only the listed users can push; true needs a list that is not empty. False clears
        /// the list.
        enable_push_whitelist: Optional<Flag> = true,
        /// The users who can push to the branch. If empty, everyone with write permission can. Also
        /// accepted under Gitea's name, `push_whitelist_usernames`; an empty list under that name
        /// opens no rule that lists users, unless `enable_push_whitelist` is false.
        push_users | "push_whitelist_usernames": Optional<Listed<100>> = ["bob"],
        /// Whether only the listed users can merge pull requests into the branch; true needs a list
        /// that is not empty. False clears the list.
        enable_merge_whitelist: Optional<Flag> = true,
        /// The users who can merge. If empty, everyone with write permission can. A changed rule
        /// that lists users must list one, unless `enable_merge_whitelist` is false.
        merge_whitelist_usernames: Optional<Listed<100>> = ["bob"],
        /// Whether the head of a pull request must contain all commits of the branch to be merged;
        /// false by default.
        block_on_outdated_branch: Optional<Flag> = true,
        /// The approvals that a pull request needs to be merged, from users with write permission;
        /// at most 50, 0 by default.
        required_approvals: Optional<Integer> = 2,
        /// Whether only approvals of the listed users count; true needs a list that is not empty.
        /// False clears the list.
        enable_approvals_whitelist: Optional<Flag> = true,
        /// The users whose approvals count. If empty, everyone's with write permission do. A changed
        /// rule that lists users must list one, unless `enable_approvals_whitelist` is false.
        approvals_whitelist_username: Optional<Listed<100>> = ["bob"],
        /// Whether a rejection by a user with write permission keeps a pull request from being
        /// merged; false by default.
        block_on_rejected_reviews: Optional<Flag> = true,
        /// Whether a pull request waits for the teams, and users with write permission, that are
        /// asked for a review; false by default.
        block_on_official_review_requests: Optional<Flag> = true,
        /// Whether a push to the head dismisses the approvals of a pull request; false by default.
        dismiss_stale_approvals: Optional<Flag> = true,
        /// Whether approvals of earlier heads do not count; false by default.
        ignore_stale_approvals: Optional<Flag> = true,
        /// Whether a commit needs successful statuses before it can be pushed to the branch; false
        /// by default. A commit made through the API has none, so it is refused.
        enable_status_check: Optional<Flag> = true,
        /// The contexts whose newest status must be `success`. `*` matches any text. If empty, the
        /// commit needs at least one status, and all must be `success`.
        status_check_contexts: Optional<Listed<50>> = ["ci/*"],
    }
}

/// The request that has settings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    /// Absent settings have their default.
    Whole,
    /// Absent settings stay as they are. A list that is empty under Gitea's name only allows nobody
    /// there, and everyone here.
    Partial { empties_push_list: bool, empties_merge_list: bool, empties_approver_list: bool },
}

impl Write {
    /// Returns the write of an object whose fields are not read yet.
    pub(super) fn partial(object: &JsonObject) -> Self {
        let is_empty = |name: &str| object.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty);
        Self::Partial {
            empties_push_list: is_empty(PUSH_LIST.users) && !object.get("push_users").is_some_and(Value::is_array),
            empties_merge_list: is_empty(MERGE_LIST.users),
            empties_approver_list: is_empty(APPROVER_LIST.users),
        }
    }
}

/// The fields of a list of users.
struct ListFields {
    users: &'static str,
    switch: &'static str,
    /// The error if the list must not be empty.
    empty: &'static str,
}

/// A list of users.
pub(super) struct UserList {
    /// `None` if the list stays as it is.
    pub(super) names: Option<Vec<String>>,
    /// Whether the rule must list a user.
    pub(super) is_required: bool,
    /// Whether the rule must list a user if it did before.
    pub(super) is_kept: bool,
}

impl UserList {
    fn read(
        names: Option<Vec<String>>,
        is_on: Option<bool>,
        fields: &ListFields,
        is_whole: bool,
        mistakes: &mut Mistakes,
    ) -> Self {
        if is_on == Some(false) && names.as_ref().is_some_and(|names| !names.is_empty()) {
            mistakes.note(fields.switch, "invalid", "must be true if users are listed");
        }
        if is_on == Some(true) && names.as_ref().map_or(is_whole, Vec::is_empty) {
            mistakes.note(fields.users, "required", fields.empty);
        }
        let names = if is_on == Some(false) { Some(Vec::new()) } else { names };
        Self { names, is_required: is_on == Some(true), is_kept: is_on != Some(false) }
    }
}

/// What a rule can be changed to.
pub(super) struct Settings {
    pub(super) allow_force: Option<bool>,
    pub(super) allow_delete: Option<bool>,
    pub(super) forbids_push: Option<bool>,
    pub(super) push: UserList,
    pub(super) merge: UserList,
    pub(super) requires_current_head: Option<bool>,
    pub(super) required_approvals: Option<i32>,
    pub(super) approve: UserList,
    pub(super) dismisses_stale_approvals: Option<bool>,
    pub(super) ignores_stale_approvals: Option<bool>,
    pub(super) blocks_on_rejection: Option<bool>,
    pub(super) blocks_on_requests: Option<bool>,
    pub(super) requires_checks: Option<bool>,
    pub(super) required_contexts: Option<Vec<String>>,
}

impl ProtectionSettings {
    /// Reads the settings, and checks those that depend on each other.
    fn settings(self, write: Write, mistakes: &mut Mistakes) -> Settings {
        let (empties_push_list, empties_merge_list, empties_approver_list) = match write {
            Write::Whole => (false, false, false),
            Write::Partial { empties_push_list, empties_merge_list, empties_approver_list } => {
                (empties_push_list, empties_merge_list, empties_approver_list)
            }
        };
        let is_whole = write == Write::Whole;
        // A list of users does not matter if nobody can push.
        let lists_pushers = self.enable_push_whitelist.filter(|is_on| !is_on || self.enable_push != Some(false));
        let push = UserList::read(self.push_users, lists_pushers, &PUSH_LIST, is_whole, mistakes);
        let merge = UserList::read(
            self.merge_whitelist_usernames,
            self.enable_merge_whitelist,
            &MERGE_LIST,
            is_whole,
            mistakes,
        );
        let approve = UserList::read(
            self.approvals_whitelist_username,
            self.enable_approvals_whitelist,
            &APPROVER_LIST,
            is_whole,
            mistakes,
        );
        // git-svc refuses a number that is too large or negative.
        let required_approvals = self.required_approvals.map(|count| i32::try_from(count).unwrap_or(i32::MAX));
        Settings {
            allow_force: self.allow_force,
            allow_delete: self.allow_delete,
            forbids_push: self.enable_push.map(|is_open| !is_open),
            push: UserList { is_kept: push.is_kept && empties_push_list, ..push },
            merge: UserList { is_kept: merge.is_kept && empties_merge_list, ..merge },
            requires_current_head: self.block_on_outdated_branch,
            required_approvals,
            approve: UserList { is_kept: approve.is_kept && empties_approver_list, ..approve },
            dismisses_stale_approvals: self.dismiss_stale_approvals,
            ignores_stale_approvals: self.ignore_stale_approvals,
            blocks_on_rejection: self.block_on_rejected_reviews,
            blocks_on_requests: self.block_on_official_review_requests,
            requires_checks: self.enable_status_check,
            required_contexts: self.status_check_contexts,
        }
    }
}

/// Reports settings that have no effect here.
fn refuse_without_effect(object: &JsonObject, mistakes: &mut Mistakes) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(is_set) => !is_set,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(_) => false,
    };
    for name in WITHOUT_EFFECT {
        if object.get(name).is_some_and(|value| !is_empty(value)) {
            mistakes.note(name, "invalid", "is not supported");
        }
    }
}

/// At most `MAX` texts.
enum Listed<const MAX: usize> {}

impl<const MAX: usize> Kind for Listed<MAX> {
    type Value = Vec<String>;

    fn read(name: &str, value: Value, mistakes: &mut Mistakes) -> Option<Vec<String>> {
        let texts = <Texts<MAX> as Kind>::read(name, value, mistakes)?;
        if texts.len() > MAX {
            return mistakes.add(name, "too_long", &format!("must not be more than {MAX}"));
        }
        Some(texts)
    }

    fn schema(schemas: &mut Schemas) -> Schema {
        <Texts<MAX> as Kind>::schema(schemas)
    }
}

/// Reads a new rule, with its pattern.
pub(super) fn read_new(object: &mut JsonObject, mistakes: &mut Mistakes) -> Option<(String, Settings)> {
    let is_given = |name: &str| object.get(name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
    if !["pattern", "rule_name"].into_iter().any(is_given) {
        mistakes.note("pattern", "required", "is required");
    }
    refuse_without_effect(object, mistakes);
    let NewProtection { settings, pattern, rule_name } = NewProtection::read(object, mistakes)?;
    if pattern.as_ref().zip(rule_name.as_ref()).is_some_and(|(pattern, name)| pattern != name) {
        mistakes.note("rule_name", "invalid", "must be the same as `pattern`");
    }
    Some((pattern.or(rule_name)?, settings.settings(Write::Whole, mistakes)))
}

/// Reads the settings of the rule in the path.
pub(super) fn read_named(
    path: Vec<u8>,
    write: Write,
    object: &mut JsonObject,
    mistakes: &mut Mistakes,
) -> Option<(String, Settings)> {
    let pattern = String::from_utf8(path).ok();
    let pattern = pattern.or_else(|| mistakes.add("pattern", "invalid", "must be UTF-8"));
    refuse_without_effect(object, mistakes);
    let read = ReplacedProtection::read(object, mistakes);
    let (in_path, ReplacedProtection { settings, pattern, rule_name }) = (pattern?, read?);
    for (name, given) in [("pattern", pattern), ("rule_name", rule_name)] {
        if given.is_some_and(|given| given != in_path) {
            mistakes.note(name, "invalid", "must be the pattern in the path");
        }
    }
    Some((in_path, settings.settings(write, mistakes)))
}
