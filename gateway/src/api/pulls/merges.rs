//! Merges of pull requests, updates of their heads, and conflicts.

use std::time::Duration;

use axum::http::StatusCode;
use ferrite_api_types::convert::{require, text};
use ferrite_api_types::shape;
use ferrite_core::version::Precondition;
use ferrite_proto::error::reason;
use ferrite_proto::git::{
    CommitIdentity, ConflictFile, DeleteBranchRequest, GetBranchRequest, GetConflictsRequest, GetConflictsResponse,
    LineRange, Merge, MergePullRequest, MergeStyle, PullEnds, UpdatePullHeadRequest,
};
use ferrite_proto::issue::{Issue, IssueState, PermitMergeRequest, PullRequest};
use ferrite_proto::operation;
use ferrite_proto::repo::{PullSettings, RepositoryRef};
use ferrite_rpc::grpc::with_timeout;
use ferrite_rpc::version::VersionedCall;
use serde::Serialize;
use tonic::Status;

use super::changes::find;
use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, operations};
use crate::api::git::response::read_error;
use crate::http::body::NoBody;
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{QueryOf, filters};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{
    Fields, Flag, JsonObject, LongText, NonBlank, NonEmpty, Optional, RequestBody, Text, Unsupported, WithoutEffect,
    Word, fields,
};
use crate::http::response::{Done, Json, NoContent};
use crate::http::routes::variant;
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

/// Deadline of a merge: git-svc needs up to 30 s for one attempt, and begins again if the base moves.
const MERGE_TIMEOUT: Duration = Duration::from_secs(70);
/// Maximum body of a pull request in the default message of a squash. A longer one is cut.
const MAX_DEFAULT_BODY_BYTES: usize = 64 * 1024;
/// The files that an error names.
const MAX_NAMED_FILES: usize = 10;
/// The fields of [`MergeOptions`].
const OPTIONS: [&str; 8] = [
    "Do",
    "MergeTitleField",
    "MergeMessageField",
    "MergeCommitID",
    "head_commit_id",
    "delete_branch_after_merge",
    "force_merge",
    "merge_when_checks_succeed",
];

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/merge" =>
        get is_merged as variant(operation::GET_PULL, "IsMerged"),
        post merge as operation::MERGE_PULL;
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/update" => post update as operation::UPDATE_PULL_HEAD;
    "/api/v1/repos/{owner}/{repo}/pulls/{index}/conflicts" => get conflicts as operation::GET_CONFLICTS;
}

words! {
    /// How a pull request is merged; `None` for a merge that was made by hand.
    enum Style: Option<MergeStyle> {
        "merge" = Some(MergeStyle::Merge),
        "rebase" = Some(MergeStyle::Rebase),
        "rebase-merge" = Some(MergeStyle::RebaseMerge),
        "squash" = Some(MergeStyle::Squash),
        "fast-forward-only" = Some(MergeStyle::FastForwardOnly),
        "manually-merged" = None,
    }
}

words! {
    /// Whether the head is rebased.
    enum UpdateStyle: bool { "merge" = false, "rebase" = true }
}

filters! {
    /// How to update a head.
    struct UpdateFilters {
        /// `merge`, which is the default, or `rebase`.
        by_rebase as "style": Word<UpdateStyle> = "rebase",
    }
}

fields! {
    /// How to merge a pull request. Letter case and underscores do not matter in the names of fields.
    struct MergeOptions {
        /// The style; `merge` by default. The settings of the repository must allow it.
        /// `manually-merged` is refused: push the merge instead.
        style as "Do": NonEmpty<Word<Style>> = "squash",
        /// The first line of the message. The default names the pull request. Styles that make no
        /// commit ignore it.
        title as "MergeTitleField": NonBlank<LongText> = "Read long lines (#7)",
        /// The rest of the message. The default is empty, or the body of the pull request for a
        /// squash.
        message as "MergeMessageField": NonBlank<LongText> = "Fixes #5.",
        /// Not used.
        merge_commit_id as "MergeCommitID": WithoutEffect<Text<40>> = "9e107d9d372bb6826bd81d3542a419d6e277e1a2",
        /// The commit that the head must have. The merge fails if the head has moved.
        head_commit_id: NonEmpty<Text<40>> = "9e107d9d372bb6826bd81d3542a419d6e277e1a2",
        /// Whether to delete the head branch after the merge. The default is a setting of the
        /// repository. Nothing is deleted if the caller cannot, or if the branch has moved.
        delete_branch_after_merge: Optional<Flag> = true,
        /// Not supported: must be false. Branch protection holds for everyone.
        force_merge: Unsupported<Flag> = false,
        /// Not supported: must be false.
        merge_when_checks_succeed: Unsupported<Flag> = false,
    }
}

shape! {
    /// The files of a pull request that conflict with its base.
    #[derive(Clone, Debug, Serialize)]
    struct PullConflicts {
        /// At most 100 files. Empty if the pull request can be merged.
        files: Vec<FileConflict>,
        /// The number of all files that conflict.
        total_count: i64,
    }
}

shape! {
    /// A file that conflicts.
    #[derive(Clone, Debug, Serialize)]
    struct FileConflict {
        path: String,
        /// The kind of conflict: `content`, `add_add`, `modify_delete`, `rename_rename`,
        /// `directory_file`, `directory_rename`, `binary`, `submodule` or `mode`.
        kind: String,
        /// At most 100 ranges. Empty for files that are not text.
        ranges: Vec<RangeConflict>,
    }
}

shape! {
    /// Lines that conflict: each time the first line, from 1, and the number of lines.
    #[derive(Clone, Debug, Serialize)]
    struct RangeConflict {
        /// In the merge base.
        base: Vec<i64>,
        /// In the base branch.
        ours: Vec<i64>,
        /// In the head.
        theirs: Vec<i64>,
    }
}

impl FileConflict {
    fn new(file: ConflictFile) -> Self {
        let lines = |range: Option<LineRange>| {
            let LineRange { start, line_count } = range.unwrap_or_default();
            vec![start.into(), line_count.into()]
        };
        let ranges = file.ranges.into_iter().map(|range| RangeConflict {
            base: lines(range.base),
            ours: lines(range.ours),
            theirs: lines(range.theirs),
        });
        Self { path: text(&file.path), kind: file.kind, ranges: ranges.collect() }
    }
}

async fn is_merged(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::GET_PULL).await?;
    let (_, ends) = find(&call, &access, params.id("index")).await?;
    if ends.is_merged { Ok(NoContent) } else { Err(ApiError::not_found("pull request is not merged")) }
}

async fn merge(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<MergeOptions>,
) -> ApiResult<Done> {
    let number = params.id("index");
    let (permit_access, access) =
        tokio::try_join!(call.access(&path, operation::PERMIT_MERGE), call.access(&path, operation::MERGE_PULL))?;
    let read = body.read_with(&call.body_limits, |object, mistakes| {
        name_options(object);
        MergeOptions::read(object, mistakes)
    });
    let (options, _permit) = read.await?;
    let MergeOptions {
        style,
        title,
        message,
        merge_commit_id: (),
        head_commit_id,
        delete_branch_after_merge,
        force_merge: (),
        merge_when_checks_succeed: (),
    } = options;
    let permit_access = call.confirm(permit_access, operation::PERMIT_MERGE).await?;
    let access = call.confirm(access, operation::MERGE_PULL).await?;
    let style = allowed_style(style, &access.pulls)?;
    let request = PermitMergeRequest {
        repository_id: permit_access.id,
        number,
        style: style.into(),
        head_id: head_commit_id.unwrap_or_default(),
    };
    // The key belongs to the merge: a permit is good for a minute only.
    let request = call.blank_with_grant(&permit_access.grant, request);
    let permitted = match call.clients.pulls().permit_merge(request).await {
        Ok(permitted) => permitted.into_inner(),
        Err(status) => return repeated(&call, &access, (number, style), status).await,
    };
    let mut pull = require(permitted.pull, "pull")?;
    let ends = require(pull.pull_request.take(), "pull_request")?;
    let author = match style {
        MergeStyle::Squash => author(&call, &access, pull.user_id).await?,
        _ => None,
    };
    let request = MergePullRequest {
        repository_id: access.id,
        permit: permitted.permit,
        message: message_of(style, title, message.as_deref(), &pull, &ends),
        author,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), MERGE_TIMEOUT);
    let merged = match call.clients.merges().merge_pull(request).await {
        Ok(merged) => require(merged.into_inner().merge, "merge")?,
        Err(status) => return Err(merge_error(&call, &access, &ends, status).await),
    };
    if merged.head_id == ends.head_id
        && delete_branch_after_merge.unwrap_or(access.pulls.delete_branch_after_merge)
        && let Err(error) = delete_head(&call, &ends).await
    {
        tracing::debug!(?error, "the head branch of a merged pull request stays");
    }
    Ok(Done)
}

/// Gives the options the names that [`MergeOptions`] has. Servers that are written in Go read names
/// in any case, so clients send several.
fn name_options(object: &mut JsonObject) {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    for (name, value) in std::mem::take(object).into_iter().filter(|(_, value)| !value.is_null()) {
        match OPTIONS.iter().find(|option| plain(option) == plain(&name)) {
            Some(option) if *option != name => drop(object.entry(*option).or_insert(value)),
            _ => drop(object.insert(name, value)),
        }
    }
}

/// Returns the style to merge with. 405 unless the settings allow it; those of a repository without
/// pull requests do not count.
fn allowed_style(style: Option<Option<MergeStyle>>, settings: &PullSettings) -> ApiResult<MergeStyle> {
    let refuse = |message| Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message).because("STYLE_NOT_ALLOWED"));
    let Some(style) = style.unwrap_or(Some(MergeStyle::Merge)) else {
        return refuse("merging by hand is not supported: push the merge to the base branch");
    };
    let is_allowed = match style {
        MergeStyle::Unspecified => false,
        MergeStyle::Merge => settings.allow_merge,
        MergeStyle::Rebase => settings.allow_rebase,
        MergeStyle::RebaseMerge => settings.allow_rebase_merge,
        MergeStyle::Squash => settings.allow_squash,
        MergeStyle::FastForwardOnly => settings.allow_fast_forward_only,
    };
    if is_allowed || !settings.has_pulls {
        return Ok(style);
    }
    refuse("the settings of the repository do not allow this style of merging")
}

/// Returns the message of the commit that the style makes; empty if it makes none.
fn message_of(
    style: MergeStyle,
    title: Option<String>,
    message: Option<&str>,
    pull: &Issue,
    ends: &PullRequest,
) -> String {
    let (default_title, default_message) = match style {
        MergeStyle::Merge | MergeStyle::RebaseMerge => {
            let (title, number) = (&pull.title, pull.number);
            let title =
                format!("Merge pull request '{title}' (#{number}) from {} into {}", ends.head_branch, ends.base_branch);
            (title, "")
        }
        MergeStyle::Squash => {
            let body = &pull.body[..pull.body.floor_char_boundary(MAX_DEFAULT_BODY_BYTES)];
            (format!("{} (#{})", pull.title, pull.number), body)
        }
        MergeStyle::Unspecified | MergeStyle::Rebase | MergeStyle::FastForwardOnly => return String::new(),
    };
    let title = title.unwrap_or(default_title);
    let message = message.unwrap_or(default_message).trim();
    if message.is_empty() { title.trim().to_owned() } else { format!("{}\n\n{message}", title.trim()) }
}

/// Returns the author of a squash, who opened the pull request; `None` for the caller.
async fn author(call: &ApiCall, access: &ResolvedAccess, user_id: i64) -> ApiResult<Option<CommitIdentity>> {
    if user_id == access.caller_id() {
        return Ok(None);
    }
    let user = call.accounts_by_id([user_id]).await?.by_id(user_id, &call.links);
    // git cannot store such a name.
    let is_storable = |name: &str| !name.contains(['<', '>']) && name.chars().any(char::is_alphanumeric);
    let name = if is_storable(&user.full_name) { user.full_name } else { user.username };
    Ok(Some(CommitIdentity { name, email: user.email, ..CommitIdentity::default() }))
}

/// Responds to a merge that issue-svc did not permit. If the pull request is merged and the client
/// sent an idempotency key, git-svc knows whether this is the request that merged it.
async fn repeated(
    call: &ApiCall,
    access: &ResolvedAccess,
    (number, style): (i64, MergeStyle),
    refusal: Status,
) -> ApiResult<Done> {
    if reason(&refusal).as_deref() == Some("ALREADY_MERGED") && call.has_idempotency_key() {
        let request = MergePullRequest { repository_id: access.id, ..MergePullRequest::default() };
        let stored = call.clients.merges().merge_pull(call.request_with_grant(&access.grant, request)).await;
        let is_same = |merge: Merge| merge.number == number && merge.style() == style;
        if stored.is_ok_and(|stored| stored.into_inner().merge.is_some_and(is_same)) {
            return Ok(Done);
        }
    }
    Err(refused_merge(refusal))
}

/// Converts a status of issue-svc or git-svc about a merge. A rule that forbids it is a 405, and
/// commits that do not fit together are a 409.
fn refused_merge(status: Status) -> ApiError {
    let of_merges = match reason(&status).as_deref() {
        Some("PULL_CLOSED") => Some(StatusCode::NOT_FOUND),
        Some("NO_COMMON_HISTORY" | "NOT_FAST_FORWARD" | "NOTHING_TO_MERGE") => Some(StatusCode::CONFLICT),
        _ => None,
    };
    let mut error = read_error(status);
    error.status = of_merges.unwrap_or(error.status);
    error
}

/// As [`refused_merge`], with the names of files that conflict.
async fn merge_error(call: &ApiCall, access: &ResolvedAccess, ends: &PullRequest, status: Status) -> ApiError {
    if reason(&status).as_deref() == Some("MERGE_CONFLICT")
        && let Ok(found) = conflicts_of(call, RepositoryRef::by_id(access.id), ends).await
        && !found.files.is_empty()
    {
        let names: Vec<_> =
            found.files.iter().take(MAX_NAMED_FILES).map(|file| format!("`{}`", text(&file.path))).collect();
        let others = found.total_count - names.len() as i64;
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        let message = format!("conflicts in {}{others}", names.join(", "));
        return ApiError::new(StatusCode::CONFLICT, message).because("MERGE_CONFLICT");
    }
    refused_merge(status)
}

async fn conflicts_of(
    call: &ApiCall,
    repository: RepositoryRef,
    ends: &PullRequest,
) -> ApiResult<GetConflictsResponse> {
    let access = call.resolve(repository, operation::GET_CONFLICTS).await?;
    let pull = Some(PullEnds { base_branch: ends.base_branch.clone(), head_id: ends.head_id.clone() });
    let request = call.request_with_grant(&access.grant, GetConflictsRequest { repository_id: access.id, pull });
    let request = with_timeout(request, MERGE_TIMEOUT);
    Ok(call.clients.merges().get_conflicts(request).await.map_err(read_error)?.into_inner())
}

/// Deletes the branch of a merged head, if it still has the merged commit when it goes.
async fn delete_head(call: &ApiCall, ends: &PullRequest) -> ApiResult<()> {
    let repository = RepositoryRef::by_id(ends.head_repository_id);
    let (reading, deleting) = tokio::try_join!(
        call.resolve(repository.clone(), operation::GET_BRANCH),
        call.resolve(repository, operation::DELETE_BRANCH)
    )?;
    let name = ends.head_branch.clone().into_bytes();
    let request = GetBranchRequest { repository_id: reading.id, name: name.clone() };
    let mut request = call.blank_with_grant(&reading.grant, request);
    let asking = VersionedCall::asking(operation::GET_BRANCH);
    request.extensions_mut().insert(asking.clone());
    let branch = require(call.clients.git().get_branch(request).await?.into_inner().branch, "branch")?;
    let version = require(asking.told(), "version")?;
    if branch.commit.is_none_or(|commit| commit.id != ends.head_id) {
        return Err(ApiError::new(StatusCode::CONFLICT, "branch has moved"));
    }
    let request = call.request_with_grant(&deleting.grant, DeleteBranchRequest { repository_id: deleting.id, name });
    let mut request = with_timeout(request, LONG_CALL_DEADLINE);
    let unchanged = Precondition::Versions(vec![version]);
    request.extensions_mut().insert(VersionedCall::requiring(operation::DELETE_BRANCH, unchanged));
    call.clients.git().delete_branch(request).await?;
    Ok(())
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    filters: QueryOf<UpdateFilters>,
    body: NoBody,
) -> ApiResult<Done> {
    let access = call.access(&path, operation::GET_PULL).await?;
    let (pull, ends) = find(&call, &access, params.id("index")).await?;
    let head = head_access(&call, &ends).await?;
    body.read()?;
    let by_rebase = filters.read()?.by_rebase.unwrap_or(false);
    let refuse = |message, reason| Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, message).because(reason));
    if ends.is_merged {
        return refuse("pull request is merged", "ALREADY_MERGED");
    }
    if pull.state() != IssueState::Open {
        return refuse("pull request is closed", "PULL_CLOSED");
    }
    if by_rebase && !access.pulls.allow_rebase_update {
        return Err(ApiError::invalid_field("style", "invalid", "the settings of the repository allow only `merge`"));
    }
    let base_grant = if head.id == access.id {
        String::new()
    } else {
        call.resolve(RepositoryRef::by_id(access.id), operation::GET_BRANCH).await?.grant.text()
    };
    let request = UpdatePullHeadRequest {
        repository_id: head.id,
        head_branch: ends.head_branch,
        head_id: ends.head_id,
        base_repository_id: access.id,
        base_branch: ends.base_branch,
        by_rebase,
        base_grant,
    };
    let request = with_timeout(call.request_with_grant(&head.grant, request), MERGE_TIMEOUT);
    match call.clients.merges().update_pull_head(request).await {
        Ok(_) => Ok(Done),
        // The head has all commits of the base.
        Err(status) if reason(&status).as_deref() == Some("NOTHING_TO_MERGE") => Ok(Done),
        Err(status) => Err(read_error(status)),
    }
}

/// Returns the access to change the head. 403 if the caller cannot see its repository.
async fn head_access(call: &ApiCall, ends: &PullRequest) -> ApiResult<ResolvedAccess> {
    let refusal = || ApiError::new(StatusCode::FORBIDDEN, "you are not allowed to push to the head branch");
    if ends.head_repository_id == 0 || ends.is_head_deleted {
        return Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "the head branch was deleted"));
    }
    let head = call.resolve(RepositoryRef::by_id(ends.head_repository_id), operation::UPDATE_PULL_HEAD).await;
    head.map_err(|error| if error.status == StatusCode::NOT_FOUND { refusal() } else { error })
}

async fn conflicts(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<PullConflicts>> {
    let access = call.access(&path, operation::GET_PULL).await?;
    let (_, ends) = find(&call, &access, params.id("index")).await?;
    if ends.is_merged {
        return Ok(Json(PullConflicts { files: Vec::new(), total_count: 0 }));
    }
    let found = conflicts_of(&call, RepositoryRef::by_id(access.id), &ends).await?;
    let files = found.files.into_iter().map(FileConflict::new).collect();
    Ok(Json(PullConflicts { files, total_count: found.total_count }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_have_names_in_any_case() {
        for (given, expected) in [
            (json!({"do": "squash"}), json!({"Do": "squash"})),
            (
                json!({"merge_title_field": "T", "mergemessagefield": "M"}),
                json!({"MergeTitleField": "T", "MergeMessageField": "M"}),
            ),
            (json!({"do": "squash", "Do": "merge", "DO": "rebase"}), json!({"Do": "merge"})),
            (json!({"Do": null, "do": "merge", "Head_Commit_ID": "a"}), json!({"Do": "merge", "head_commit_id": "a"})),
            (json!({"other": 1}), json!({"other": 1})),
        ] {
            let mut object = given.as_object().unwrap().clone();
            name_options(&mut object);
            assert_eq!(json!(object), expected, "{given}");
        }
    }

    #[test]
    fn messages_name_the_pull_request_unless_they_are_given() {
        let pull = Issue { number: 7, title: "Read long lines".into(), body: "Body.\n".into(), ..Default::default() };
        let ends = PullRequest { head_branch: "topic".into(), base_branch: "main".into(), ..Default::default() };
        let (merge, squash) = (MergeStyle::Merge, MergeStyle::Squash);
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        for (style, title, text, expected) in [
            (merge, "", "", "Merge pull request 'Read long lines' (#7) from topic into main"),
            (merge, "T", "M\n", "T\n\nM"),
            (squash, "", "", "Read long lines (#7)\n\nBody."),
            (squash, " T ", "", "T\n\nBody."),
            (squash, "", "M", "Read long lines (#7)\n\nM"),
            (MergeStyle::Rebase, "T", "M", ""),
            (MergeStyle::FastForwardOnly, "", "", ""),
        ] {
            assert_eq!(
                message_of(style, given(title), given(text).as_deref(), &pull, &ends),
                expected,
                "{style:?} {title} {text}"
            );
        }
        let long = Issue { body: "ä".repeat(MAX_DEFAULT_BODY_BYTES), ..pull };
        let cut = message_of(squash, None, None, &long, &ends);
        assert!(cut.len() <= MAX_DEFAULT_BODY_BYTES + 30 && cut.ends_with('ä'));
    }

    #[test]
    fn only_styles_that_the_settings_allow_merge() {
        let only = |style: MergeStyle| PullSettings {
            has_pulls: true,
            allow_merge: style == MergeStyle::Merge,
            allow_rebase: style == MergeStyle::Rebase,
            allow_rebase_merge: style == MergeStyle::RebaseMerge,
            allow_squash: style == MergeStyle::Squash,
            allow_fast_forward_only: style == MergeStyle::FastForwardOnly,
            ..PullSettings::default()
        };
        let styles = [
            MergeStyle::Merge,
            MergeStyle::Rebase,
            MergeStyle::RebaseMerge,
            MergeStyle::Squash,
            MergeStyle::FastForwardOnly,
        ];
        for allowed in styles {
            for style in styles {
                let found = allowed_style(Some(Some(style)), &only(allowed)).map_err(|error| error.status.as_u16());
                assert_eq!(found, if style == allowed { Ok(style) } else { Err(405) });
            }
        }
        assert_eq!(allowed_style(None, &only(MergeStyle::Merge)).unwrap(), MergeStyle::Merge);
        assert_eq!(allowed_style(Some(None), &only(MergeStyle::Merge)).unwrap_err().status.as_u16(), 405);
        // issue-svc says that there are no pull requests.
        assert!(allowed_style(None, &PullSettings::default()).is_ok());
    }
}
