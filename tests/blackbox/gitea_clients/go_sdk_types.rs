//! What the Go client decodes responses into. A number in a field of text, for example, makes it
//! return an error.

use super::shape::Shape;
use super::shape::Type::{Flag, Integer, Many, One, Text, TextMap, Texts, Time};

pub(super) static VERSION: Shape = Shape::new(&[("version", Text)]);

pub(super) static SETTINGS: Shape = Shape::new(&[
    ("default_theme", Text),
    ("allowed_reactions", Texts),
    ("custom_emojis", Texts),
    ("mirrors_disabled", Flag),
    ("http_git_disabled", Flag),
    ("migrations_disabled", Flag),
    ("stars_disabled", Flag),
    ("time_tracking_disabled", Flag),
    ("lfs_disabled", Flag),
    ("max_response_items", Integer),
    ("default_paging_num", Integer),
    ("default_git_trees_per_page", Integer),
    ("default_max_blob_size", Integer),
    ("enabled", Flag),
    ("allowed_types", Text),
    ("max_size", Integer),
    ("max_files", Integer),
]);

pub(super) static USER: Shape = Shape::new(&[
    ("id", Integer),
    ("login", Text),
    ("login_name", Text),
    ("source_id", Integer),
    ("full_name", Text),
    ("email", Text),
    ("avatar_url", Text),
    ("language", Text),
    ("is_admin", Flag),
    ("last_login", Time),
    ("created", Time),
    ("restricted", Flag),
    ("active", Flag),
    ("prohibit_login", Flag),
    ("location", Text),
    ("website", Text),
    ("description", Text),
    ("visibility", Text),
    ("followers_count", Integer),
    ("following_count", Integer),
    ("starred_repos_count", Integer),
]);

pub(super) static REACTION: Shape = Shape::new(&[("user", One(&USER)), ("content", Text), ("created_at", Time)]);

pub(super) static FOUND_USERS: Shape = Shape::new(&[("data", Many(&USER))]);

pub(super) static TOKEN: Shape = Shape::new(&[
    ("id", Integer),
    ("name", Text),
    ("sha1", Text),
    ("token_last_eight", Text),
    ("scopes", Texts),
    ("created_at", Time),
    ("last_used_at", Time),
]);

pub(super) static PUBLIC_KEY: Shape = Shape::new(&[
    ("id", Integer),
    ("key", Text),
    ("url", Text),
    ("title", Text),
    ("fingerprint", Text),
    ("created_at", Time),
    ("last_used_at", Time),
    ("user", One(&USER)),
    ("read_only", Flag),
    ("key_type", Text),
]);

pub(super) static ORGANIZATION: Shape = Shape::new(&[
    ("id", Integer),
    ("username", Text),
    ("full_name", Text),
    ("avatar_url", Text),
    ("description", Text),
    ("website", Text),
    ("location", Text),
    ("visibility", Text),
]);

pub(super) static ORGANIZATION_PERMISSIONS: Shape = Shape::new(&[
    ("can_create_repository", Flag),
    ("can_read", Flag),
    ("can_write", Flag),
    ("is_admin", Flag),
    ("is_owner", Flag),
]);

pub(super) static TEAM: Shape = Shape::new(&[
    ("id", Integer),
    ("name", Text),
    ("description", Text),
    ("organization", One(&ORGANIZATION)),
    ("permission", Text),
    ("can_create_org_repo", Flag),
    ("includes_all_repositories", Flag),
    ("units", Texts),
    ("units_map", TextMap),
]);

static PERMISSIONS: Shape = Shape::new(&[("admin", Flag), ("push", Flag), ("pull", Flag)]);

static INTERNAL_TRACKER: Shape = Shape::new(&[
    ("enable_time_tracker", Flag),
    ("allow_only_contributors_to_track_time", Flag),
    ("enable_issue_dependencies", Flag),
]);

static EXTERNAL_TRACKER: Shape =
    Shape::new(&[("external_tracker_url", Text), ("external_tracker_format", Text), ("external_tracker_style", Text)]);

static EXTERNAL_WIKI: Shape = Shape::new(&[("external_wiki_url", Text)]);

pub(super) static REPOSITORY: Shape = Shape::new(&[
    ("id", Integer),
    ("owner", One(&USER)),
    ("name", Text),
    ("full_name", Text),
    ("description", Text),
    ("empty", Flag),
    ("private", Flag),
    ("fork", Flag),
    ("template", Flag),
    ("parent", One(&REPOSITORY)),
    ("mirror", Flag),
    ("size", Integer),
    ("html_url", Text),
    ("ssh_url", Text),
    ("clone_url", Text),
    ("original_url", Text),
    ("website", Text),
    ("stars_count", Integer),
    ("forks_count", Integer),
    ("watchers_count", Integer),
    ("open_issues_count", Integer),
    ("open_pr_counter", Integer),
    ("release_counter", Integer),
    ("default_branch", Text),
    ("archived", Flag),
    ("created_at", Time),
    ("updated_at", Time),
    ("permissions", One(&PERMISSIONS)),
    ("has_issues", Flag),
    ("internal_tracker", One(&INTERNAL_TRACKER)),
    ("external_tracker", One(&EXTERNAL_TRACKER)),
    ("has_wiki", Flag),
    ("external_wiki", One(&EXTERNAL_WIKI)),
    ("has_pull_requests", Flag),
    ("has_projects", Flag),
    ("has_releases", Flag),
    ("has_packages", Flag),
    ("has_actions", Flag),
    ("ignore_whitespace_conflicts", Flag),
    ("allow_fast_forward_only_merge", Flag),
    ("allow_merge_commits", Flag),
    ("allow_rebase", Flag),
    ("allow_rebase_explicit", Flag),
    ("allow_squash_merge", Flag),
    ("avatar_url", Text),
    ("internal", Flag),
    ("mirror_interval", Text),
    ("mirror_updated", Time),
    ("default_merge_style", Text),
    ("projects_mode", Text),
    ("default_delete_branch_after_merge", Flag),
    ("object_format_name", Text),
]);

pub(super) static FOUND_REPOSITORIES: Shape = Shape::new(&[("data", Many(&REPOSITORY))]);

pub(super) static TOPICS: Shape = Shape::new(&[("topics", Texts)]);

pub(super) static PERMISSION_OF_COLLABORATOR: Shape =
    Shape::new(&[("permission", Text), ("role_name", Text), ("user", One(&USER))]);

pub(super) static DEPLOY_KEY: Shape = Shape::new(&[
    ("id", Integer),
    ("key_id", Integer),
    ("key", Text),
    ("url", Text),
    ("title", Text),
    ("fingerprint", Text),
    ("created_at", Time),
    ("read_only", Flag),
    ("repository", One(&REPOSITORY)),
]);

pub(super) static HOOK: Shape = Shape::new(&[
    ("id", Integer),
    ("type", Text),
    ("branch_filter", Text),
    ("config", TextMap),
    ("events", Texts),
    ("authorization_header", Text),
    ("active", Flag),
    ("updated_at", Time),
    ("created_at", Time),
]);

pub(super) static PROTECTION: Shape = Shape::new(&[
    ("branch_name", Text),
    ("rule_name", Text),
    ("enable_push", Flag),
    ("enable_push_whitelist", Flag),
    ("push_whitelist_usernames", Texts),
    ("push_whitelist_teams", Texts),
    ("push_whitelist_deploy_keys", Flag),
    ("enable_merge_whitelist", Flag),
    ("merge_whitelist_usernames", Texts),
    ("merge_whitelist_teams", Texts),
    ("enable_status_check", Flag),
    ("status_check_contexts", Texts),
    ("required_approvals", Integer),
    ("enable_approvals_whitelist", Flag),
    ("approvals_whitelist_username", Texts),
    ("approvals_whitelist_teams", Texts),
    ("block_on_rejected_reviews", Flag),
    ("block_on_official_review_requests", Flag),
    ("block_on_outdated_branch", Flag),
    ("dismiss_stale_approvals", Flag),
    ("require_signed_commits", Flag),
    ("protected_file_patterns", Text),
    ("unprotected_file_patterns", Text),
    ("created_at", Time),
    ("updated_at", Time),
]);

pub(super) static ASSET: Shape = Shape::new(&[
    ("id", Integer),
    ("name", Text),
    ("size", Integer),
    ("download_count", Integer),
    ("created_at", Time),
    ("uuid", Text),
    ("browser_download_url", Text),
]);

pub(super) static RELEASE: Shape = Shape::new(&[
    ("id", Integer),
    ("tag_name", Text),
    ("target_commitish", Text),
    ("name", Text),
    ("body", Text),
    ("url", Text),
    ("html_url", Text),
    ("tarball_url", Text),
    ("zipball_url", Text),
    ("draft", Flag),
    ("prerelease", Flag),
    ("created_at", Time),
    ("published_at", Time),
    ("author", One(&USER)),
    ("assets", Many(&ASSET)),
]);

pub(super) static LABEL: Shape = Shape::new(&[
    ("id", Integer),
    ("name", Text),
    ("color", Text),
    ("description", Text),
    ("exclusive", Flag),
    ("url", Text),
]);

pub(super) static MILESTONE: Shape = Shape::new(&[
    ("id", Integer),
    ("title", Text),
    ("description", Text),
    ("state", Text),
    ("open_issues", Integer),
    ("closed_issues", Integer),
    ("created_at", Time),
    ("updated_at", Time),
    ("closed_at", Time),
    ("due_on", Time),
]);

static PULL_REQUEST_OF_ISSUE: Shape = Shape::new(&[("merged", Flag), ("merged_at", Time)]);

static REPOSITORY_OF_ISSUE: Shape =
    Shape::new(&[("id", Integer), ("name", Text), ("owner", Text), ("full_name", Text)]);

pub(super) static ISSUE: Shape = Shape::new(&[
    ("id", Integer),
    ("url", Text),
    ("html_url", Text),
    ("number", Integer),
    ("user", One(&USER)),
    ("original_author", Text),
    ("original_author_id", Integer),
    ("title", Text),
    ("body", Text),
    ("ref", Text),
    ("labels", Many(&LABEL)),
    ("milestone", One(&MILESTONE)),
    ("assignees", Many(&USER)),
    ("state", Text),
    ("is_locked", Flag),
    ("comments", Integer),
    ("created_at", Time),
    ("updated_at", Time),
    ("closed_at", Time),
    ("due_date", Time),
    ("pull_request", One(&PULL_REQUEST_OF_ISSUE)),
    ("repository", One(&REPOSITORY_OF_ISSUE)),
]);

pub(super) static COMMENT: Shape = Shape::new(&[
    ("id", Integer),
    ("html_url", Text),
    ("pull_request_url", Text),
    ("issue_url", Text),
    ("user", One(&USER)),
    ("original_author", Text),
    ("original_author_id", Integer),
    ("body", Text),
    ("created_at", Time),
    ("updated_at", Time),
]);
