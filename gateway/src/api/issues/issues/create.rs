use ferrite_proto::issue::CreateIssueRequest;
use ferrite_proto::operation;

use super::convert_issue;
use crate::api::access::after_refusal;
use crate::api::call::Authenticated;
use crate::api::issues::limit_text;
use crate::http::body::JsonBody;
use crate::http::body_limits::MAX_TEXT_BODY_BYTES;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::RepoPath;

pub(super) async fn create(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let access = call.access(&path, operation::CREATE_ISSUE).await?;
    let blank = CreateIssueRequest { repository_id: access.id, ..Default::default() };
    let check = async { call.clients.issues().create_issue(call.blank_with_grant(&access.grant, blank)).await };
    let decoded = body.decode(&call.body_limits, MAX_TEXT_BODY_BYTES, |fields| decode(fields, access.id)).await;
    let (request, _permit) = after_refusal(check, decoded).await?;
    let access = call.confirm(access, operation::CREATE_ISSUE).await?;
    let response =
        call.clients.issues().create_issue(call.request_with_grant(&access.grant, request)).await?.into_inner();
    Ok(json::created(convert_issue(&call, &access, response.issue).await?))
}

/// Reads the fields. issue-svc ignores assignee, milestone and labels of callers without write permission, so that they do not learn what
/// exists; a wrong type is a mistake of every caller.
fn decode(fields: &mut FieldReader, repository_id: i64) -> CreateIssueRequest {
    let (title, body) = (fields.required_non_empty("title"), fields.text_or_empty("body"));
    let assignee = fields.text_or_empty("assignee");
    CreateIssueRequest {
        repository_id,
        title: limit_text(fields, "title", title),
        body: limit_text(fields, "body", body),
        is_closed: fields.flag("closed"),
        assignee: limit_text(fields, "assignee", assignee),
        milestone_id: fields.number("milestone"),
        label_ids: fields.numbers("labels"),
    }
}
