//! Merges of pull requests.

use std::time::Duration;

use axum::http::StatusCode;
use ferrite_api_types::convert::{require, text};
use ferrite_proto::error::reason;
use ferrite_proto::git::{CommitIdentity, DeleteBranchRequest, Merge, MergePullRequest, MergeStyle};
use ferrite_proto::issue::{
    CancelMergeRequest, Issue, MarkMergedRequest, PermitMergeRequest, PullRequest, ScheduleMergeRequest,
};
use ferrite_proto::operation;
use ferrite_proto::repo::RepositoryRef;
use ferrite_rpc::grpc::with_timeout;
use tonic::Status;

use super::MERGE_TIMEOUT;
use super::changes::find;
use super::conflicts::conflicts_of;
use crate::api::access::ResolvedAccess;
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::api::git::response::read_error;
use crate::http::error::{ApiError, ApiResult};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{
    Fields, Flag, JsonObject, LongText, NonBlank, NonEmpty, Optional, OrDefault, RequestBody, Text, Unsupported, Word,
    fields,
};
use crate::http::response::{Done, Either, NoContent, Scheduled};
use crate::http::routes::variant;
use crate::http::words::words;
use crate::upstream::clients::LONG_CALL_DEADLINE;

/// Deadline of the mark of a merge made by hand: issue-svc lets git-svc walk the history of the base.
const MARK_TIMEOUT: Duration = Duration::from_secs(40);
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
        post merge as operation::MERGE_PULL,
        delete cancel as operation::CANCEL_MERGE;
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

fields! {
    /// How to merge a pull request. Letter case and underscores do not matter in the names of fields.
    struct MergeOptions {
        /// The style; `merge` by default. The settings of the repository must allow it.
        /// `manually-merged` merges nothing: it marks the pull request as merged by a commit that
        /// the base has.
        style as "Do": NonEmpty<Word<Style>> = "squash",
        /// The first line of the message. The default names the pull request. Styles that make no
        /// commit ignore it.
        title as "MergeTitleField": NonBlank<LongText> = "Read long lines (#7)",
        /// The rest of the message. The default is empty, or the body of the pull request for a
        /// squash.
        message as "MergeMessageField": NonBlank<LongText> = "Fixes #5.",
        /// The commit of the base that merged the pull request. Only `manually-merged` needs it;
        /// other styles ignore it.
        merge_commit_id as "MergeCommitID": NonEmpty<Text<40>> = "9e107d9d372bb6826bd81d3542a419d6e277e1a2",
        /// The commit that the head must have. The merge fails if the head has moved.
        head_commit_id: NonEmpty<Text<40>> = "9e107d9d372bb6826bd81d3542a419d6e277e1a2",
        /// Whether to delete the head branch after the merge. The default is a setting of the
        /// repository. Nothing is deleted if the caller cannot, if the branch has moved, or if another
        /// open pull request has it.
        delete_branch_after_merge: Optional<Flag> = true,
        /// Not supported: must be false. Branch protection holds for everyone.
        force_merge: Unsupported<Flag> = false,
        /// Whether to wait for what the branch protection requires, and merge then.
        merge_when_checks_succeed: OrDefault<Flag> = false,
    }
}

async fn is_merged(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::GET_PULL).await?;
    let (_, ends) = find(&call, &access, params.id("index")).await?;
    if ends.is_merged { Ok(NoContent) } else { Err(ApiError::not_found("pull request is not merged")) }
}

async fn merge(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<MergeOptions>,
) -> ApiResult<Either<Done, Scheduled>> {
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
        merge_commit_id,
        head_commit_id,
        delete_branch_after_merge,
        force_merge: (),
        merge_when_checks_succeed,
    } = options;
    let permit_access = call.confirm(permit_access, operation::PERMIT_MERGE).await?;
    let access = call.confirm(access, operation::MERGE_PULL).await?;
    let deletes_head = delete_branch_after_merge.unwrap_or(access.pulls.delete_branch_after_merge);
    let Some(style) = style.unwrap_or(Some(MergeStyle::Merge)) else {
        let (commit_id, head_id) = (merge_commit_id.unwrap_or_default(), head_commit_id.unwrap_or_default());
        let request = MarkMergedRequest { repository_id: access.id, number, commit_id, head_id };
        let (ends, is_head_shared) = mark_merged(&call, request).await?;
        if deletes_head && !is_head_shared {
            delete_merged_head(&call, &ends).await;
        }
        return Ok(Either::First(Done));
    };
    let head_id = head_commit_id.unwrap_or_default();
    let request =
        PermitMergeRequest { repository_id: permit_access.id, number, style: style.into(), head_id: head_id.clone() };
    // The key belongs to the merge: a permit is good for a minute only.
    let request = call.blank_with_grant(&permit_access.grant, request);
    let permitted = match call.clients.pulls().permit_merge(request).await {
        Ok(permitted) => permitted.into_inner(),
        Err(status) => return repeated(&call, &access, (number, style), status).await.map(Either::First),
    };
    let mut pull = require(permitted.pull, "pull")?;
    let ends = require(pull.pull_request.take(), "pull_request")?;
    let author = match style {
        MergeStyle::Squash => author(&call, &access, pull.user_id).await?,
        _ => None,
    };
    let message = message_of(style, title, message.as_deref(), &pull, &ends);
    let request = MergePullRequest {
        repository_id: access.id,
        permit: permitted.permit,
        message: message.clone(),
        author: author.clone(),
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), MERGE_TIMEOUT);
    let merged = match call.clients.merges().merge_pull(request).await {
        Ok(merged) => require(merged.into_inner().merge, "merge")?,
        Err(status) if merge_when_checks_succeed && reason(&status).as_deref() == Some("PROTECTED_BRANCH") => {
            let request = ScheduleMergeRequest {
                repository_id: access.id,
                number,
                style: style.into(),
                head_id,
                message,
                author,
                deletes_branch: deletes_head,
            };
            return schedule(&call, request).await.map(Either::Second);
        }
        Err(status) => return Err(merge_error(&call, &access, &ends, status).await),
    };
    if deletes_head && !permitted.is_head_shared && merged.head_id == ends.head_id {
        delete_merged_head(&call, &ends).await;
    }
    Ok(Either::First(Done))
}

/// Lets issue-svc merge once the branch protection allows it.
async fn schedule(call: &ApiCall, request: ScheduleMergeRequest) -> ApiResult<Scheduled> {
    let number = request.number;
    let access = call.resolve(RepositoryRef::by_id(request.repository_id), operation::SCHEDULE_MERGE).await?;
    // The key belongs to the merge. A second request finds that it is scheduled.
    let request = call.blank_with_grant(&access.grant, request);
    call.clients.pulls().schedule_merge(request).await.map_err(refused_merge)?;
    Ok(Scheduled { location: format!("{}/pulls/{number}", access.urls.api()) })
}

async fn cancel(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let access = call.access(&path, operation::CANCEL_MERGE).await?;
    let request = CancelMergeRequest { repository_id: access.id, number: params.id("index") };
    call.clients.pulls().cancel_merge(call.request_with_grant(&access.grant, request)).await?;
    Ok(NoContent)
}

/// Marks a pull request as merged by hand. Returns its ends, and whether others have the same head.
async fn mark_merged(call: &ApiCall, request: MarkMergedRequest) -> ApiResult<(PullRequest, bool)> {
    let access = call.resolve(RepositoryRef::by_id(request.repository_id), operation::MARK_MERGED).await?;
    let request = with_timeout(call.request_with_grant(&access.grant, request), MARK_TIMEOUT);
    let marked = call.clients.pulls().mark_merged(request).await.map_err(refused_merge)?.into_inner();
    Ok((require(require(marked.pull, "pull")?.pull_request, "pull_request")?, marked.is_head_shared))
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

/// Deletes the branch of a merged head, if the caller may.
async fn delete_merged_head(call: &ApiCall, ends: &PullRequest) {
    if let Err(error) = delete_head(call, ends).await {
        tracing::debug!(?error, "the head branch of a merged pull request stays");
    }
}

/// Deletes the branch of a merged head, if it still has the merged commit when it goes.
pub(super) async fn delete_head(call: &ApiCall, ends: &PullRequest) -> ApiResult<()> {
    let repository = RepositoryRef::by_id(ends.head_repository_id);
    let access = call.resolve(repository, operation::DELETE_BRANCH).await?;
    let request = DeleteBranchRequest {
        repository_id: access.id,
        name: ends.head_branch.clone().into_bytes(),
        commit_id: ends.head_id.clone(),
    };
    // The key and the precondition of the request belong to the merge.
    let request = with_timeout(call.blank_with_grant(&access.grant, request), LONG_CALL_DEADLINE);
    call.clients.git().delete_branch(request).await?;
    Ok(())
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
}
