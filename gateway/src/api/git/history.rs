//! The commits that last changed the entries of a folder or the lines of a file.

use std::collections::BTreeMap;

use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, Time, User, shape};
use ferrite_proto::git::{self, GetBlameRequest, GetBlameResponse, GetTreeCommitsRequest, GetTreeCommitsResponse};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use super::contents::{ContentKind, RevisionFilter};
use super::diffs::CHANGES_TIMEOUT;
use super::response::read_error;
use crate::api::access::Emails;
use crate::api::call::{MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::filters::QueryOf;
use crate::http::path::RepoPath;
use crate::http::response::Json;
use crate::http::routes::variant;

operations! {
    "/api/v1/repos/{owner}/{repo}/tree-commits" =>
        get tree_commits as variant(operation::GET_TREE_COMMITS, "OfRoot");
    "/api/v1/repos/{owner}/{repo}/tree-commits/{*folder}" => get tree_commits as operation::GET_TREE_COMMITS;
    "/api/v1/repos/{owner}/{repo}/blame/{*file}" => get blame as operation::GET_BLAME;
}

shape! {
    /// A commit in short.
    #[derive(Clone, Debug, Serialize)]
    struct CommitSummary {
        sha: String,
        html_url: String,
        /// The first line of the message, up to 256 bytes.
        subject: String,
        author_name: String,
        /// The account of the author; null if no account has the address.
        author: Option<User>,
        /// The author time.
        date: Time,
        /// The commit time.
        created: Time,
    }
}

/// Commits by id.
type Commits = BTreeMap<String, CommitSummary>;

shape! {
    /// The entries of a folder with the commits that last changed them.
    #[derive(Clone, Debug, Serialize)]
    struct TreeCommits {
        /// The commit of the revision; null in a repository without commits.
        commit: Option<CommitSummary>,
        /// Folders and submodules, then files and links, both by name.
        entries: Vec<EntryCommit>,
        /// The last commits of the entries, by id.
        commits: Commits,
        /// Whether the last commit of every entry was found in time.
        is_complete: bool,
        /// Whether there are more entries.
        truncated: bool,
    }
}

shape! {
    /// An entry of a folder.
    #[derive(Clone, Debug, Serialize)]
    struct EntryCommit {
        name: String,
        #[serde(rename = "type")]
        kind: ContentKind,
        /// The mode, six octal digits.
        mode: String,
        /// The size in bytes. Only for files and links.
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<i64>,
        /// The id of the object.
        sha: String,
        /// The id of the last commit that changed it, one of `commits`; null if it was not found in
        /// time.
        last_commit: Option<String>,
    }
}

shape! {
    /// The lines of a file with the commits that last changed them.
    #[derive(Clone, Debug, Serialize)]
    struct Blame {
        /// The id of the commit of the revision.
        commit: String,
        path: String,
        /// The number of lines.
        lines: i64,
        /// All lines of the file, in order.
        ranges: Vec<BlameRange>,
        /// The commits of the ranges, by id.
        commits: Commits,
    }
}

shape! {
    /// Lines in a row that one commit changed last.
    #[derive(Clone, Debug, Serialize)]
    struct BlameRange {
        /// The first line, from 1.
        start: i64,
        /// The number of lines.
        count: i64,
        /// The id of the commit, one of `commits`.
        commit: String,
        /// The path of the file in that commit.
        original_path: String,
        /// The first line in that commit, from 1.
        original_start: i64,
        /// The file before that commit; null if the commit added it.
        previous: Option<PreviousFile>,
    }
}

shape! {
    /// A file in a parent of the commit that changed it.
    #[derive(Clone, Debug, Serialize)]
    struct PreviousFile {
        /// The id of the parent.
        sha: String,
        path: String,
    }
}

impl CommitSummary {
    fn new(commit: git::CommitSummary, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        let author = require(commit.author, "author")?;
        Ok(Self {
            html_url: urls.commit_html(&commit.id),
            sha: commit.id,
            subject: text(&commit.subject),
            author_name: text(&author.name),
            author: accounts.by_email(&author.email).cloned(),
            date: Time::new(author.time, "time")?,
            created: Time::new(commit.commit_time, "commit_time")?,
        })
    }

    fn by_id(
        commits: Vec<git::CommitSummary>,
        accounts: &Accounts,
        urls: &RepositoryLinks,
    ) -> Result<Commits, MissingField> {
        commits.into_iter().map(|commit| Ok((commit.id.clone(), Self::new(commit, accounts, urls)?))).collect()
    }
}

impl TreeCommits {
    fn new(
        response: GetTreeCommitsResponse,
        accounts: &Accounts,
        urls: &RepositoryLinks,
    ) -> Result<Self, MissingField> {
        Ok(Self {
            commit: response.commit.map(|commit| CommitSummary::new(commit, accounts, urls)).transpose()?,
            entries: response.entries.into_iter().map(EntryCommit::new).collect::<Result<_, _>>()?,
            commits: CommitSummary::by_id(response.commits, accounts, urls)?,
            is_complete: response.is_complete,
            truncated: response.is_truncated,
        })
    }
}

impl EntryCommit {
    fn new(entry: git::EntryCommit) -> Result<Self, MissingField> {
        Ok(Self {
            name: text(&entry.name),
            kind: ContentKind::new(entry.kind())?,
            mode: format!("{:06o}", entry.mode),
            size: entry.size_bytes,
            sha: entry.id,
            last_commit: (!entry.last_commit_id.is_empty()).then_some(entry.last_commit_id),
        })
    }
}

impl Blame {
    fn new(response: GetBlameResponse, accounts: &Accounts, urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            commit: response.commit_id,
            path: text(&response.path),
            lines: response.line_count.into(),
            ranges: response.ranges.into_iter().map(BlameRange::new).collect(),
            commits: CommitSummary::by_id(response.commits, accounts, urls)?,
        })
    }
}

impl BlameRange {
    fn new(range: git::BlameRange) -> Self {
        let previous = PreviousFile { sha: range.previous_id, path: text(&range.previous_path) };
        Self {
            start: range.start.into(),
            count: range.line_count.into(),
            commit: range.commit_id,
            original_path: text(&range.original_path),
            original_start: range.original_start.into(),
            previous: (!previous.sha.is_empty()).then_some(previous),
        }
    }
}

/// Returns the entries of a folder with their last commits.
async fn tree_commits(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    filters: QueryOf<RevisionFilter>,
) -> ApiResult<Json<TreeCommits>> {
    let access = call.access(&path, operation::GET_TREE_COMMITS).await?;
    let RevisionFilter { revision } = filters.read()?;
    let request = GetTreeCommitsRequest { repository_id: access.id, revision, folder: path.rest };
    // git-svc waits up to 30 s for a permit.
    let request = with_timeout(call.request_with_grant(&access.grant, request), CHANGES_TIMEOUT);
    let response = call.clients.history().get_tree_commits(request).await.map_err(read_error)?.into_inner();
    let commits = response.commit.iter().chain(&response.commits);
    let emails = Emails::in_signatures(commits.filter_map(|commit| commit.author.as_ref()));
    let accounts = call.accounts_by_email(emails).await?;
    Ok(Json(TreeCommits::new(response, &accounts, &access.urls)?))
}

/// Returns the lines of a file with their last commits.
async fn blame(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    filters: QueryOf<RevisionFilter>,
) -> ApiResult<Json<Blame>> {
    let access = call.access(&path, operation::GET_BLAME).await?;
    let RevisionFilter { revision } = filters.read()?;
    let request = GetBlameRequest { repository_id: access.id, revision, file: path.rest };
    let request = with_timeout(call.request_with_grant(&access.grant, request), CHANGES_TIMEOUT);
    let response = call.clients.history().get_blame(request).await.map_err(read_error)?.into_inner();
    let emails = Emails::in_signatures(response.commits.iter().filter_map(|commit| commit.author.as_ref()));
    let accounts = call.accounts_by_email(emails).await?;
    Ok(Json(Blame::new(response, &accounts, &access.urls)?))
}
