//! Issues, their lists and their history.

mod create_issue;
mod get_issue;
mod list_issues;
mod list_timeline;
mod list_user_issues;
mod update_issue;

use ferrite_kit::service;
use ferrite_proto::issue::issue_service_server::IssueService;
use ferrite_proto::issue::*;

use super::IssueRpc;

use self::create_issue::create_issue;
use self::get_issue::get_issue;
use self::list_issues::list_issues;
use self::list_timeline::list_timeline;
use self::list_user_issues::list_user_issues;
use self::update_issue::update_issue;

service!(IssueService for IssueRpc {
    create_issue(CreateIssueRequest) -> CreateIssueResponse;
    list_issues(ListIssuesRequest) -> ListIssuesResponse;
    list_user_issues(ListUserIssuesRequest) -> ListUserIssuesResponse;
    get_issue(GetIssueRequest) -> GetIssueResponse;
    update_issue(UpdateIssueRequest) -> UpdateIssueResponse;
    list_timeline(ListTimelineRequest) -> ListTimelineResponse;
});
