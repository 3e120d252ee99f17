//! Issues of a repository.

use axum::extract::State;
use axum::response::Response;
use ferrite_proto::issue::{CreateIssueRequest, GetIssueRequest, IssueState, ListIssuesRequest};
use ferrite_proto::{Permission, operation};

use super::access::Access;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::dto::{Issue, require};
use crate::http::body::JsonBody;
use crate::http::body_limits::{LargeBodyPermit, MAX_JSON_BYTES};
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{RepoPath, number};
use crate::http::query::Query;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/issues" => get list as operation::LIST_ISSUES, post create as operation::CREATE_ISSUE;
    "/api/v1/repos/{owner}/{repo}/issues/{index}" => get get as operation::GET_ISSUE;
}

async fn list(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::LIST_ISSUES).await?;
    let page = query.page(PageLimits::LARGE_LIST);
    let state = match query.text("state").as_deref() {
        Some("closed") => IssueState::Closed,
        Some("all") => IssueState::Unspecified,
        _ => IssueState::Open,
    };
    let request =
        ListIssuesRequest { repository_id: access.id, state: state.into(), page: page.number, page_size: page.size };
    let answer =
        api.clients.issues().list_issues(context.request_with_grant(&access.grant, request)).await?.into_inner();
    let accounts = api.accounts_by_id(&context, answer.issues.iter().map(|issue| issue.user_id)).await?;
    let issues = answer.issues.into_iter().map(|issue| Issue::new(issue, &accounts, &api.links));
    let issues = issues.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(issues, query.headers(page, answer.total_count, &api.links)))
}

async fn get(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::GET_ISSUE).await?;
    let number = number(&path.rest).ok_or_else(|| ApiError::not_found("issue does not exist"))?;
    let request = GetIssueRequest { repository_id: access.id, number };
    let answer = api.clients.issues().get_issue(context.request_with_grant(&access.grant, request)).await?.into_inner();
    let issue = require(answer.issue, "issue")?;
    let accounts = api.accounts_by_id(&context, [issue.user_id]).await?;
    Ok(json::ok(Issue::new(issue, &accounts, &api.links)?))
}

async fn create(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let access = api.access(&context, &path, operation::CREATE_ISSUE).await?;
    let fields = body.fields(&api.body_limits, MAX_JSON_BYTES).await?;
    let (request, _permit) = decode(fields, &access)?;
    let answer =
        api.clients.issues().create_issue(context.request_with_grant(&access.grant, request)).await?.into_inner();
    let issue = require(answer.issue, "issue")?;
    let accounts = api.accounts_by_id(&context, [issue.user_id]).await?;
    Ok(json::created(Issue::new(issue, &accounts, &api.links)?))
}

fn decode(mut fields: FieldReader, access: &Access) -> Result<(CreateIssueRequest, LargeBodyPermit), ApiError> {
    let request = CreateIssueRequest {
        repository_id: access.id,
        title: fields.required_non_empty("title"),
        body: fields.text_or_empty("body"),
        is_closed: fields.flag("closed"),
    };
    let (assignee, milestone, labels) =
        (fields.text_or_empty("assignee"), fields.number("milestone"), fields.numbers("labels"));
    // Only callers with write permission may set these. For others the values are ignored, so that they do not learn what exists.
    if access.permission >= Permission::Write {
        if !assignee.is_empty() {
            fields.add_error("assignee", "unsupported", "cannot be set yet");
        }
        // There are no milestones and labels yet.
        if milestone != 0 {
            fields.add_error("milestone", "unknown", "there is no such milestone");
        }
        if !labels.is_empty() {
            fields.add_error("labels", "unknown", "there is no such label");
        }
    }
    Ok((request, fields.finish()?))
}
