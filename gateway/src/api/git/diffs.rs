//! Comparisons of commits; commits with what they changed, as data, as a diff or as a patch.

use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::http::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use ferrite_api_types::convert::{MissingField, require, text};
use ferrite_api_types::{shape, word_shape};
use ferrite_proto::git::{self, ChangeStatus, CompareRequest, CompareResponse, GetCommitRequest};
use ferrite_proto::operation;
use ferrite_proto::raw::DIFF_COMMIT_HEADER;
use ferrite_rpc::grpc::with_timeout;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Serialize;

use super::commits::{Commit, Shown};
use super::data::path_after;
use super::response::{git_request, read_error, response_with_file, response_without_file, send_guarded};
use crate::api::access::{Emails, ResolvedAccess};
use crate::api::call::{ApiCall, MaybeAuthenticated, operations};
use crate::http::caching::IMMUTABLE;
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{QueryOf, UnlessFalse, filters};
use crate::http::middleware::HeadRequest;
use crate::http::page::ComparisonList;
use crate::http::path::RepoPath;
use crate::http::request::Word;
use crate::http::response::{Either, File, Json, Media, Paged};
use crate::http::routes::variant;
use crate::http::words::words;
use ferrite_api_types::links::encode;

/// Deadline of a call for changes: git-svc waits up to 30 s for a permit, then 15 s for git.
pub(in crate::api) const CHANGES_TIMEOUT: Duration = Duration::from_secs(60);
/// Deadline for the headers of a text. git-svc sends them once the text is complete, and has a
/// shorter deadline.
const TEXT_TIMEOUT: Duration = Duration::from_secs(70);
const NOT_FOUND: &str = "commit does not exist";
const TOO_LARGE: &str = "exceeds the size limit of diffs, 50 MiB; use git instead";
const OTHER_REPOSITORY: &str = "branches of other repositories cannot be compared";
const DIRECT_TEXT: &str = "must have three dots for a text";

operations! {
    "/api/v1/repos/{owner}/{repo}/compare/{*basehead}" => get compare as operation::COMPARE;
    "/api/v1/repos/{owner}/{repo}/git/commits/{*sha}" => get commit as variant(operation::GET_COMMIT, "WithChanges");
}

words! {
    /// How changes of whitespace count.
    pub(in crate::api) enum Whitespace: git::Whitespace {
        "show-all" = git::Whitespace::ShowAll,
        "ignore-all" = git::Whitespace::IgnoreAll,
        "ignore-change" = git::Whitespace::IgnoreChange,
        "ignore-eol" = git::Whitespace::IgnoreEol,
    }
}

filters! {
    /// Which parts of a commit's changes to show.
    pub(in crate::api) struct ChangeFilters {
        /// Whether to count the changed lines of each commit.
        stat: UnlessFalse,
        /// Whether to list the changed files of each commit.
        files: UnlessFalse,
    }
}

filters! {
    /// Which parts of changes to show.
    struct DiffFilters {
        /// Whether to count the changed lines of each commit.
        stat: UnlessFalse,
        /// Whether to list the changed files of each commit.
        files: UnlessFalse,
        /// How changes of whitespace count in the differences and in their `.diff`: as others, which is
        /// the default; not at all; only where there was none or is none now; or not at the end of
        /// lines. Files without others are left out. A `.patch`, and the `stats` and `files` of
        /// commits, have every change.
        whitespace: Word<Whitespace> = "ignore-all",
    }
}

shape! {
    /// The differences between two commits.
    #[derive(Clone, Debug, Serialize)]
    struct Comparison {
        /// The number of commits on all pages.
        total_commits: i64,
        /// The commits that only the head has, newest first.
        commits: Vec<Commit>,
        /// The id of the best common ancestor; null if there is none.
        merge_base: Option<String>,
        /// Added lines of all files.
        additions: i64,
        /// Deleted lines of all files.
        deletions: i64,
        /// The number of files, also of those that are left out.
        changed_files: i64,
        files: Vec<ComparedFile>,
        /// Whether the list of files or the numbers are incomplete, because a limit was reached.
        truncated: bool,
    }
}

shape! {
    /// A file that differs.
    #[derive(Clone, Debug, Serialize)]
    pub(in crate::api) struct ComparedFile {
        filename: String,
        /// The former path of a renamed file, or the path that a copy was made from. Absent for
        /// others.
        #[serde(skip_serializing_if = "Option::is_none")]
        previous_filename: Option<String>,
        status: ComparedStatus,
        additions: i64,
        deletions: i64,
        /// Added and deleted lines together.
        changes: i64,
        /// Whether the file is binary. Its lines are not counted. Present only if true.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        binary: bool,
    }
}

word_shape! {
    /// The kind of change of a file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum ComparedStatus {
        Added = "added",
        Changed = "changed",
        Deleted = "deleted",
        Renamed = "renamed",
        Copied = "copied",
    }
}

/// The text of a diff, or patches.
pub(in crate::api) enum DiffText {}

/// What a text shows.
pub(in crate::api) struct WantedText<'a> {
    /// If set, the changes since the merge base with it, else those since the first parent.
    pub(in crate::api) base: Option<&'a [u8]>,
    pub(in crate::api) head: &'a [u8],
    /// `diff`, `binary-diff` or `patch`.
    pub(in crate::api) format: &'a str,
    /// Patches have every change.
    pub(in crate::api) whitespace: git::Whitespace,
    /// The part of the path that names a text that is too large.
    pub(in crate::api) parameter: &'static str,
    /// git-svc makes no text for HEAD.
    pub(in crate::api) is_head_request: bool,
}

impl Media for DiffText {
    const TYPES: &'static [&'static str] = &["text/plain"];
    const HAS_RANGES: bool = false;
}

impl ChangeFilters {
    pub(in crate::api) fn shown(&self) -> Shown {
        Shown { stats: self.stat, files: self.files }
    }
}

impl DiffFilters {
    fn shown(&self) -> Shown {
        Shown { stats: self.stat, files: self.files }
    }

    fn whitespace(&self) -> git::Whitespace {
        self.whitespace.unwrap_or_default()
    }
}

impl ComparedFile {
    pub(in crate::api) fn new(file: &git::ChangedFile) -> Result<Self, MissingField> {
        let status = match file.status() {
            ChangeStatus::Added => ComparedStatus::Added,
            ChangeStatus::Changed | ChangeStatus::TypeChanged => ComparedStatus::Changed,
            ChangeStatus::Deleted => ComparedStatus::Deleted,
            ChangeStatus::Renamed => ComparedStatus::Renamed,
            ChangeStatus::Copied => ComparedStatus::Copied,
            ChangeStatus::Unspecified => return Err(MissingField("status")),
        };
        Ok(Self {
            filename: text(&file.path),
            previous_filename: (!file.old_path.is_empty()).then(|| text(&file.old_path)),
            status,
            additions: file.additions,
            deletions: file.deletions,
            changes: file.additions.saturating_add(file.deletions),
            binary: file.is_binary,
        })
    }
}

/// Compares two revisions. With `.diff` or `.patch` behind them, returns the changes as text.
async fn compare(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: ComparisonList,
    filters: QueryOf<DiffFilters>,
    head_request: Option<Extension<HeadRequest>>,
    headers: HeaderMap,
) -> ApiResult<Either<Paged<Comparison>, File<DiffText>>> {
    if let Some((basehead, format)) = split_name(&path.rest) {
        let access = call.access(&path, operation::DIFF).await?;
        let (whitespace, Sides { base, head, is_direct }) = (filters.read()?.whitespace(), sides(basehead)?);
        if is_direct {
            return Err(ApiError::invalid_field("basehead", "invalid", DIRECT_TEXT));
        }
        let wanted = WantedText {
            base: Some(base),
            head,
            format,
            whitespace,
            parameter: "basehead",
            is_head_request: head_request.is_some(),
        };
        let (response, _) = text_of(&call, &access, &wanted, &headers).await?;
        return Ok(Either::Second(File::from(response)));
    }
    let access = call.access(&path, operation::COMPARE).await?;
    let (filters, sides) = (filters.read()?, sides(&path.rest)?);
    let shown = filters.shown();
    let request = CompareRequest {
        repository_id: access.id,
        base: sides.base.to_vec(),
        head: sides.head.to_vec(),
        is_direct: sides.is_direct,
        page: query.page.number,
        page_size: query.page.size,
        with_stats: shown.stats,
        with_files: shown.files,
        whitespace: filters.whitespace().into(),
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), CHANGES_TIMEOUT);
    let response = call.clients.diffs().compare(request).await.map_err(read_error)?.into_inner();
    let CompareResponse { commits, merge_base_id, changes, total_count, .. } = response;
    let accounts = call.accounts_by_email(Emails::of(&commits)).await?;
    let commits = commits.into_iter().map(|commit| Commit::with_changes(commit, shown, &accounts, &access.urls));
    let changes = require(changes, "changes")?;
    let comparison = Comparison {
        total_commits: total_count,
        commits: commits.collect::<Result<_, _>>()?,
        merge_base: (!merge_base_id.is_empty()).then_some(merge_base_id),
        additions: changes.additions,
        deletions: changes.deletions,
        changed_files: changes.file_count,
        files: changes.files.iter().map(ComparedFile::new).collect::<Result<_, _>>()?,
        truncated: changes.is_truncated,
    };
    Ok(Either::First(query.paged(comparison, total_count, &call.links)))
}

/// The two sides of a comparison; empty for the default branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sides<'a> {
    base: &'a [u8],
    head: &'a [u8],
    /// Whether files are compared with the base itself instead of the merge base.
    is_direct: bool,
}

/// Splits `<base>...<head>` or `<base>..<head>`. No name of a ref has two dots in a row, so the
/// first ones separate; without any, the text is the head.
fn sides(basehead: &[u8]) -> Result<Sides<'_>, ApiError> {
    if basehead.contains(&b':') {
        return Err(ApiError::invalid_field("basehead", "invalid", OTHER_REPOSITORY));
    }
    let Some(dots) = basehead.windows(2).position(|two| two == b"..") else {
        return Ok(Sides { base: b"", head: basehead, is_direct: false });
    };
    let (base, rest) = (&basehead[..dots], &basehead[dots + 2..]);
    Ok(match rest.strip_prefix(b".") {
        Some(head) => Sides { base, head, is_direct: false },
        None => Sides { base, head: rest, is_direct: true },
    })
}

/// Returns a commit, or with `.diff` or `.patch` behind the revision its changes as text. The id
/// does not determine the JSON, because the accounts shown with the commit can change.
async fn commit(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    filters: QueryOf<DiffFilters>,
    head_request: Option<Extension<HeadRequest>>,
    headers: HeaderMap,
) -> ApiResult<Either<Json<Commit>, File<DiffText>>> {
    let revision = path_after(&path, b"commits");
    if let Some(name) = split_name(&revision) {
        return diff(&call, &path, name, &filters, head_request.is_some(), &headers).await.map(Either::Second);
    }
    let access = call.access(&path, operation::GET_COMMIT).await?;
    let shown = filters.read()?.shown();
    let request =
        GetCommitRequest { repository_id: access.id, revision, with_stats: shown.stats, with_files: shown.files };
    let request = with_timeout(call.request_with_grant(&access.grant, request), CHANGES_TIMEOUT);
    let found = call.clients.git().get_commit(request).await;
    let commit = require(found.map_err(read_error)?.into_inner().commit, "commit")?;
    let accounts = call.accounts_by_email(Emails::of([&commit])).await?;
    Ok(Either::First(Json(Commit::with_changes(commit, shown, &accounts, &access.urls)?)))
}

/// Splits off the ending that asks for a text.
pub(in crate::api) fn split_name(name: &[u8]) -> Option<(&[u8], &'static str)> {
    ["diff", "patch"].into_iter().find_map(|format| {
        let revision = name.strip_suffix(format.as_bytes())?.strip_suffix(b".")?;
        (!revision.is_empty()).then_some((revision, format))
    })
}

async fn diff(
    call: &ApiCall,
    path: &RepoPath,
    (revision, format): (&[u8], &str),
    filters: &QueryOf<DiffFilters>,
    is_head_request: bool,
    headers: &HeaderMap,
) -> ApiResult<File<DiffText>> {
    let access = call.access(path, operation::DIFF).await?;
    let whitespace = filters.read()?.whitespace();
    let wanted = WantedText { base: None, head: revision, format, whitespace, parameter: "sha", is_head_request };
    let (mut response, commit) = text_of(call, &access, &wanted, headers).await?;
    if commit.is_some_and(|commit| commit.as_bytes().eq_ignore_ascii_case(revision)) {
        response.headers_mut().insert(CACHE_CONTROL, IMMUTABLE);
    }
    Ok(File::from(response))
}

/// Returns the text of a diff or patches, with the id of its head.
pub(in crate::api) async fn text_of(
    call: &ApiCall,
    access: &ResolvedAccess,
    wanted: &WantedText<'_>,
    headers: &HeaderMap,
) -> ApiResult<(Response<Body>, Option<HeaderValue>)> {
    let base = wanted.base.map(|base| format!("&base={}", encode(base))).unwrap_or_default();
    let (head, whitespace) = (encode(wanted.head), wanted.whitespace.as_str_name());
    let uri = format!("/git/{}/diff?head={head}&format={}&whitespace={whitespace}{base}", access.id, wanted.format);
    let mut request = git_request(&uri, access, headers, &[IF_NONE_MATCH]).ok_or(ApiError::not_found(NOT_FOUND))?;
    if wanted.is_head_request {
        *request.method_mut() = Method::HEAD;
    }
    // The body has no deadline: it takes as long as the client reads.
    let (response, revoked) = send_guarded(call, access, request, TEXT_TIMEOUT).await?;
    let commit = response.headers().get(DIFF_COMMIT_HEADER).cloned();
    let response = match response.status() {
        StatusCode::OK => diff_response(response).map(|body| call.reauthorizer.guard(body, revoked)),
        StatusCode::PAYLOAD_TOO_LARGE => return Err(ApiError::invalid_field(wanted.parameter, "too_large", TOO_LARGE)),
        _ => response_without_file(&response, NOT_FOUND, "")?,
    };
    Ok((response, commit))
}

fn diff_response(upstream: Response<Incoming>) -> Response<Body> {
    let (parts, body) = upstream.into_parts();
    let mut response = response_with_file(&parts, body.into_data_stream());
    let headers = response.headers_mut();
    // The entity tag is weak, so parts of two responses do not fit together.
    headers.remove(ACCEPT_RANGES);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // Browsers that open the URL run no scripts in the text.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_dots_separate_the_sides() {
        for (basehead, base, head, is_direct) in [
            ("main...topic", "main", "topic", false),
            ("main..topic", "main", "topic", true),
            ("v1.0.0...feature/a.b", "v1.0.0", "feature/a.b", false),
            ("release/1.x..v1.2", "release/1.x", "v1.2", true),
            ("...topic", "", "topic", false),
            ("main...", "main", "", false),
            ("topic", "", "topic", false),
            ("a....b", "a", ".b", false),
            ("a...b...c", "a", "b...c", false),
        ] {
            let expected = Sides { base: base.as_bytes(), head: head.as_bytes(), is_direct };
            assert_eq!(sides(basehead.as_bytes()).unwrap(), expected, "{basehead}");
        }
        for other in ["main...bob:topic", "bob:main...topic", "bob:topic"] {
            assert_eq!(sides(other.as_bytes()).unwrap_err().status, StatusCode::UNPROCESSABLE_ENTITY, "{other}");
        }
    }

    #[test]
    fn a_text_is_asked_for_by_its_ending() {
        for (name, expected) in [
            ("main.diff", Some(("main", "diff"))),
            ("feature/a.b.patch", Some(("feature/a.b", "patch"))),
            ("x.diff.patch", Some(("x.diff", "patch"))),
            ("main", None),
            ("main.DIFF", None),
            (".diff", None),
            ("diff", None),
        ] {
            let expected = expected.map(|(revision, format): (&str, _)| (revision.as_bytes(), format));
            assert_eq!(split_name(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn a_moved_file_names_its_former_path() {
        let file = git::ChangedFile {
            status: ChangeStatus::Renamed.into(),
            path: b"to\xff".to_vec(),
            old_path: b"from".to_vec(),
            additions: 2,
            deletions: 3,
            ..git::ChangedFile::default()
        };
        let shown = |file: git::ChangedFile| serde_json::to_value(ComparedFile::new(&file).unwrap()).unwrap();
        let expected = serde_json::json!({
            "filename": "to\u{fffd}", "previous_filename": "from", "status": "renamed",
            "additions": 2, "deletions": 3, "changes": 5,
        });
        assert_eq!(shown(file.clone()), expected);
        let changed = git::ChangedFile {
            status: ChangeStatus::TypeChanged.into(),
            old_path: Vec::new(),
            is_binary: true,
            ..file
        };
        let shown = shown(changed);
        assert_eq!(
            (&shown["status"], &shown["binary"], shown.get("previous_filename")),
            (&"changed".into(), &true.into(), None)
        );
        assert!(ComparedFile::new(&git::ChangedFile::default()).is_err());
    }
}
