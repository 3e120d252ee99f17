//! Commits: the history of a branch or path, single commits, and the commits of branches and tags
//! in the format of push payloads.

use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, LongTexts, Time, User, shape, word_shape};
use ferrite_proto::git::{self, ChangeStatus, GetCommitRequest, ListCommitsRequest};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::response::read_error;
use crate::api::access::Emails;
use crate::api::call::{MaybeAuthenticated, operations};
use crate::http::caching::Negotiated;
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, RawText, UnlessFalse, filters};
use crate::http::page::{CommitList, Total};
use crate::http::path::RepoPath;
use crate::http::request::Flag;
use crate::http::response::{Either, Json, PlainText, TextList};

/// Deadline of a list. For the commits of a path, git-svc waits for a permit and then runs git.
const LIST_TIMEOUT: Duration = Duration::from_secs(70);

operations! {
    "/api/v1/repos/{owner}/{repo}/commits" => get list as operation::LIST_COMMITS;
    "/api/v1/repos/{owner}/{repo}/commits/{sha}" => get get as operation::GET_COMMIT;
}

filters! {
    /// Filters of a commit history.
    struct CommitFilters {
        /// The branch, tag or commit id where the history starts. The default is the default
        /// branch.
        sha: RawText = "main",
        /// Only commits that changed this file or directory.
        path: RawText = "src/main.rs",
        /// Whether to follow the file in `path` to its former names.
        follow: Flag = true,
        /// Whether to count the changed lines of each commit.
        stat: UnlessFalse,
        /// Whether to list the changed files of each commit.
        files: UnlessFalse,
    }
}

/// The parts of a commit's changes to show.
#[derive(Clone, Copy, Debug)]
pub(in crate::api) struct Shown {
    pub(in crate::api) stats: bool,
    pub(in crate::api) files: bool,
}

shape! {
    /// A commit.
    #[derive(Clone, Debug, Serialize)]
    pub(in crate::api) struct Commit {
        pub(super) url: String,
        pub(super) sha: String,
        /// The commit time, under Gitea's name.
        pub(super) created: Time,
        pub(super) html_url: String,
        pub(super) commit: CommitData,
        /// The account of the author; null if no account has the address.
        pub(super) author: Option<User>,
        /// The account of the committer; null if no account has the address.
        pub(super) committer: Option<User>,
        pub(super) parents: Vec<Reference>,
        /// The changed lines. Absent if not requested, if time ran out, or if an object is damaged.
        #[serde(skip_serializing_if = "Option::is_none")]
        stats: Option<CommitStats>,
        /// The changed files: added ones, then removed, then modified. A renamed file is removed
        /// and added. Absent as `stats`.
        #[serde(skip_serializing_if = "Option::is_none")]
        files: Option<Vec<AffectedFile>>,
        /// Whether the message is cut. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        pub(super) truncated: bool,
        /// Whether the list of files is incomplete. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        files_truncated: bool,
    }
}

shape! {
    /// The changed lines of a commit.
    #[derive(Clone, Debug, Serialize)]
    struct CommitStats {
        total: i64,
        additions: i64,
        deletions: i64,
    }
}

shape! {
    /// A file that a commit changed.
    #[derive(Clone, Debug, Serialize)]
    struct AffectedFile {
        filename: String,
        status: AffectedStatus,
    }
}

word_shape! {
    /// The kind of change of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum AffectedStatus {
        Added = "added",
        Removed = "removed",
        Modified = "modified",
    }
}

shape! {
    /// The message, people and tree of a commit.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct CommitData {
        url: String,
        pub(super) message: String,
        pub(super) author: Signature,
        pub(super) committer: Signature,
        pub(super) tree: Reference,
    }
}

shape! {
    /// The author or committer of a commit, or the tagger of a tag, with the time.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct Signature {
        pub(super) name: String,
        pub(super) email: String,
        pub(super) date: Time,
    }
}

shape! {
    /// The id and the URL of an object.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct Reference {
        url: String,
        sha: String,
    }
}

shape! {
    /// A commit in the format of branches and push payloads.
    #[derive(Clone, Debug, Serialize)]
    pub(super) struct PayloadCommit {
        id: String,
        /// The id, under Gitea's name.
        sha: String,
        message: String,
        /// The web page of the commit.
        url: String,
        author: PayloadUser,
        committer: PayloadUser,
        added: [String; 0],
        removed: [String; 0],
        modified: [String; 0],
        /// The author time.
        timestamp: Time,
        /// The commit time, under Gitea's name.
        created: Time,
        /// Whether the message is cut. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
    }
}

shape! {
    /// The author or committer of a commit in the format of push payloads.
    #[derive(Clone, Debug, Serialize)]
    struct PayloadUser {
        name: String,
        email: String,
        /// The name of the account; empty if no account has the address.
        username: String,
    }
}

impl Signature {
    pub(super) fn new(signature: &git::CommitSignature) -> Result<Self, MissingField> {
        Ok(Self {
            name: text(&signature.name),
            email: text(&signature.email),
            date: Time::new(signature.time, "time")?,
        })
    }
}

impl Commit {
    pub(super) fn new(commit: git::Commit, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let author = require(commit.author, "author")?;
        let committer = require(commit.committer, "committer")?;
        let url = urls.commit(&commit.id);
        let parent = |sha: String| Reference { url: urls.commit(&sha), sha };
        Ok(Self {
            url: url.clone(),
            html_url: urls.commit_html(&commit.id),
            sha: commit.id,
            created: Time::new(committer.time, "time")?,
            author: accounts.by_email(&author.email).cloned(),
            committer: accounts.by_email(&committer.email).cloned(),
            parents: commit.parent_ids.into_iter().map(parent).collect(),
            stats: None,
            files: None,
            truncated: commit.is_truncated,
            files_truncated: false,
            commit: CommitData {
                url,
                message: text(&commit.message),
                author: Signature::new(&author)?,
                committer: Signature::new(&committer)?,
                tree: Reference { url: urls.tree(&commit.tree_id), sha: commit.tree_id },
            },
        })
    }
}

impl Commit {
    /// As [`Self::new`], with what the commit changed, as far as it was found.
    pub(in crate::api) fn with_changes(
        mut commit: git::Commit,
        shown: Shown,
        accounts: &Accounts,
        urls: &RepositoryLinks,
    ) -> Result<Self, MissingField> {
        let changes = commit.changes.take();
        let commit = Self::new(commit, accounts, urls)?;
        let Some(changes) = changes else { return Ok(commit) };
        let (additions, deletions) = (changes.additions, changes.deletions);
        let stats = CommitStats { total: additions.saturating_add(deletions), additions, deletions };
        Ok(Self {
            stats: shown.stats.then_some(stats),
            files: shown.files.then(|| affected(&changes.files)),
            files_truncated: changes.is_truncated,
            ..commit
        })
    }
}

/// Lists files as Gitea does, which finds no renames here.
fn affected(files: &[git::ChangedFile]) -> Vec<AffectedFile> {
    let file = |path: &[u8], status| AffectedFile { filename: text(path), status };
    let (mut added, mut removed, mut modified) = (Vec::new(), Vec::new(), Vec::new());
    for changed in files {
        match changed.status() {
            ChangeStatus::Added | ChangeStatus::Copied => added.push(file(&changed.path, AffectedStatus::Added)),
            ChangeStatus::Deleted => removed.push(file(&changed.path, AffectedStatus::Removed)),
            ChangeStatus::Renamed => {
                removed.push(file(&changed.old_path, AffectedStatus::Removed));
                added.push(file(&changed.path, AffectedStatus::Added));
            }
            ChangeStatus::Changed | ChangeStatus::TypeChanged | ChangeStatus::Unspecified => {
                modified.push(file(&changed.path, AffectedStatus::Modified));
            }
        }
    }
    added.into_iter().chain(removed).chain(modified).collect()
}

impl LongTexts for Commit {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.commit.message, &mut self.truncated);
    }
}

impl PayloadUser {
    fn new(signature: &git::CommitSignature, accounts: &Accounts) -> Self {
        let username = accounts.by_email(&signature.email).map(|user| user.username.clone()).unwrap_or_default();
        Self { name: text(&signature.name), email: text(&signature.email), username }
    }
}

impl PayloadCommit {
    pub(super) fn new(
        commit: Option<git::Commit>,
        accounts: &Accounts,
        urls: &RepositoryLinks,
    ) -> Result<Self, MissingField> {
        let commit = require(commit, "commit")?;
        let author = require(commit.author, "author")?;
        let committer = require(commit.committer, "committer")?;
        Ok(Self {
            url: urls.commit_page(&commit.id),
            id: commit.id.clone(),
            sha: commit.id,
            message: text(&commit.message),
            author: PayloadUser::new(&author, accounts),
            committer: PayloadUser::new(&committer, accounts),
            added: [],
            removed: [],
            modified: [],
            timestamp: Time::new(author.time, "time")?,
            created: Time::new(committer.time, "time")?,
            truncated: commit.is_truncated,
        })
    }
}

impl LongTexts for PayloadCommit {
    fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String, &mut bool)) {
        visit(&mut self.message, &mut self.truncated);
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: CommitList,
    filters: QueryOf<CommitFilters>,
) -> ApiResult<TextList<Commit>> {
    let access = call.access(&path, operation::LIST_COMMITS).await?;
    let CommitFilters { sha, path, follow, stat, files } = filters.read()?;
    let shown = Shown { stats: stat, files };
    let request = ListCommitsRequest {
        repository_id: access.id,
        revision: sha,
        path,
        page: query.page.number,
        page_size: query.page.size,
        with_stats: shown.stats,
        with_files: shown.files,
        follows_renames: follow,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), LIST_TIMEOUT);
    let response = call.clients.git_data().list_commits(request).await?.into_inner();
    let accounts = call.accounts_by_email(Emails::of(&response.commits)).await?;
    let commits =
        response.commits.into_iter().map(|commit| Commit::with_changes(commit, shown, &accounts, &access.urls));
    let commits = commits.collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(commits, Total::known_at_end(response.total_count, response.has_more), &call.links))
}

/// Responds with a commit, or only its id. The id does not determine the JSON, because the accounts
/// shown with the commit can change.
async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    headers: HeaderMap,
) -> ApiResult<Negotiated<Either<Json<Commit>, PlainText>>> {
    let access = call.access(&path, operation::GET_COMMIT).await?;
    let request = GetCommitRequest { repository_id: access.id, revision: path.rest, ..Default::default() };
    let found = call.clients.git().get_commit(call.request_with_grant(&access.grant, request)).await;
    let commit = require(found.map_err(read_error)?.into_inner().commit, "commit")?;
    if wants_id(&headers) {
        return Ok(Negotiated(Either::Second(PlainText(commit.id))));
    }
    let accounts = call.accounts_by_email(Emails::of([&commit])).await?;
    Ok(Negotiated(Either::First(Json(Commit::new(commit, &accounts, &access.urls)?))))
}

/// Whether the client requests the plain id, with a media type `application/vnd.<anything>.sha`.
fn wants_id(headers: &HeaderMap) -> bool {
    let is_id = |kind: &str| {
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        kind.strip_prefix("application/vnd.").is_some_and(|rest| rest.ends_with(".sha"))
    };
    headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| value.split(',').any(is_id))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use ferrite_api_types::links::Links;
    use ferrite_proto::repo;
    use serde_json::json;

    use super::*;

    fn signature(email: &[u8]) -> Option<git::CommitSignature> {
        let time = Some(prost_types::Timestamp { seconds: 1_767_315_845, nanos: 0 });
        Some(git::CommitSignature { name: b"Bob \xff".to_vec(), email: email.to_vec(), time })
    }

    fn commit() -> git::Commit {
        git::Commit {
            id: "c".repeat(40),
            tree_id: "7".repeat(40),
            parent_ids: vec!["a".repeat(40)],
            message: b"First line\n\nMore\n".to_vec(),
            author: signature(b"Bob@example.com"),
            committer: signature(b"unknown@example.com"),
            ..git::Commit::default()
        }
    }

    fn accounts(links: &Links) -> Accounts {
        let user = repo::User { id: 2, username: "bob".into(), ..Default::default() };
        let mut accounts = Accounts::default();
        let user_id_by_email = [("Bob@example.com".to_owned(), 2)].into();
        accounts.add(repo::GetUsersResponse { users: vec![user], user_id_by_email }, links);
        accounts
    }

    #[test]
    fn a_commit_has_its_own_tree_and_its_whole_message() {
        let links = Links::new("http://h", "h:22");
        let shown = Commit::new(commit(), &accounts(&links), &links.repository("bob", "demo")).unwrap();
        let value = serde_json::to_value(shown).unwrap();
        assert_eq!(value["commit"]["message"], "First line\n\nMore\n");
        assert_eq!(value["commit"]["tree"]["sha"], "7".repeat(40));
        assert_eq!(value["url"], format!("http://h/api/v1/repos/bob/demo/commits/{}", "c".repeat(40)));
        assert_eq!(value["author"]["username"], "bob");
        assert!(value["committer"].is_null());
        assert_eq!(value["commit"]["author"]["date"], "2026-01-02T01:04:05Z");
        assert_eq!(value["created"], value["commit"]["committer"]["date"]);
        assert_eq!(value["parents"][0]["sha"], "a".repeat(40));
        assert!(value.get("truncated").is_none());
        let cut = git::Commit { is_truncated: true, ..commit() };
        let shown = Commit::new(cut, &accounts(&links), &links.repository("bob", "demo")).unwrap();
        assert_eq!(serde_json::to_value(shown).unwrap()["truncated"], true);
    }

    #[test]
    fn changes_are_shown_as_far_as_they_are_wanted_and_known() {
        let links = Links::new("http://h", "h:22");
        let shown = |changes: Option<git::Changes>, stats, files| {
            let commit = git::Commit { changes, ..commit() };
            let urls = links.repository("bob", "demo");
            let commit = Commit::with_changes(commit, Shown { stats, files }, &accounts(&links), &urls).unwrap();
            let value = serde_json::to_value(commit).unwrap();
            ["stats", "files", "files_truncated"].map(|field| value.get(field).cloned())
        };
        let file = |status: ChangeStatus, path: &[u8], old_path: &[u8]| git::ChangedFile {
            status: status.into(),
            path: path.to_vec(),
            old_path: old_path.to_vec(),
            ..git::ChangedFile::default()
        };
        let files = vec![
            file(ChangeStatus::Changed, b"a\xff", b""),
            file(ChangeStatus::Deleted, b"b", b""),
            file(ChangeStatus::Renamed, b"to", b"from"),
            file(ChangeStatus::Added, b"c", b""),
            file(ChangeStatus::TypeChanged, b"d", b""),
        ];
        let changes = git::Changes { files, additions: 3, deletions: 4, ..git::Changes::default() };
        let stats = json!({"total": 7, "additions": 3, "deletions": 4});
        let entry = |filename: &str, status: &str| json!({"filename": filename, "status": status});
        let files = json!([
            entry("to", "added"),
            entry("c", "added"),
            entry("b", "removed"),
            entry("from", "removed"),
            entry("a\u{fffd}", "modified"),
            entry("d", "modified"),
        ]);
        assert_eq!(shown(Some(changes.clone()), true, true), [Some(stats.clone()), Some(files.clone()), None]);
        assert_eq!(shown(Some(changes.clone()), false, true), [None, Some(files), None]);
        let cut = git::Changes { is_truncated: true, ..changes };
        assert_eq!(shown(Some(cut), true, false), [Some(stats), None, Some(json!(true))]);
        assert_eq!(shown(None, true, true), [None, None, None]);
    }

    #[test]
    fn a_vendor_type_of_any_name_asks_for_the_id() {
        for (value, expected) in [
            ("application/vnd.gogs.sha", true),
            ("application/json, Application/vnd.ferrite.SHA;q=1", true),
            ("application/vnd.sha", false),
            ("application/json", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(value));
            assert_eq!(wants_id(&headers), expected, "{value}");
        }
    }
}
