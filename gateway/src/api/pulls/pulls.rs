use std::time::Duration;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode};
use ferrite_api_types::PullRequest;
use ferrite_api_types::convert::require;
use ferrite_proto::error::{detail, reason};
use ferrite_proto::issue::{
    CreatePullRequest, GetPullByBranchesRequest, GetPullByCommitRequest, GetPullRequest, Issue, IssueState, LabelIds,
    ListPullsRequest, PullSort, UpdatePullRequest, UserNames,
};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;
use ferrite_rpc::grpc::with_timeout;
use tonic::Status;

use super::changes::{self, TextFilters};
use super::heads::{HeadName, head_access};
use super::shown::Reader;
use crate::api::access::{ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::api::git::diffs::{DiffText, split_name};
use crate::api::issues::{ListedState, NewState, change_error};
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::{ApiError, ApiResult};
use crate::http::filters::{IntegerList, QueryOf, Search, filters};
use crate::http::middleware::HeadRequest;
use crate::http::page::{PullList, Total};
use crate::http::path::{Params, RepoPath, number};
use crate::http::request::{
    Checked, Flag, Integer, Integers, LongText, NonBlank, NonEmpty, Optional, OrDefault, RequestBody, Required, Text,
    Texts, Time, Unsupported, Word, fields,
};
use crate::http::response::{Created, Either, File, Json, TextList};
use crate::http::words::words;

/// Stands for an unknown name. No account has this id, so no pull request matches.
const NO_USER: i64 = i64::MAX;
/// Deadline of a creation: git-svc may have to copy many objects into the repository of the base.
pub(super) const CREATE_TIMEOUT: Duration = Duration::from_secs(70);

operations! {
    "/api/v1/repos/{owner}/{repo}/pulls" => get list as operation::LIST_PULLS, post create as operation::CREATE_PULL;
    "/api/v1/repos/{owner}/{repo}/pulls/{index}" =>
        get get as operation::GET_PULL,
        patch update as operation::UPDATE_PULL;
    "/api/v1/repos/{owner}/{repo}/pulls/{base}/{*head}" => get get_by_branches as operation::GET_PULL_BY_BRANCHES;
    "/api/v1/repos/{owner}/{repo}/commits/{sha}/pull" => get get_by_commit as operation::GET_PULL_BY_COMMIT;
}

words! {
    enum Sort: PullSort {
        "oldest" = PullSort::Oldest,
        "recentupdate" = PullSort::RecentlyUpdated,
        "recentclose" = PullSort::RecentlyUpdated,
        "leastupdate" = PullSort::LeastUpdated,
        "mostcomment" = PullSort::MostCommented,
        "leastcomment" = PullSort::LeastCommented,
        "priority" = PullSort::Unspecified,
    }
}

filters! {
    /// Filters and order of a repository's pull requests. A pull request must match all filters.
    struct PullFilters {
        /// The state of the pull requests: `open` (the default), `closed` or `all`. Merged ones are
        /// closed.
        state: Word<ListedState> = "closed",
        /// The order; the default is newest first. `recentclose` is the same as `recentupdate`, and
        /// `priority` the same as the default.
        sort: Word<Sort> = "recentupdate",
        /// The id of a milestone; 0 for all.
        milestone: Integer = 2,
        /// The ids of labels, at most 100. A pull request must have all of them.
        labels: IntegerList = [5, 6],
        /// The name of the user who opened the pull request.
        poster: Search = "eve",
        /// The target branch.
        base_branch: Search = "main",
    }
}

fields! {
    /// A new pull request. Assignees, milestone, labels and due date are ignored if the caller has no
    /// write permission.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct NewPull {
        /// The branch with the changes: `branch`, or `owner:branch` for the fork of an owner, the
        /// parent, or another fork of the parent.
        head: Required<Text<1000>> = "eve:feature/one",
        /// The target branch.
        base: Required<Text<1000>> = "main",
        /// The title. One that begins with `WIP:` or `[WIP]` makes a draft.
        title: Checked<LongText> = "Read long lines",
        body: OrDefault<LongText> = "Fixes #5.",
        /// The name of an assignee; empty for none.
        assignee: OrDefault<LongText> = "bob",
        /// The names of more assignees; a pull request can have 10.
        assignees: OrDefault<Texts<10>> = ["eve"],
        /// The id of the milestone; 0 for none.
        milestone: OrDefault<Integer> = 2,
        /// The ids of labels of the repository.
        labels: OrDefault<Integers<100>> = [5, 6],
        /// The names of users to ask for a review, at most 50. The author of the pull request must not
        /// be named.
        reviewers: OrDefault<Texts<50>> = ["eve"],
        /// The names of teams to ask for a review, at most 10.
        team_reviewers: OrDefault<Texts<10>> = ["maintainers"],
        /// The due date; absent or empty for none.
        due_date: NonEmpty<Time> = "2026-03-01T00:00:00Z",
        /// Not supported: must be false.
        allow_maintainer_edit: Unsupported<Flag> = false,
    }
}

fields! {
    /// Changes of a pull request. Absent fields stay unchanged.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct ChangedPull {
        /// The title, with the rules for a new pull request. A blank one changes nothing.
        title: NonBlank<LongText> = "Read very long lines",
        body: Optional<LongText> = "Fixes #5 and #6.",
        /// The new target branch. That of a closed pull request cannot change.
        base: NonEmpty<Text<1000>> = "release/1.0",
        /// The new state. That of a merged pull request cannot change.
        state: NonEmpty<Word<NewState>> = "closed",
        /// The name of the assignee, who replaces those before; an empty text changes nothing.
        assignee: NonEmpty<LongText> = "bob",
        /// The names of all assignees beside `assignee`; an empty list for none.
        assignees: Optional<Texts<10>> = ["eve"],
        /// The id of the new milestone; 0 changes nothing. To remove it, change the issue with the
        /// same number.
        milestone: NonEmpty<Integer> = 2,
        /// The ids of all labels, in place of those before; an empty list for none.
        labels: Optional<Integers<100>> = [5, 6],
        /// The new due date. An empty text changes nothing.
        due_date: NonEmpty<Time> = "2026-04-01T00:00:00Z",
        /// Removes the due date.
        unset_due_date: OrDefault<Flag> = false,
        /// Not supported: must be false.
        allow_maintainer_edit: Unsupported<Flag> = false,
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: PullList,
    filters: QueryOf<PullFilters>,
) -> ApiResult<TextList<PullRequest>> {
    let reader = Reader::of(&call, &path, operation::LIST_PULLS).await?;
    let (repository_id, grant) = (reader.pulls.id, &reader.pulls.grant);
    let blank = ListPullsRequest { repository_id, ..Default::default() };
    let check = async { call.clients.pulls().list_pulls(call.blank_with_grant(grant, blank)).await };
    let filters = after_refusal(check, filters.read()).await?;
    let request = ListPullsRequest {
        repository_id,
        state: filters.state.unwrap_or(IssueState::Open).into(),
        page: query.page.number,
        page_size: query.page.size,
        sort: filters.sort.unwrap_or_default().into(),
        milestone_id: filters.milestone.unwrap_or_default(),
        label_ids: filters.labels,
        creator_id: user_named(&call, filters.poster).await?,
        base_branch: filters.base_branch,
    };
    let response = call.clients.pulls().list_pulls(call.request_with_grant(grant, request)).await?.into_inner();
    let pulls = reader.all(&call, response.pulls).await?;
    Ok(query.text_list(pulls, Total::counted(response.total_count, response.is_partial), &call.links))
}

/// Returns the id of a user; zero for an empty name.
async fn user_named(call: &ApiCall, name: String) -> ApiResult<i64> {
    if name.is_empty() {
        return Ok(0);
    }
    let request = call.request(GetUsersRequest { usernames: vec![name], ..Default::default() });
    let users = call.clients.accounts().get_users(request).await?.into_inner().users;
    Ok(users.first().map_or(NO_USER, |user| user.id))
}

/// Opens a pull request. issue-svc ignores assignees, milestone, labels and due date of callers
/// without write permission, as for an issue.
async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewPull>,
) -> ApiResult<Created<PullRequest>> {
    let access = call.access(&path, operation::CREATE_PULL).await?;
    let blank = CreatePullRequest { repository_id: access.id, ..Default::default() };
    let check = async { call.clients.pulls().create_pull(call.blank_with_grant(&access.grant, blank)).await };
    let (new, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::CREATE_PULL).await?;
    let NewPull { allow_maintainer_edit: (), .. } = new;
    let head = HeadName::of_family(&new.head);
    let head_repository_id = head.repository_id(&call, &access).await?;
    let head_grant = head_access(&call, head_repository_id).await?.grant.text();
    let request = CreatePullRequest {
        repository_id: access.id,
        base_branch: new.base,
        head_repository_id,
        head_branch: head.branch.to_owned(),
        head_grant,
        title: new.title,
        body: new.body,
        assignees: names(new.assignee, new.assignees),
        milestone_id: new.milestone,
        label_ids: new.labels,
        reviewers: new.reviewers,
        reviewing_teams: new.team_reviewers,
        due_time: new.due_date,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), CREATE_TIMEOUT);
    let made = call.clients.pulls().create_pull(request).await;
    let made = made.map_err(|status| refused(status, "head"))?.into_inner().pull;
    created(&call, access, made).await
}

/// Returns the names of all assignees.
fn names(first: String, others: Vec<String>) -> Vec<String> {
    Some(first).filter(|name| !name.is_empty()).into_iter().chain(others).collect()
}

/// Responds to a write. Gitea has 201 for changes as well.
pub(super) async fn created(
    call: &ApiCall,
    access: ResolvedAccess,
    pull: Option<Issue>,
) -> ApiResult<Created<PullRequest>> {
    let pull = require(pull, "pull")?;
    let location = format!("{}/pulls/{}", access.urls.api(), pull.number);
    let reader = Reader::after(call, access).await?;
    Ok(Created::at(location, reader.one(call, Some(pull)).await?))
}

/// Converts a status of issue-svc about a write. A duplicate names the other pull request, which
/// clients look for. Ends that do not fit together blame the one in `field`.
pub(super) fn refused(status: Status, field: &str) -> ApiError {
    match reason(&status).as_deref() {
        Some("PULL_EXISTS") => {
            let other = detail(&status, "number").map(|number| format!(": #{number}")).unwrap_or_default();
            let message = format!("a pull request for these branches exists{other}");
            ApiError::new(StatusCode::CONFLICT, message).because("PULL_EXISTS")
        }
        Some(reason @ ("NOTHING_TO_MERGE" | "NO_COMMON_HISTORY" | "TOO_LARGE")) => {
            ApiError::invalid_field(field, "invalid", status.message()).because(reason.to_owned())
        }
        Some("PULL_CLOSED") => {
            let message = "cannot be changed: the pull request is closed";
            ApiError::invalid_field("base", "invalid", message).because("PULL_CLOSED")
        }
        _ => change_error(status),
    }
}

/// Returns a pull request, or with `.diff` or `.patch` behind the number its changes as text.
async fn get(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
    filters: QueryOf<TextFilters>,
    head_request: Option<Extension<HeadRequest>>,
    headers: HeaderMap,
) -> ApiResult<Either<Json<PullRequest>, File<DiffText>>> {
    let index = params.bytes("index");
    if let Some((text, format)) = split_name(&index) {
        let wanted = (number(text).unwrap_or(i64::MAX), format);
        let text = changes::text(&call, &path, wanted, &filters, head_request.is_some(), &headers).await?;
        return Ok(Either::Second(text));
    }
    let reader = Reader::of(&call, &path, operation::GET_PULL).await?;
    let request = GetPullRequest { repository_id: reader.pulls.id, number: params.id("index") };
    let request = call.request_with_grant(&reader.pulls.grant, request);
    let found = call.clients.pulls().get_pull(request).await?.into_inner();
    Ok(Either::First(Json(reader.one(&call, found.pull).await?)))
}

async fn get_by_branches(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<PullRequest>> {
    let reader = Reader::of(&call, &path, operation::GET_PULL_BY_BRANCHES).await?;
    let (base_branch, head) = branches(&params.bytes("base"), &path.rest);
    let head = HeadName::parse(&head);
    let request = GetPullByBranchesRequest {
        repository_id: reader.pulls.id,
        base_branch,
        head_repository_id: head.repository_id(&call, &reader.pulls).await?,
        head_branch: head.branch.to_owned(),
    };
    let request = call.request_with_grant(&reader.pulls.grant, request);
    let found = call.clients.pulls().get_pull_by_branches(request).await?.into_inner();
    Ok(Json(reader.one(&call, found.pull).await?))
}

/// Returns base and head; `rest` is both, with a slash between them.
fn branches(base: &[u8], rest: &[u8]) -> (String, String) {
    let head = rest.strip_prefix(base).and_then(|rest| rest.strip_prefix(b"/")).unwrap_or_default();
    // No name has these characters, so there is no such branch.
    let text = |name: &[u8]| String::from_utf8_lossy(name).replace('\0', "\u{fffd}");
    (text(base), text(head))
}

async fn get_by_commit(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<PullRequest>> {
    let reader = Reader::of(&call, &path, operation::GET_PULL_BY_COMMIT).await?;
    let request = GetPullByCommitRequest { repository_id: reader.pulls.id, commit_id: params.name("sha") };
    let request = call.request_with_grant(&reader.pulls.grant, request);
    let found = call.clients.pulls().get_pull_by_commit(request).await?.into_inner();
    Ok(Json(reader.one(&call, found.pull).await?))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedPull>,
) -> ApiResult<Created<PullRequest>> {
    let access = call.access(&path, operation::UPDATE_PULL).await?;
    let (repository_id, number) = (access.id, params.id("index"));
    // A request without changes would be valid, but one with an empty title is not.
    let blank = UpdatePullRequest { repository_id, number, title: Some(String::new()), ..Default::default() };
    let check = async { call.clients.pulls().update_pull(call.blank_with_grant(&access.grant, blank)).await };
    let (changed, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::UPDATE_PULL).await?;
    let ChangedPull { allow_maintainer_edit: (), .. } = changed;
    let assignees = match (changed.assignee, changed.assignees) {
        (None, None) => None,
        (first, others) => Some(names(first.unwrap_or_default(), others.unwrap_or_default())),
    };
    let request = UpdatePullRequest {
        repository_id,
        number,
        title: changed.title,
        body: changed.body,
        base_branch: changed.base,
        state: changed.state.unwrap_or_default().into(),
        assignees: assignees.map(|usernames| UserNames { usernames }),
        milestone_id: changed.milestone,
        labels: changed.labels.map(|ids| LabelIds { ids }),
        due_time: changed.due_date,
        clear_due_time: changed.unset_due_date,
    };
    let request = with_timeout(call.request_with_grant(&access.grant, request), CREATE_TIMEOUT);
    let changed = call.clients.pulls().update_pull(request).await;
    let changed = changed.map_err(|status| refused(status, "base"))?.into_inner().pull;
    created(&call, access, changed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_of_a_path_is_the_base() {
        for (base, rest, expected) in [
            ("main", "main/topic", ("main", "topic")),
            ("main", "main/bob:feature/one", ("main", "bob:feature/one")),
            ("release/1", "release/1/topic", ("release/1", "topic")),
            ("main", "main/a\0", ("main", "a\u{fffd}")),
        ] {
            let (base, head) = branches(base.as_bytes(), rest.as_bytes());
            assert_eq!((base.as_str(), head.as_str()), expected, "{rest:?}");
        }
    }
}
