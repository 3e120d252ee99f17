use ferrite_proto::issue::UpdateIssueRequest;
use ferrite_proto::operation;

use super::convert_issue;
use crate::api::access::after_refusal;
use crate::api::call::Authenticated;
use crate::api::issues::{limit_text, new_state};
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::{Params, RepoPath};

pub(super) async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: JsonBody,
) -> ApiResult {
    let access = call.access(&path, operation::UPDATE_ISSUE).await?;
    let (repository_id, number) = (access.id, params.id("index"));
    // A request without changes is valid. One with an empty title is not.
    let blank = UpdateIssueRequest { repository_id, number, title: Some(String::new()), ..Default::default() };
    let check = async { call.clients.issues().update_issue(call.blank_with_grant(&access.grant, blank)).await };
    let decode = |fields: &mut FieldReader| decode(fields, repository_id, number);
    let decoded = body.decode(&call.body_limits, MAX_TEXT_BODY_BYTES, decode).await;
    let (request, _permit) = after_refusal(check, decoded).await?;
    let access = call.confirm(access, operation::UPDATE_ISSUE).await?;
    let response =
        call.clients.issues().update_issue(call.request_with_grant(&access.grant, request)).await?.into_inner();
    Ok(json::ok(convert_issue(&call, &access, response.issue).await?))
}

/// Reads the changes of an issue. A blank title counts as absent, as an empty state does; an empty body or assignee and
/// milestone 0 clear.
fn decode(fields: &mut FieldReader, repository_id: i64, number: i64) -> UpdateIssueRequest {
    let title = fields.optional_text("title").filter(|title| !title.trim().is_empty());
    let (body, assignee) = (fields.optional_text("body"), fields.optional_text("assignee"));
    UpdateIssueRequest {
        repository_id,
        number,
        title: title.map(|title| limit_text(fields, "title", title)),
        body: body.map(|body| limit_text(fields, "body", body)),
        assignee: assignee.map(|assignee| limit_text(fields, "assignee", assignee)),
        milestone_id: fields.optional_number("milestone"),
        state: new_state(fields).into(),
        ..Default::default()
    }
}
