//! What the Go client decodes data of git into, as [`super::go_sdk_types`].

use super::go_sdk_types::{REPOSITORY, USER};
use super::shape::Shape;
use super::shape::Type::{Flag, Integer, Many, One, Text, Texts, Time};

static VERIFICATION: Shape =
    Shape::new(&[("verified", Flag), ("reason", Text), ("signature", Text), ("payload", Text)]);

static PAYLOAD_USER: Shape = Shape::new(&[("name", Text), ("email", Text), ("username", Text)]);

static PAYLOAD_COMMIT: Shape = Shape::new(&[
    ("id", Text),
    ("message", Text),
    ("url", Text),
    ("author", One(&PAYLOAD_USER)),
    ("committer", One(&PAYLOAD_USER)),
    ("verification", One(&VERIFICATION)),
    ("timestamp", Time),
    ("added", Texts),
    ("removed", Texts),
    ("modified", Texts),
]);

pub(super) static BRANCH: Shape = Shape::new(&[
    ("name", Text),
    ("commit", One(&PAYLOAD_COMMIT)),
    ("protected", Flag),
    ("required_approvals", Integer),
    ("enable_status_check", Flag),
    ("status_check_contexts", Texts),
    ("user_can_push", Flag),
    ("user_can_merge", Flag),
    ("effective_branch_protection_name", Text),
]);

static COMMIT_META: Shape = Shape::new(&[("url", Text), ("sha", Text), ("created", Time)]);

pub(super) static TAG: Shape = Shape::new(&[
    ("name", Text),
    ("message", Text),
    ("id", Text),
    ("commit", One(&COMMIT_META)),
    ("zipball_url", Text),
    ("tarball_url", Text),
]);

/// Here the date is a text, and may be empty.
static COMMIT_USER: Shape = Shape::new(&[("name", Text), ("email", Text), ("date", Text)]);

static TAG_OBJECT: Shape = Shape::new(&[("type", Text), ("url", Text), ("sha", Text)]);

pub(super) static ANNOTATED_TAG: Shape = Shape::new(&[
    ("tag", Text),
    ("sha", Text),
    ("url", Text),
    ("message", Text),
    ("tagger", One(&COMMIT_USER)),
    ("object", One(&TAG_OBJECT)),
    ("verification", One(&VERIFICATION)),
]);

pub(super) static REFERENCE: Shape = Shape::new(&[("ref", Text), ("url", Text), ("object", One(&TAG_OBJECT))]);

static REPO_COMMIT: Shape = Shape::new(&[
    ("url", Text),
    ("author", One(&COMMIT_USER)),
    ("committer", One(&COMMIT_USER)),
    ("message", Text),
    ("tree", One(&COMMIT_META)),
    ("verification", One(&VERIFICATION)),
]);

static STATS: Shape = Shape::new(&[("total", Integer), ("additions", Integer), ("deletions", Integer)]);

static FILE_OF_COMMIT: Shape = Shape::new(&[("filename", Text), ("status", Text)]);

pub(super) static COMMIT: Shape = Shape::new(&[
    ("url", Text),
    ("sha", Text),
    ("created", Time),
    ("html_url", Text),
    ("commit", One(&REPO_COMMIT)),
    ("author", One(&USER)),
    ("committer", One(&USER)),
    ("parents", Many(&COMMIT_META)),
    ("files", Many(&FILE_OF_COMMIT)),
    ("stats", One(&STATS)),
]);

pub(super) static COMPARE: Shape = Shape::new(&[("total_commits", Integer), ("commits", Many(&COMMIT))]);

static TREE_ENTRY: Shape =
    Shape::new(&[("path", Text), ("mode", Text), ("type", Text), ("size", Integer), ("sha", Text), ("url", Text)]);

pub(super) static TREE: Shape = Shape::new(&[
    ("sha", Text),
    ("url", Text),
    ("tree", Many(&TREE_ENTRY)),
    ("truncated", Flag),
    ("page", Integer),
    ("total_count", Integer),
]);

pub(super) static BLOB: Shape =
    Shape::new(&[("content", Text), ("encoding", Text), ("url", Text), ("sha", Text), ("size", Integer)]);

static LINKS: Shape = Shape::new(&[("self", Text), ("git", Text), ("html", Text)]);

pub(super) static CONTENTS: Shape = Shape::new(&[
    ("name", Text),
    ("path", Text),
    ("sha", Text),
    ("type", Text),
    ("size", Integer),
    ("encoding", Text),
    ("content", Text),
    ("target", Text),
    ("url", Text),
    ("html_url", Text),
    ("git_url", Text),
    ("download_url", Text),
    ("submodule_git_url", Text),
    ("_links", One(&LINKS)),
    ("last_commit_sha", Text),
]);

static FILE_COMMIT: Shape = Shape::new(&[
    ("url", Text),
    ("sha", Text),
    ("created", Time),
    ("html_url", Text),
    ("author", One(&COMMIT_USER)),
    ("committer", One(&COMMIT_USER)),
    ("parents", Many(&COMMIT_META)),
    ("message", Text),
    ("tree", One(&COMMIT_META)),
]);

pub(super) static FILE: Shape = Shape::new(&[
    ("content", One(&CONTENTS)),
    ("files", Many(&CONTENTS)),
    ("commit", One(&FILE_COMMIT)),
    ("verification", One(&VERIFICATION)),
]);

pub(super) static STATUS: Shape = Shape::new(&[
    ("id", Integer),
    ("status", Text),
    ("target_url", Text),
    ("description", Text),
    ("url", Text),
    ("context", Text),
    ("creator", One(&USER)),
    ("created_at", Time),
    ("updated_at", Time),
]);

pub(super) static COMBINED_STATUS: Shape = Shape::new(&[
    ("state", Text),
    ("sha", Text),
    ("total_count", Integer),
    ("statuses", Many(&STATUS)),
    ("repository", One(&REPOSITORY)),
    ("commit_url", Text),
    ("url", Text),
]);
