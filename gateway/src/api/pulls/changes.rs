//! What a pull request changes: its files, its commits, and the text of its diff.

use axum::http::{HeaderMap, StatusCode};
use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::shape;
use ferrite_proto::error::reason;
use ferrite_proto::git::{self, CompareRequest, CompareResponse};
use ferrite_proto::issue::{GetPullRequest, Issue, IssueState, PullRequest};
use ferrite_proto::operation;
use ferrite_rpc::grpc::with_timeout;
use serde::Serialize;

use crate::api::access::{Emails, ResolvedAccess};
use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::api::git::commits::{Commit, Shown};
use crate::api::git::diffs::{CHANGES_TIMEOUT, ChangeFilters, ComparedFile, DiffText, WantedText, Whitespace, text_of};
use crate::api::git::response::read_error;
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, RawText, filters};
use crate::http::page::{CommitList, ExtensionList, Page, Total};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Flag, Word};
use crate::http::response::{File, List, TextList};
use crate::http::routes::variant;

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/files" => get files as variant(operation::GET_PULL, "Files");
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/commits" => get commits as variant(operation::GET_PULL, "Commits");
}

filters! {
    /// Which files of a pull request to list.
    struct FileFilters {
        /// The path of the first file of the list. An unknown path skips nothing.
        first as "skip-to": RawText = "src/main.rs",
        /// How changes of whitespace count: as others, which is the default; not at all; only where
        /// there was none or is none now; or not at the end of lines. Files without others are left
        /// out.
        whitespace: Word<Whitespace> = "ignore-all",
    }
}

filters! {
    /// What the text of a diff has.
    pub(super) struct TextFilters {
        /// Whether a diff has the content of binary files. Patches always have it.
        binary: Flag,
        /// How changes of whitespace count in a diff: as others, which is the default; not at all; only
        /// where there was none or is none now; or not at the end of lines. Files without others are
        /// left out. Patches have every change.
        whitespace: Word<Whitespace> = "ignore-all",
    }
}

shape! {
    /// A file that a pull request changes.
    #[derive(Clone, Debug, Serialize)]
    struct PullFile {
        #[serde(flatten)]
        file: ComparedFile,
        /// The page of the file at the head.
        html_url: String,
        /// The API URL of the file at the head.
        contents_url: String,
        /// The API URL of the raw file at the head.
        raw_url: String,
    }
}

impl PullFile {
    fn new(file: &git::ChangedFile, head: &[u8], urls: &RepositoryLinks) -> Result<Self, MissingField> {
        Ok(Self {
            file: ComparedFile::new(file)?,
            html_url: urls.source(head, &file.path),
            contents_url: urls.contents(&file.path, Some(head)),
            raw_url: urls.raw(head, &file.path),
        })
    }
}

/// Returns a pull request with its ends.
pub(super) async fn find(call: &ApiCall, access: &ResolvedAccess, number: i64) -> ApiResult<(Issue, PullRequest)> {
    let request = GetPullRequest { repository_id: access.id, number };
    let found = call.clients.pulls().get_pull(call.request_with_grant(&access.grant, request)).await?.into_inner();
    let mut pull = require(found.pull, "pull")?;
    let ends = require(pull.pull_request.take(), "pull_request")?;
    Ok((pull, ends))
}

/// What to compare the head with.
struct Range {
    /// The base branch of an open pull request, then the merge base, in case the branch is gone.
    bases: Vec<Vec<u8>>,
    head: Vec<u8>,
}

impl Range {
    fn of(pull: &Issue, ends: PullRequest) -> Self {
        let is_open = pull.state() == IssueState::Open;
        let branch = is_open.then(|| format!("refs/heads/{}", ends.base_branch).into_bytes());
        Self {
            bases: branch.into_iter().chain([ends.merge_base_id.into_bytes()]).collect(),
            head: ends.head_id.into_bytes(),
        }
    }
}

/// The requested page of the commits, and what to tell of each.
struct Wanted {
    page: Page,
    shown: Shown,
    whitespace: git::Whitespace,
}

/// The caller's access to the pull request and to the commits.
struct Access {
    pull: ResolvedAccess,
    git: ResolvedAccess,
}

impl Access {
    /// `operation` is that of git-svc.
    async fn of(call: &ApiCall, path: &RepoPath, operation: &str) -> ApiResult<Self> {
        // Of two refusals, that of the pull request counts.
        let (pull, git) = tokio::join!(call.access(path, operation::GET_PULL), call.access(path, operation));
        Ok(Self { pull: pull?, git: git? })
    }
}

/// Compares the head with the base. Also returns the id of the head.
async fn compare(
    call: &ApiCall,
    access: &Access,
    number: i64,
    wanted: &Wanted,
) -> ApiResult<(String, CompareResponse)> {
    let (pull, ends) = find(call, &access.pull, number).await?;
    let (head_id, Range { bases, head }) = (ends.head_id.clone(), Range::of(&pull, ends));
    let mut bases = bases.into_iter().peekable();
    loop {
        let request = CompareRequest {
            repository_id: access.git.id,
            base: bases.next().unwrap_or_default(),
            head: head.clone(),
            is_direct: false,
            page: wanted.page.number,
            page_size: wanted.page.size,
            with_stats: wanted.shown.stats,
            with_files: wanted.shown.files,
            whitespace: wanted.whitespace.into(),
        };
        let request = with_timeout(call.request_with_grant(&access.git.grant, request), CHANGES_TIMEOUT);
        match call.clients.diffs().compare(request).await {
            Ok(compared) => return Ok((head_id, compared.into_inner())),
            Err(status) if bases.peek().is_some() && reason(&status).as_deref() == Some("REVISION_NOT_FOUND") => {}
            Err(status) => return Err(read_error(status)),
        }
    }
}

async fn files(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: ExtensionList,
    filters: QueryOf<FileFilters>,
) -> ApiResult<List<PullFile>> {
    let access = Access::of(&call, &path, operation::COMPARE).await?;
    let FileFilters { first, whitespace } = filters.read()?;
    let wanted = Wanted {
        page: Page { number: 1, size: 1 },
        shown: Shown { stats: false, files: false },
        whitespace: whitespace.unwrap_or_default(),
    };
    let (head_id, compared) = compare(&call, &access, params.id("index"), &wanted).await?;
    let changes = require(compared.changes, "changes")?;
    let skipped = changes.files.iter().position(|file| file.path == first).unwrap_or(0);
    let files: Vec<_> = changes.files.into_iter().skip(skipped).collect();
    let total = i64::try_from(files.len()).unwrap_or(i64::MAX);
    let shown = query.page.of(files).map(|file| PullFile::new(&file, head_id.as_bytes(), &access.git.urls));
    let shown = shown.collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(shown, Total::counted(total, changes.is_truncated), &call.links))
}

async fn commits(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    query: CommitList,
    filters: QueryOf<ChangeFilters>,
) -> ApiResult<TextList<Commit>> {
    let access = Access::of(&call, &path, operation::COMPARE).await?;
    let whitespace = git::Whitespace::ShowAll;
    let wanted = Wanted { page: query.page, shown: filters.read()?.shown(), whitespace };
    let (_, compared) = compare(&call, &access, params.id("index"), &wanted).await?;
    let accounts = call.accounts_by_email(Emails::of(&compared.commits)).await?;
    let commits = compared.commits.into_iter();
    let commits = commits.map(|commit| Commit::with_changes(commit, wanted.shown, &accounts, &access.git.urls));
    let commits = commits.collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(commits, compared.total_count, &call.links))
}

/// Returns the text of the changes; `format` is `diff` or `patch`. That of a number can change, so
/// clients may keep it only with its tag.
pub(super) async fn text(
    call: &ApiCall,
    path: &RepoPath,
    (number, format): (i64, &str),
    filters: &QueryOf<TextFilters>,
    is_head_request: bool,
    headers: &HeaderMap,
) -> ApiResult<File<DiffText>> {
    let access = Access::of(call, path, operation::DIFF).await?;
    let TextFilters { binary, whitespace } = filters.read()?;
    let format = if format == "diff" && binary { "binary-diff" } else { format };
    let whitespace = whitespace.unwrap_or_default();
    let (pull, ends) = find(call, &access.pull, number).await?;
    let Range { bases, head } = Range::of(&pull, ends);
    let mut bases = bases.iter().peekable();
    loop {
        let base = bases.next().map(Vec::as_slice);
        let wanted = WantedText { base, head: &head, format, whitespace, parameter: "index", is_head_request };
        match text_of(call, &access.git, &wanted, headers).await {
            Ok((response, _)) => return Ok(File::from(response)),
            Err(error) if bases.peek().is_some() && error.status == StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_pull_request_is_compared_with_its_branch() {
        let ends = || PullRequest {
            base_branch: "release/1".into(),
            head_id: "h".repeat(40),
            merge_base_id: "m".repeat(40),
            ..Default::default()
        };
        for (state, bases) in [
            (IssueState::Open, vec![b"refs/heads/release/1".to_vec(), b"m".repeat(40)]),
            (IssueState::Closed, vec![b"m".repeat(40)]),
        ] {
            let range = Range::of(&Issue { state: state.into(), ..Default::default() }, ends());
            assert_eq!((range.bases, range.head), (bases, b"h".repeat(40)));
        }
    }
}
