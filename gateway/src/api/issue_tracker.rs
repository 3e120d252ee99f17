//! Settings of a repository's issue tracker.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use ferrite_proto::repo::{TrackerIssueStyle, UpdateIssueTrackerRequest};

use super::access::PermissionCheck;
use super::operation;
use super::state::ApiState;
use crate::auth::Authenticated;
use crate::http::body::JsonBody;
use crate::http::error::ApiError;
use crate::http::fields::FieldReader;
use crate::http::path::RepoPath;
use crate::http::routes::routes;

routes! { ApiState:
    "/api/v1/repos/{owner}/{repo}/issue-tracker" => patch update as operation::UPDATE_ISSUE_TRACKER;
}

async fn update(
    State(api): State<ApiState>,
    Authenticated(context): Authenticated,
    path: RepoPath,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let check = PermissionCheck::of(operation::UPDATE_ISSUE_TRACKER).on_repository(path.repository());
    let decoded = api.decode_body(&context, check, body, decode).await?;
    let request = context.request(UpdateIssueTrackerRequest { repository: Some(path.repository()), ..decoded });
    api.clients.repositories().update_issue_tracker(request).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn decode(fields: &mut FieldReader) -> UpdateIssueTrackerRequest {
    let style = match fields.optional_text("tracker_issue_style").as_deref() {
        None => TrackerIssueStyle::Unspecified,
        Some("numeric") => TrackerIssueStyle::Numeric,
        Some("alphanumeric") => TrackerIssueStyle::Alphanumeric,
        Some(_) => {
            fields.add_error("tracker_issue_style", "unknown", "must be `numeric` or `alphanumeric`");
            TrackerIssueStyle::Unspecified
        }
    };
    UpdateIssueTrackerRequest {
        repository: None,
        enable_issues: fields.optional_flag("enable_issues"),
        enable_external_tracker: fields.optional_flag("enable_external_tracker"),
        external_tracker_url: fields.optional_text("external_tracker_url"),
        tracker_url_format: fields.optional_text("tracker_url_format"),
        tracker_issue_style: style.into(),
    }
}
