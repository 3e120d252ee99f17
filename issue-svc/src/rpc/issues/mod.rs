//! Issues, their lists and their history.

mod create_issue;
mod get_issue;
mod list_issues;
mod list_timeline;
mod list_user_issues;
mod update_issue;

use ferrite_proto::issue::issue_service_server::IssueService;
use ferrite_proto::issue::{
    CreateIssueRequest, CreateIssueResponse, GetIssueRequest, GetIssueResponse, ListIssuesRequest, ListIssuesResponse,
    ListTimelineRequest, ListTimelineResponse, ListUserIssuesRequest, ListUserIssuesResponse, UpdateIssueRequest,
    UpdateIssueResponse,
};
use tonic::{Request, Response, Status};

use super::{IssueRpc, dispatch};

dispatch! { IssueService {
    create_issue(CreateIssueRequest) -> CreateIssueResponse;
    list_issues(ListIssuesRequest) -> ListIssuesResponse;
    list_user_issues(ListUserIssuesRequest) -> ListUserIssuesResponse;
    get_issue(GetIssueRequest) -> GetIssueResponse;
    update_issue(UpdateIssueRequest) -> UpdateIssueResponse;
    list_timeline(ListTimelineRequest) -> ListTimelineResponse;
} }
