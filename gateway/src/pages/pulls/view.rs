//! What the pages of pull requests read of the API's responses.

use serde::Deserialize;

use crate::pages::components::{Count, Time};
use crate::pages::view::commits::short;
use crate::pages::view::{Account, Permissions};

const MAX_TITLE_CHARS: usize = 255;
/// The starts of the title of a draft, in any case.
const DRAFT_PREFIXES: [&str; 2] = ["wip:", "[wip]"];

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Pull {
    pub(super) number: i64,
    pub(super) user: Account,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) requested_reviewers: Vec<Account>,
    pub(super) requested_reviewers_teams: Vec<Team>,
    state: String,
    pub(super) draft: bool,
    /// Comments on lines, without those of pending reviews.
    pub(super) review_comments: u64,
    #[serde(default)]
    pub(super) changed_files: Option<u64>,
    #[serde(default)]
    pub(super) mergeable: Option<bool>,
    pub(super) merged: bool,
    pub(super) merged_at: Option<Time>,
    pub(super) merge_commit_sha: Option<String>,
    pub(super) merged_by: Option<Account>,
    pub(super) scheduled_merge: Option<ScheduledMerge>,
    pub(super) base: End,
    pub(super) head: End,
    pub(super) merge_base: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Team {
    pub(super) name: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ScheduledMerge {
    pub(super) user: Account,
    pub(super) merge_style: String,
    pub(super) created_at: Time,
}

/// The base or the head.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct End {
    /// The name of the branch.
    pub(super) label: String,
    #[serde(rename = "ref")]
    name: String,
    pub(super) sha: String,
    /// `None` if it was deleted or is hidden from the visitor.
    pub(super) repo: Option<EndRepository>,
}

/// The repository of an end, with its settings of merges.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct EndRepository {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) owner: Account,
    pub(super) default_branch: String,
    #[serde(default)]
    pub(super) permissions: Permissions,
    pub(super) allow_merge_commits: bool,
    pub(super) allow_rebase: bool,
    pub(super) allow_rebase_explicit: bool,
    pub(super) allow_squash_merge: bool,
    pub(super) allow_fast_forward_only_merge: bool,
    pub(super) allow_manual_merge: bool,
    pub(super) allow_rebase_update: bool,
    pub(super) default_delete_branch_after_merge: bool,
    pub(super) default_merge_style: String,
}

/// A review, or a request for one.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Review {
    pub(super) id: i64,
    pub(super) user: Option<Account>,
    pub(super) state: ReviewState,
    pub(super) body: String,
    pub(super) commit_id: String,
    pub(super) stale: bool,
    pub(super) dismissed: bool,
    pub(super) comments_count: u64,
    pub(super) submitted_at: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum ReviewState {
    Pending,
    Comment,
    Approved,
    RequestChanges,
    RequestReview,
}

/// A comment on lines of a file.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ReviewComment {
    pub(super) id: i64,
    pub(super) user: Account,
    pub(super) body: String,
    pub(super) resolver: Option<Account>,
    pub(super) pull_request_review_id: i64,
    pub(super) created_at: Time,
    pub(super) path: String,
    side: String,
    position: u64,
    original_position: u64,
    pub(super) line_count: u64,
    pub(super) outdated: bool,
    pub(super) diff_hunk: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct CombinedStatus {
    pub(super) state: String,
    pub(super) statuses: Vec<Status>,
    pub(super) total_count: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Status {
    pub(super) context: String,
    pub(super) description: String,
    pub(super) status: String,
    target_url: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Conflicts {
    pub(super) files: Vec<FileConflict>,
    pub(super) total_count: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct FileConflict {
    pub(super) path: String,
    kind: String,
    ranges: Vec<RangeConflict>,
}

#[derive(Clone, Debug, Deserialize)]
struct RangeConflict {
    /// The first line, and the number of lines.
    ours: Vec<u64>,
    theirs: Vec<u64>,
}

impl Pull {
    pub(super) fn is_open(&self) -> bool {
        self.state == "open"
    }

    /// The branch of the head, with its owner if that is another repository.
    pub(super) fn head_name(&self) -> String {
        match &self.head.repo {
            Some(repository) if self.is_own(repository) => self.head.label.clone(),
            Some(repository) => format!("{}:{}", repository.owner.login, self.head.label),
            None => format!("unknown:{}", self.head.label),
        }
    }

    fn is_own(&self, repository: &EndRepository) -> bool {
        self.base.repo.as_ref().is_some_and(|base| base.id == repository.id)
    }

    /// The title of the pull request that undoes it, as the API would choose it.
    pub(super) fn revert_title(&self) -> String {
        let room = MAX_TITLE_CHARS - "Revert \"\"".len();
        format!("Revert \"{}\"", self.title.chars().take(room).collect::<String>())
    }

    pub(super) fn short_merge_commit(&self) -> &str {
        short(self.merge_commit_sha.as_deref().unwrap_or_default())
    }

    /// Returns whether the base has commits that the head lacks.
    pub(super) fn is_behind(&self) -> bool {
        self.merge_base != self.base.sha
    }

    /// Returns whether the head is a branch that the visitor can push to.
    pub(super) fn can_push_head(&self) -> bool {
        self.head.has_branch() && self.head.repo.as_ref().is_some_and(|repository| repository.permissions.push)
    }

    /// Returns whether the visitor can delete the head after a merge.
    pub(super) fn can_delete_head(&self) -> bool {
        let is_default = |repository: &EndRepository| repository.default_branch == self.head.label;
        self.can_push_head() && !self.head.repo.as_ref().is_some_and(is_default)
    }

    /// The title without the start that makes a draft.
    pub(super) fn ready_title(&self) -> &str {
        let title = self.title.trim_start();
        let is_start =
            |prefix: &&&str| title.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        DRAFT_PREFIXES.iter().find(is_start).map_or(title, |prefix| title[prefix.len()..].trim_start())
    }
}

impl End {
    /// Returns whether the branch still exists.
    pub(super) fn has_branch(&self) -> bool {
        self.repo.is_some() && !self.name.starts_with("refs/pull/")
    }

    /// The page of the branch, if the visitor can see it.
    pub(super) fn link(&self) -> Option<String> {
        let repository = self.repo.as_ref().filter(|_| self.has_branch())?;
        let branch = ferrite_api_types::links::encode_path(self.label.as_bytes());
        Some(format!("/{}/{}/src/branch/{branch}", repository.owner.login, repository.name))
    }
}

impl Review {
    /// Returns whether it approves or rejects.
    pub(super) fn is_verdict(&self) -> bool {
        matches!(self.state, ReviewState::Approved | ReviewState::RequestChanges)
    }

    pub(super) fn is_submitted(&self) -> bool {
        self.is_verdict() || self.state == ReviewState::Comment
    }

    /// What the reviewer did.
    pub(super) fn action(&self) -> &'static str {
        match self.state {
            ReviewState::Pending => "has not submitted a review yet",
            ReviewState::Comment => "commented on the changes",
            ReviewState::Approved => "approved the changes",
            ReviewState::RequestChanges => "requested changes",
            ReviewState::RequestReview => "was asked for a review",
        }
    }

    pub(super) fn class(&self) -> &'static str {
        match self.state {
            ReviewState::Approved => "good",
            ReviewState::RequestChanges => "bad",
            ReviewState::Pending | ReviewState::RequestReview => "warn",
            ReviewState::Comment => "",
        }
    }

    pub(super) fn icon(&self) -> &'static str {
        match self.state {
            ReviewState::Approved => "check",
            ReviewState::RequestChanges => "cross",
            ReviewState::Pending | ReviewState::RequestReview => "eye",
            ReviewState::Comment => "comment",
        }
    }

    pub(super) fn comment_words(&self) -> String {
        format!("{} on lines", Count(self.comments_count, "comment"))
    }

    pub(super) fn short_commit(&self) -> &str {
        short(&self.commit_id)
    }
}

impl ReviewComment {
    pub(super) fn is_old_side(&self) -> bool {
        self.side == "old"
    }

    /// The last line in the present diff; `None` if the lines have changed. The API follows lines of
    /// the new side alone.
    pub(super) fn line(&self) -> Option<u64> {
        let line = if self.is_old_side() { self.original_position } else { self.position };
        (!self.outdated && line > 0).then_some(line)
    }

    /// The lines when it was written.
    pub(super) fn lines(&self) -> String {
        let (first, last) = (
            self.original_position + 1 - self.line_count.clamp(1, self.original_position.max(1)),
            self.original_position,
        );
        let lines = if first < last { format!("lines {first} to {last}") } else { format!("line {last}") };
        if self.is_old_side() { format!("{lines} before") } else { lines }
    }
}

impl CombinedStatus {
    /// The class of the worst state.
    pub(super) fn class(&self) -> &'static str {
        class_of(&self.state)
    }

    pub(super) fn icon(&self) -> &'static str {
        icon_of(&self.state)
    }

    pub(super) fn words(&self) -> &'static str {
        match self.state.as_str() {
            "success" => "All checks have passed",
            "skipped" => "All checks were skipped",
            "pending" => "Some checks have not finished",
            "warning" => "Some checks have warnings",
            _ => "Some checks have failed",
        }
    }

    /// Whether the list is worth a look.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.state.as_str(), "success" | "skipped")
    }
}

impl Status {
    pub(super) fn class(&self) -> &'static str {
        class_of(&self.status)
    }

    pub(super) fn icon(&self) -> &'static str {
        icon_of(&self.status)
    }

    /// The page with details. Only addresses of the web are links.
    pub(super) fn link(&self) -> Option<&str> {
        let is_web = self.target_url.starts_with("https://") || self.target_url.starts_with("http://");
        is_web.then_some(self.target_url.as_str())
    }
}

impl FileConflict {
    pub(super) fn kind(&self) -> &'static str {
        match self.kind.as_str() {
            "content" => "both sides change the same lines",
            "add_add" => "both sides add it",
            "modify_delete" => "one side changes it, the other deletes it",
            "rename_rename" => "both sides move it",
            "directory_file" => "it is a file on one side, a folder on the other",
            "directory_rename" => "one side moves its folder",
            "binary" => "both sides change a binary file",
            "submodule" => "both sides change a submodule",
            "mode" => "both sides change its mode",
            _ => "both sides change it",
        }
    }

    /// The lines that conflict, on both sides.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.ranges.iter().map(|range| (lines_of(&range.ours), lines_of(&range.theirs)))
    }
}

fn class_of(state: &str) -> &'static str {
    match state {
        "success" => "good",
        "pending" | "warning" => "warn",
        "skipped" => "",
        _ => "bad",
    }
}

fn icon_of(state: &str) -> &'static str {
    match state {
        "success" => "check",
        "pending" | "warning" | "skipped" => "draft",
        _ => "cross",
    }
}

fn lines_of(range: &[u64]) -> String {
    match *range {
        [start, 0] => format!("before {start}"),
        [start, 1] => start.to_string(),
        [start, count] => format!("{start}–{}", start.saturating_add(count) - 1),
        _ => String::new(),
    }
}

/// A pull request and a review, as the API responds with them.
#[cfg(test)]
pub(super) mod testing {
    use serde_json::{Value, json};

    use super::*;

    pub(in crate::pages::pulls) fn value(title: &str) -> Value {
        let repository = json!({
            "id": 1, "name": "demo", "owner": {"login": "ada"}, "default_branch": "main",
            "permissions": {"push": true, "pull": true}, "allow_merge_commits": true, "allow_rebase": false,
            "allow_rebase_explicit": false, "allow_squash_merge": true, "allow_fast_forward_only_merge": false,
            "allow_manual_merge": false, "allow_rebase_update": true, "default_delete_branch_after_merge": true,
            "default_merge_style": "squash"
        });
        let end = |branch: &str, sha: &str| json!({"label": branch, "ref": branch, "sha": sha, "repo": repository});
        json!({
            "id": 70, "number": 7, "user": {"id": 2, "login": "eve"}, "title": title, "body": "Fixes #5.", "labels": [],
            "milestone": null, "assignees": [], "requested_reviewers": [], "requested_reviewers_teams": [],
            "state": "open", "draft": false, "comments": 0, "review_comments": 0, "changed_files": 2,
            "mergeable": true, "merged": false, "merged_at": null, "merge_commit_sha": null, "merged_by": null,
            "scheduled_merge": null,
            "base": end("main", "b"), "head": end("topic", "h"), "merge_base": "b",
            "created_at": "2026-11-28T10:00:00Z"
        })
    }

    pub(in crate::pages::pulls) fn pull(title: &str) -> Pull {
        serde_json::from_value(value(title)).unwrap()
    }

    pub(in crate::pages::pulls) fn review(id: i64, state: &str) -> Review {
        let review = json!({
            "id": id, "user": {"id": id, "login": format!("user{id}")}, "state": state, "body": "", "commit_id": "h",
            "stale": false, "dismissed": false, "comments_count": 0,
            "submitted_at": "2026-11-28T10:00:00Z"
        });
        serde_json::from_value(review).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::pull;
    use super::*;

    #[test]
    fn a_ready_title_has_no_mark_of_drafts() {
        for (title, ready) in [("WIP: x", "x"), ("[wip] x", "x"), ("wip:x", "x"), ("WIPE: x", "WIPE: x"), ("é", "é")]
        {
            assert_eq!(pull(title).ready_title(), ready, "{title}");
        }
    }

    #[test]
    fn only_addresses_of_the_web_are_links() {
        let link = |url: &str| {
            let status = Status {
                context: String::new(),
                description: String::new(),
                status: "success".to_owned(),
                target_url: url.to_owned(),
            };
            status.link().is_some()
        };
        assert!(link("https://ci.example.com/7") && link("http://ci/7"));
        assert!(!link("javascript:alert(1)") && !link("") && !link("//ci"));
    }

    #[test]
    fn ranges_are_read_as_lines() {
        for (range, expected) in [([3, 0], "before 3"), ([3, 1], "3"), ([3, 4], "3–6")] {
            assert_eq!(lines_of(&range), expected);
        }
    }

    #[test]
    fn a_head_names_its_owner_if_it_is_a_fork() {
        let mut shown = pull("x");
        assert_eq!(shown.head_name(), "topic");
        if let Some(repository) = &mut shown.head.repo {
            (repository.id, repository.owner.login) = (2, "eve".to_owned());
        }
        assert_eq!(shown.head_name(), "eve:topic");
        shown.head.repo = None;
        assert!(!shown.can_push_head() && shown.head_name() == "unknown:topic");
    }
}
