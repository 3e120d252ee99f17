//! The due date of an issue or a pull request, as a resource of its own.

use ferrite_api_types::convert::require;
use ferrite_api_types::shape;
use ferrite_proto::issue::UpdateIssueRequest;
use ferrite_proto::operation;
use serde::Serialize;

use super::change_error;
use crate::api::access::after_refusal;
use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{NonEmpty, RequestBody, Time, fields};
use crate::http::response::Created;
use crate::http::routes::variant;

operations! {
    "/api/v1/repos/{owner}/{repo}/issues/{index}/deadline" => post set as variant(operation::UPDATE_ISSUE, "Deadline");
}

fields! {
    /// The due date of an issue or a pull request.
    struct NewDeadline {
        /// The due date; null, empty or absent to remove it.
        due_date: NonEmpty<Time> = "2026-03-01T00:00:00Z",
    }
}

shape! {
    /// The due date of an issue or a pull request.
    #[derive(Clone, Debug, Serialize)]
    struct IssueDeadline {
        due_date: Option<Time>,
    }
}

/// Sets or removes the due date. Its author may change an issue, but this only with write
/// permission; a change of the issue ignores the date without it.
async fn set(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NewDeadline>,
) -> ApiResult<Created<IssueDeadline>> {
    let access = call.access(&path, operation::UPDATE_ISSUE).await?;
    let number = params.id("index");
    let unchanged = UpdateIssueRequest { repository_id: access.id, number, requires_write: true, ..Default::default() };
    // A request without changes would be valid, but one with an empty title is not.
    let blank = UpdateIssueRequest { title: Some(String::new()), ..unchanged.clone() };
    let check = async { call.clients.issues().update_issue(call.blank_with_grant(&access.grant, blank)).await };
    let (NewDeadline { due_date }, _permit) = after_refusal(check, body.read(&call.body_limits).await).await?;
    let access = call.confirm(access, operation::UPDATE_ISSUE).await?;
    let request = UpdateIssueRequest { due_time: due_date, clear_due_time: due_date.is_none(), ..unchanged };
    let request = call.request_with_grant(&access.grant, request);
    let response = call.clients.issues().update_issue(request).await.map_err(change_error)?.into_inner();
    let issue = require(response.issue, "issue")?;
    let location = format!("{}/issues/{number}", access.urls.api());
    Ok(Created::at(location, IssueDeadline { due_date: Time::optional(issue.due_time, "due_time")? }))
}
