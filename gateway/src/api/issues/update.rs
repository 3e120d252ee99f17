use ferrite_proto::issue::UpdateIssueRequest;
use ferrite_proto::operation;

use super::convert_issue;
use crate::api::call::Authenticated;
use crate::api::tracker::{limit_text, new_state, prefer_refusal};
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
    let target = UpdateIssueRequest { repository_id: access.id, number: params.id("index"), ..Default::default() };
    let decoded = body.decode(&call.body_limits, MAX_TEXT_BODY_BYTES, |fields| decode(fields, &target)).await;
    let (request, _permit) = match decoded {
        Ok(decoded) => decoded,
        Err(error) => {
            // A missing issue, and one that the caller may not change, come before mistakes in the body.
            let check = call.check_with_grant(&access.grant, UpdateIssueRequest { check_only: true, ..target });
            return Err(prefer_refusal(call.clients.issues().update_issue(check).await, error, &[]));
        }
    };
    let access = call.confirm(access, operation::UPDATE_ISSUE).await?;
    let response =
        call.clients.issues().update_issue(call.request_with_grant(&access.grant, request)).await?.into_inner();
    Ok(json::ok(convert_issue(&call, &access, response.issue).await?))
}

/// Reads the changes of the issue `target`. A blank title counts as absent, as an empty state does; an empty body or assignee and
/// milestone 0 clear.
fn decode(fields: &mut FieldReader, target: &UpdateIssueRequest) -> UpdateIssueRequest {
    let title = fields.optional_text("title").filter(|title| !title.trim().is_empty());
    let (body, assignee) = (fields.optional_text("body"), fields.optional_text("assignee"));
    UpdateIssueRequest {
        title: title.map(|title| limit_text(fields, "title", title)),
        body: body.map(|body| limit_text(fields, "body", body)),
        assignee: assignee.map(|assignee| limit_text(fields, "assignee", assignee)),
        milestone_id: fields.optional_number("milestone"),
        state: new_state(fields).into(),
        ..target.clone()
    }
}
