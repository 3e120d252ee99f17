use ferrite_api_types::Issue;
use ferrite_api_types::convert::require;
use ferrite_proto::issue::assignee_filter::Condition;
use ferrite_proto::issue::{
    self, AssigneeFilter, CreateIssueRequest, GetIssueRequest, IssueKind, IssueSort, IssueState, ListIssuesRequest,
    ListUserIssuesRequest, NamedRepository, SearchIssuesRequest, UpdateIssueRequest, UserNames,
};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;

use super::{ListedState, NewState, RepositoryUrls, change_error, list_error};
use crate::api::access::{PermissionCheck, ResolvedAccess, after_refusal};
use crate::api::call::{ApiCall, Authenticated, MaybeAuthenticated, operations};
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::filters::{QueryOf, Search, filters};
use crate::http::page::{LargeList, Page, SearchList, Total};
use crate::http::path::{Params, RepoPath};
use crate::http::request::{
    Checked, Flag, Integer, Integers, LongText, NonBlank, NonEmpty, Optional, OrDefault, RequestBody, Texts, Time,
    Word, fields,
};
use crate::http::response::{Created, Json, TextList};
use crate::http::routes::variant;
use crate::http::words::words;

/// Words in the assignee filter for nobody and anybody. No account can have these names.
pub const ASSIGNEE_WORDS: [&str; 2] = [NOBODY, ANYBODY];
const NOBODY: &str = "none";
const ANYBODY: &str = "*";
/// Stands for an unknown name. No account has this id, so no issue matches.
const NO_USER: i64 = i64::MAX;

operations! {
    "/api/v1/repos/{owner}/{repo}/issues" => get list as operation::LIST_ISSUES, post create as operation::CREATE_ISSUE;
    "/api/v1/repos/{owner}/{repo}/issues/{index}" =>
        get get as operation::GET_ISSUE,
        patch update as operation::UPDATE_ISSUE;
    "/api/v1/repos/issues/search" => get search as operation::SEARCH_ISSUES;
    "/api/v1/user/issues" => get list_of_user as operation::LIST_USER_ISSUES;
    "/api/v1/issues" => get list_of_user as variant(operation::LIST_USER_ISSUES, "Alias");
}

words! {
    enum Kind: IssueKind { "issues" = IssueKind::Issue, "pulls" = IssueKind::PullRequest, "all" = IssueKind::Any }
}

words! {
    enum Sort: IssueSort {
        "created" = IssueSort::Created,
        "updated" = IssueSort::Updated,
        "comments" = IssueSort::Comments,
    }
}

words! {
    /// Whether the order is ascending.
    enum Direction: bool { "asc" = true, "desc" = false }
}

filters! {
    /// Filters and order of a repository's issues. An issue must match all filters.
    struct IssueFilters {
        /// The state of the issues: `open` (the default), `closed` or `all`.
        state: Word<ListedState> = "closed",
        /// The kind: `issues` (the default), `pulls` or `all`.
        kind as "type": Word<Kind> = "all",
        /// The order: `created` (the default), `updated` or `comments`.
        sort: Word<Sort> = "updated",
        /// The direction of the order: `desc` (the default) or `asc`.
        direction: Word<Direction> = "asc",
        /// Only issues that were updated at this time or later.
        since: Time = "2026-01-02T03:04:05Z",
        /// Comma-separated ids or names of labels, at most 100. An issue must have all of them.
        labels: Search = "bug,ui",
        /// The name of a user who is mentioned in the body or a comment.
        mentioned: Search = "eve",
        /// The id or title of a milestone, `none` for issues without one, or `*` for issues with
        /// any.
        milestone: Search = "1.0",
        /// Search words. Each must be a prefix of a word in the title or the body.
        q: Search = "crash linux",
        /// The name of one of the assignees, `none` for unassigned issues, or `*` for assigned ones.
        assignee: Search = "bob",
        /// The name of the user who opened the issue.
        creator: Search = "eve",
    }
}

filters! {
    /// Filters of the caller's issues.
    struct UserIssueFilters {
        /// The state of the issues: `open` (the default), `closed` or `all`.
        state: Word<ListedState> = "closed",
    }
}

filters! {
    /// Filters of a search over all repositories. An issue must match all filters.
    struct SearchTerms {
        /// The state of the issues: `open` (the default), `closed` or `all`.
        state: Word<ListedState> = "closed",
        /// The kind: `issues`, `pulls` or `all` (the default).
        kind as "type": Word<Kind> = "issues",
        /// A part of the title, ignoring case.
        q: Search = "crash",
        /// Comma-separated names of labels, at most 100. An issue must have one of them.
        labels: Search = "bug,ui",
        /// Comma-separated titles of milestones, at most 100. An issue must have one of them.
        milestones: Search = "1.0,2.0",
        /// Only issues that were updated at this time or later.
        since: Time = "2026-01-02T03:04:05Z",
        /// Only issues that were updated at this time or earlier.
        before: Time = "2026-02-03T04:05:06Z",
        /// Whether the caller must be an assignee.
        assigned: Flag = true,
        /// Whether the caller must have opened the issue.
        created: Flag = true,
        /// Whether the caller must be mentioned in the body or a comment.
        mentioned: Flag = true,
        /// The name of the owner of the repositories.
        owner: Search = "bob",
    }
}

fields! {
    /// A new issue. Assignees, milestone, labels and due date are ignored if the caller has no write
    /// permission.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct NewIssue {
        title: Checked<LongText> = "It crashes at the start",
        body: OrDefault<LongText> = "Since version 1.0, on Linux.",
        /// The name of an assignee; empty for none.
        assignee: OrDefault<LongText> = "bob",
        /// The names of more assignees; an issue can have 10.
        assignees: OrDefault<Texts<10>> = ["eve"],
        /// Whether to create the issue closed.
        closed: OrDefault<Flag> = false,
        /// The id of the milestone; 0 for none.
        milestone: OrDefault<Integer> = 2,
        /// The ids of labels of the repository; to add labels by name, use `POST …/labels` of the issue.
        labels: OrDefault<Integers<100>> = [5, 6],
        /// The due date; absent or empty for none.
        due_date: NonEmpty<Time> = "2026-03-01T00:00:00Z",
    }
}

fields! {
    /// Changes of an issue. Absent fields stay unchanged.
    #[max_bytes = MAX_TEXT_BODY_BYTES]
    struct ChangedIssue {
        /// The title, with the rules for a new issue. A blank one changes nothing.
        title: NonBlank<LongText> = "It crashes at the start on Linux",
        body: Optional<LongText> = "Since version 1.0.",
        /// The name of the assignee, who replaces those before; empty for none.
        assignee: Optional<LongText> = "bob",
        /// The names of all assignees beside `assignee`; an empty list for none.
        assignees: Optional<Texts<10>> = ["eve"],
        /// The id of the new milestone; 0 for none.
        milestone: Optional<Integer> = 2,
        /// The new state. An empty text changes nothing. That of a merged pull request cannot change.
        state: NonEmpty<Word<NewState>> = "closed",
        /// The new due date. An empty text changes nothing.
        due_date: NonEmpty<Time> = "2026-04-01T00:00:00Z",
        /// Removes the due date.
        unset_due_date: OrDefault<Flag> = false,
    }
}

async fn list(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: LargeList,
    filters: QueryOf<IssueFilters>,
) -> ApiResult<TextList<Issue>> {
    let access = call.access(&path, operation::LIST_ISSUES).await?;
    let blank = ListIssuesRequest { repository_id: access.id, ..Default::default() };
    let check = async { call.clients.issues().list_issues(call.blank_with_grant(&access.grant, blank)).await };
    let filters = after_refusal(check, filters.read()).await?;
    let (assignee, creator_id) = accounts_of_filters(&call, &filters.assignee, &filters.creator).await?;
    let request = ListIssuesRequest { assignee, creator_id, ..list_request(filters, access.id, query.page) };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.issues().list_issues(request).await.map_err(list_error)?.into_inner();
    let accounts = call.accounts_beside_caller(&access, response.issues.iter().flat_map(Issue::account_ids)).await?;
    let issues = response.issues.into_iter().map(|issue| Issue::new(issue, &accounts, &access.urls));
    let issues = issues.collect::<Result<Vec<_>, _>>()?;
    Ok(query.text_list(issues, Total::counted(response.total_count, response.is_partial), &call.links))
}

/// Returns the request for a page of a list, without the filters that name accounts.
fn list_request(filters: IssueFilters, repository_id: i64, page: Page) -> ListIssuesRequest {
    ListIssuesRequest {
        repository_id,
        state: filters.state.unwrap_or(IssueState::Open).into(),
        page: page.number,
        page_size: page.size,
        kind: filters.kind.unwrap_or(IssueKind::Issue).into(),
        labels: names(&filters.labels),
        assignee: None,
        creator_id: 0,
        mentioned: filters.mentioned,
        milestone: filters.milestone,
        query: filters.q,
        since: filters.since,
        sort: filters.sort.unwrap_or(IssueSort::Created).into(),
        is_ascending: filters.direction.unwrap_or(false),
    }
}

/// Returns the `assignee` and `creator` filters. One call looks up both names.
async fn accounts_of_filters(
    call: &ApiCall,
    assignee: &str,
    creator: &str,
) -> ApiResult<(Option<AssigneeFilter>, i64)> {
    let is_assignee_name = !matches!(assignee, "" | NOBODY | ANYBODY);
    let names = [(assignee, is_assignee_name), (creator, !creator.is_empty())];
    let usernames: Vec<_> =
        names.into_iter().filter(|(_, is_name)| *is_name).map(|(name, _)| name.to_owned()).collect();
    let users = if usernames.is_empty() {
        Vec::new()
    } else {
        let request = GetUsersRequest { usernames, ..Default::default() };
        call.clients.accounts().get_users(call.request(request)).await?.into_inner().users
    };
    let id_of = |name: &str| {
        let key = name.to_lowercase();
        users.iter().find(|user| user.username.to_lowercase() == key).map_or(NO_USER, |user| user.id)
    };
    let condition = match assignee {
        "" => None,
        NOBODY => Some(Condition::None(true)),
        ANYBODY => Some(Condition::Any(true)),
        name => Some(Condition::UserId(id_of(name))),
    };
    let assignee = condition.map(|condition| AssigneeFilter { condition: Some(condition) });
    Ok((assignee, if creator.is_empty() { 0 } else { id_of(creator) }))
}

/// Opens an issue. issue-svc ignores assignees, milestone, labels and due date of callers without
/// write permission, so that they do not learn what exists; a wrong type is an error for every caller.
async fn create(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<NewIssue>,
) -> ApiResult<Created<Issue>> {
    let access = call.access(&path, operation::CREATE_ISSUE).await?;
    let blank = CreateIssueRequest { repository_id: access.id, ..Default::default() };
    let check = async { call.clients.issues().create_issue(call.blank_with_grant(&access.grant, blank)).await };
    let (new, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::CREATE_ISSUE).await?;
    let request = CreateIssueRequest {
        repository_id: access.id,
        title: new.title,
        body: new.body,
        is_closed: new.closed,
        assignee: new.assignee,
        assignees: new.assignees,
        milestone_id: new.milestone,
        label_ids: new.labels,
        due_time: new.due_date,
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.issues().create_issue(request).await?.into_inner();
    let made = require(response.issue, "issue")?;
    let location = format!("{}/issues/{}", access.urls.api(), made.number);
    Ok(Created::at(location, convert_issue(&call, &access, Some(made)).await?))
}

async fn get(MaybeAuthenticated(call): MaybeAuthenticated, path: RepoPath, params: Params) -> ApiResult<Json<Issue>> {
    let access = call.access(&path, operation::GET_ISSUE).await?;
    let request = GetIssueRequest { repository_id: access.id, number: params.id("index") };
    let response = call.clients.issues().get_issue(call.request_with_grant(&access.grant, request)).await?.into_inner();
    Ok(Json(convert_issue(&call, &access, response.issue).await?))
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<ChangedIssue>,
) -> ApiResult<Json<Issue>> {
    let access = call.access(&path, operation::UPDATE_ISSUE).await?;
    let (repository_id, number) = (access.id, params.id("index"));
    // A request without changes would be valid, but one with an empty title is not.
    let blank = UpdateIssueRequest { repository_id, number, title: Some(String::new()), ..Default::default() };
    let check = async { call.clients.issues().update_issue(call.blank_with_grant(&access.grant, blank)).await };
    let (changed, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::UPDATE_ISSUE).await?;
    let request = UpdateIssueRequest {
        repository_id,
        number,
        title: changed.title,
        body: changed.body,
        assignee: changed.assignee,
        assignees: changed.assignees.map(|usernames| UserNames { usernames }),
        milestone_id: changed.milestone,
        state: changed.state.unwrap_or_default().into(),
        due_time: changed.due_date,
        clear_due_time: changed.unset_due_date,
        ..Default::default()
    };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.issues().update_issue(request).await.map_err(change_error)?.into_inner();
    Ok(Json(convert_issue(&call, &access, response.issue).await?))
}

/// Lists the issues assigned to the caller. issue-svc asks repo-svc which of them the caller can
/// see.
async fn list_of_user(
    Authenticated(call): Authenticated,
    query: LargeList,
    filters: QueryOf<UserIssueFilters>,
) -> ApiResult<TextList<Issue>> {
    let grant = call.grant(PermissionCheck::of(operation::LIST_USER_ISSUES)).await?;
    let UserIssueFilters { state } = filters.read()?;
    let state = state.unwrap_or(IssueState::Open).into();
    let request = ListUserIssuesRequest { state, page: query.page.number, page_size: query.page.size };
    let request = call.request_with_grant(&grant, request);
    let response = call.clients.issues().list_user_issues(request).await.map_err(list_error)?.into_inner();
    let issues = convert_issues(&call, response.issues, response.repositories).await?;
    Ok(query.text_list(issues, response.total_count, &call.links))
}

/// Searches the issues of all repositories. issue-svc asks repo-svc which of them the caller can
/// see.
async fn search(
    Authenticated(call): Authenticated,
    query: SearchList,
    filters: QueryOf<SearchTerms>,
) -> ApiResult<TextList<Issue>> {
    let grant = call.grant(PermissionCheck::of(operation::SEARCH_ISSUES)).await?;
    let filters = filters.read()?;
    let request = SearchIssuesRequest {
        state: filters.state.unwrap_or(IssueState::Open).into(),
        page: query.page.number,
        page_size: query.page.size,
        kind: filters.kind.unwrap_or(IssueKind::Any).into(),
        query: filters.q,
        labels: names(&filters.labels),
        milestones: names(&filters.milestones),
        since: filters.since,
        before: filters.before,
        is_assigned: filters.assigned,
        is_created: filters.created,
        is_mentioned: filters.mentioned,
        owner: filters.owner,
    };
    let request = call.request_with_grant(&grant, request);
    let response = call.clients.issues().search_issues(request).await.map_err(list_error)?.into_inner();
    let issues = convert_issues(&call, response.issues, response.repositories).await?;
    let total = Total::known_at_end(response.total_count, response.has_more);
    Ok(query.text_list(issues, total, &call.links))
}

/// Returns the names in a comma-separated list.
fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Converts issues of several repositories.
async fn convert_issues(
    call: &ApiCall,
    issues: Vec<issue::Issue>,
    repositories: Vec<NamedRepository>,
) -> ApiResult<Vec<Issue>> {
    let accounts = call.accounts_by_id(issues.iter().flat_map(Issue::account_ids)).await?;
    let repositories = RepositoryUrls::new(repositories, &call.links);
    let mut converted = Vec::with_capacity(issues.len());
    for issue in issues {
        let urls = require(repositories.of(issue.repository_id), "repositories")?;
        converted.push(Issue::new(issue, &accounts, urls)?);
    }
    Ok(converted)
}

async fn convert_issue(call: &ApiCall, access: &ResolvedAccess, issue: Option<issue::Issue>) -> ApiResult<Issue> {
    let issue = require(issue, "issue")?;
    let accounts = call.accounts_beside_caller(access, Issue::account_ids(&issue)).await?;
    Ok(Issue::new(issue, &accounts, &access.urls)?)
}
