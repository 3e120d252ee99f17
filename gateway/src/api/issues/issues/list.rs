//! The list of a repository's issues, and its filters.

use ferrite_proto::issue::assignee_filter::Condition;
use ferrite_proto::issue::{AssigneeFilter, IssueKind, IssueSort, IssueState, ListIssuesRequest};
use ferrite_proto::operation;
use ferrite_proto::repo::GetUsersRequest;

use crate::api::access::after_refusal;
use crate::api::call::{ApiCall, Authenticated};
use crate::api::issues::{list_error, list_headers, listed_state, value};
use crate::dto::Issue;
use crate::http::error::{ApiError, ApiResult};
use crate::http::json;
use crate::http::page::{Page, PageLimits};
use crate::http::path::RepoPath;
use crate::http::query::Query;

/// Words of the filter by assignee in the place of a name: nobody, and anybody. No account may be called so.
pub const ASSIGNEE_WORDS: [&str; 2] = [NOBODY, ANYBODY];
const NOBODY: &str = "none";
const ANYBODY: &str = "*";
/// An id that no account has, in place of the id of an unknown name: no issue matches it.
const NO_USER: i64 = i64::MAX;

pub(super) async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let access = call.access(&path, operation::LIST_ISSUES).await?;
    let page = query.page(PageLimits::LARGE_LIST);
    let blank = ListIssuesRequest { repository_id: access.id, ..Default::default() };
    let check = async { call.clients.issues().list_issues(call.blank_with_grant(&access.grant, blank)).await };
    let filters = after_refusal(check, decode(&query, access.id, page)).await?;
    let (assignee, creator_id) = accounts_of_filters(&call, &query).await?;
    let request = ListIssuesRequest { assignee, creator_id, ..filters };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.issues().list_issues(request).await.map_err(list_error)?.into_inner();
    let accounts = call.accounts_beside_caller(&access, response.issues.iter().flat_map(Issue::account_ids)).await?;
    let issues = response.issues.into_iter().map(|issue| Issue::new(issue, &accounts, &access.urls));
    let issues = issues.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page_of_texts(issues, list_headers(&query, page, response.total_count, response.is_partial, &call.links)))
}

/// Returns the filters of a query, without those that name accounts.
///
/// # Errors
/// 422 with every parameter that cannot be read.
fn decode(query: &Query, repository_id: i64, page: Page) -> Result<ListIssuesRequest, ApiError> {
    let kinds = [("issues", IssueKind::Issue), ("pulls", IssueKind::PullRequest), ("all", IssueKind::Any)];
    let sorts = [("created", IssueSort::Created), ("updated", IssueSort::Updated), ("comments", IssueSort::Comments)];
    let directions = [("asc", true), ("desc", false)];
    let mut errors = Vec::new();
    let state = value(listed_state(query, IssueState::Open).map(Some), &mut errors);
    let kind = value(query.word("type", &kinds), &mut errors);
    let sort = value(query.word("sort", &sorts), &mut errors);
    let is_ascending = value(query.word("direction", &directions), &mut errors);
    let since = value(query.time("since"), &mut errors);
    if !errors.is_empty() {
        return Err(ApiError::invalid(errors));
    }
    let labels = query.filter("labels");
    Ok(ListIssuesRequest {
        repository_id,
        state: state.unwrap_or(IssueState::Open).into(),
        page: page.number,
        page_size: page.size,
        kind: kind.unwrap_or(IssueKind::Issue).into(),
        labels: labels.split(',').map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect(),
        assignee: None,
        creator_id: 0,
        mentioned: query.filter("mentioned"),
        milestone: query.filter("milestone"),
        query: query.filter("q"),
        since,
        sort: sort.unwrap_or(IssueSort::Created).into(),
        is_ascending: is_ascending.unwrap_or(false),
    })
}

/// Returns the filters by `assignee` and `creator`, whose names are looked up by one call.
async fn accounts_of_filters(call: &ApiCall, query: &Query) -> Result<(Option<AssigneeFilter>, i64), ApiError> {
    let (assignee, creator) = (query.filter("assignee"), query.filter("creator"));
    let is_name = !matches!(assignee.as_str(), "" | NOBODY | ANYBODY);
    let usernames: Vec<_> = Some(&assignee)
        .filter(|_| is_name)
        .into_iter()
        .chain(Some(&creator).filter(|name| !name.is_empty()))
        .cloned()
        .collect();
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
    let condition = match assignee.as_str() {
        "" => None,
        NOBODY => Some(Condition::None(true)),
        ANYBODY => Some(Condition::Any(true)),
        name => Some(Condition::UserId(id_of(name))),
    };
    let assignee = condition.map(|condition| AssigneeFilter { condition: Some(condition) });
    Ok((assignee, if creator.is_empty() { 0 } else { id_of(&creator) }))
}
