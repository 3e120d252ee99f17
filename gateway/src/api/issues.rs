use axum::extract::State;
use axum::response::Response;
use ferrite_proto::issue::{CreateIssueRequest, GetIssueRequest, IssueState, ListIssuesRequest};
use ferrite_proto::{Permission, operation};

use super::access::Access;
use crate::auth::Signed;
use crate::dto::{Issue, present};
use crate::http::body::{Fields, JSON_BYTES, Payload, Slot};
use crate::http::error::ApiError;
use crate::http::json;
use crate::http::page::{MANY, Query};
use crate::http::path::{RepoPath, number};
use crate::http::routes::routes;
use crate::state::Gateway;

routes! { Gateway:
    "/api/v1/repos/{owner}/{repo}/issues" => get list as operation::LIST_ISSUES, post create as operation::CREATE_ISSUE;
    "/api/v1/repos/{owner}/{repo}/issues/{index}" => get get as operation::GET_ISSUE;
}

async fn list(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    query: Query,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::LIST_ISSUES).await?;
    let page = query.page(MANY);
    let state = match query.text("state").as_deref() {
        Some("closed") => IssueState::Closed,
        Some("all") => IssueState::Unspecified,
        _ => IssueState::Open,
    };
    let request =
        ListIssuesRequest { repository_id: access.id, state: state.into(), page: page.number, page_size: page.size };
    let answer = gateway.clients.issues().list_issues(call.granted(&access.grant, request)).await?.into_inner();
    let accounts = gateway.accounts_by_id(&call, answer.issues.iter().map(|issue| issue.user_id)).await?;
    let issues = answer.issues.into_iter().map(|issue| Issue::new(issue, &accounts, &gateway.links));
    let issues = issues.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(issues, query.headers(page, answer.total_count, &gateway.links)))
}

async fn get(State(gateway): State<Gateway>, Signed(call): Signed, path: RepoPath) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::GET_ISSUE).await?;
    let number = number(&path.rest).ok_or_else(|| ApiError::not_found("issue does not exist"))?;
    let request = GetIssueRequest { repository_id: access.id, number };
    let answer = gateway.clients.issues().get_issue(call.granted(&access.grant, request)).await?.into_inner();
    let issue = present(answer.issue, "issue")?;
    let accounts = gateway.accounts_by_id(&call, [issue.user_id]).await?;
    Ok(json::ok(Issue::new(issue, &accounts, &gateway.links)?))
}

async fn create(
    State(gateway): State<Gateway>,
    Signed(call): Signed,
    path: RepoPath,
    payload: Payload,
) -> Result<Response, ApiError> {
    let access = gateway.access(&call, &path, operation::CREATE_ISSUE).await?;
    let fields = payload.fields(&gateway, JSON_BYTES).await?;
    let (request, _slot) = decode(fields, &access)?;
    let answer = gateway.clients.issues().create_issue(call.granted(&access.grant, request)).await?.into_inner();
    let issue = present(answer.issue, "issue")?;
    let accounts = gateway.accounts_by_id(&call, [issue.user_id]).await?;
    Ok(json::created(Issue::new(issue, &accounts, &gateway.links)?))
}

fn decode(mut fields: Fields, access: &Access) -> Result<(CreateIssueRequest, Slot), ApiError> {
    let request = CreateIssueRequest {
        repository_id: access.id,
        title: fields.required("title"),
        body: fields.text_or_empty("body"),
        is_closed: fields.flag("closed"),
    };
    let (assignee, milestone, labels) =
        (fields.text_or_empty("assignee"), fields.number("milestone"), fields.numbers("labels"));
    // Only writers may set these. Callers below that level are not even told that what they name does not exist.
    if access.permission >= Permission::Write {
        if !assignee.is_empty() {
            fields.refuse("assignee", "unsupported", "cannot be set yet");
        }
        // No repository has a milestone or a label as long as no operation makes one.
        if milestone != 0 {
            fields.refuse("milestone", "unknown", "there is no such milestone");
        }
        if !labels.is_empty() {
            fields.refuse("labels", "unknown", "there is no such label");
        }
    }
    Ok((request, fields.finish()?))
}
