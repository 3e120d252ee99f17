//! Settings of a repository's issue tracker.

use ferrite_proto::operation;
use ferrite_proto::repo::{TrackerIssueStyle, UpdateIssueTrackerRequest};

use crate::api::call::{Authenticated, routes};
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::path::RepoPath;

routes! {
    "/api/v1/repos/{owner}/{repo}/issue-tracker" => patch update as operation::UPDATE_ISSUE_TRACKER;
}

async fn update(Authenticated(call): Authenticated, path: RepoPath, body: JsonBody) -> ApiResult {
    let (repository, decoded) =
        call.decode_repository_body(&path, operation::UPDATE_ISSUE_TRACKER, body, decode).await?;
    let request = call.request(UpdateIssueTrackerRequest { repository: Some(repository), ..decoded });
    call.clients.repositories().update_issue_tracker(request).await?;
    Ok(json::no_content())
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
