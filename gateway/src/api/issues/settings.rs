use ferrite_proto::operation;
use ferrite_proto::repo::{TrackerIssueStyle, UpdateIssueTrackerRequest};

use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::RepoPath;
use crate::http::request::{Flag, Optional, RequestBody, Text, Word, fields};
use crate::http::response::NoContent;
use crate::http::words::words;

operations! {
    "/api/v1/repos/{owner}/{repo}/issue-tracker" => patch update as operation::UPDATE_ISSUE_TRACKER;
}

words! {
    enum Style: TrackerIssueStyle {
        "numeric" = TrackerIssueStyle::Numeric,
        "alphanumeric" = TrackerIssueStyle::Alphanumeric,
    }
}

fields! {
    /// Changes of an issue tracker. Absent fields stay unchanged.
    struct ChangedIssueTracker {
        /// The style of issue numbers in an external tracker: `123` or `ABC-123`.
        tracker_issue_style: Optional<Word<Style>> = "numeric",
        enable_issues: Optional<Flag> = true,
        enable_external_tracker: Optional<Flag> = false,
        external_tracker_url: Optional<Text<2048>> = "https://tracker.example.com/acme",
        tracker_url_format: Optional<Text<2048>> = "https://tracker.example.com/acme/issues/{index}",
    }
}

async fn update(
    Authenticated(call): Authenticated,
    path: RepoPath,
    body: RequestBody<ChangedIssueTracker>,
) -> ApiResult<NoContent> {
    let (repository, changed, _permit) = call.repository_body(&path, operation::UPDATE_ISSUE_TRACKER, body).await?;
    let request = UpdateIssueTrackerRequest {
        repository: Some(repository),
        enable_issues: changed.enable_issues,
        enable_external_tracker: changed.enable_external_tracker,
        external_tracker_url: changed.external_tracker_url,
        tracker_url_format: changed.tracker_url_format,
        tracker_issue_style: changed.tracker_issue_style.unwrap_or_default().into(),
    };
    call.clients.repositories().update_issue_tracker(call.request(request)).await?;
    Ok(NoContent)
}
