//! Labels of repositories and issues.

mod change_issue_labels;
mod create_label;
mod delete_label;
mod get_label;
mod list_issue_labels;
mod list_labels;
mod update_label;

use ferrite_kit::service;
use ferrite_proto::issue::label_service_server::LabelService;
use ferrite_proto::issue::*;

use super::IssueRpc;

use self::change_issue_labels::change_issue_labels;
use self::create_label::create_label;
use self::delete_label::delete_label;
use self::get_label::get_label;
use self::list_issue_labels::list_issue_labels;
use self::list_labels::list_labels;
use self::update_label::update_label;

service!(LabelService for IssueRpc {
    list_labels(ListLabelsRequest) -> ListLabelsResponse;
    get_label(GetLabelRequest) -> GetLabelResponse;
    create_label(CreateLabelRequest) -> CreateLabelResponse;
    update_label(UpdateLabelRequest) -> UpdateLabelResponse;
    delete_label(DeleteLabelRequest) -> DeleteLabelResponse;
    list_issue_labels(ListIssueLabelsRequest) -> ListIssueLabelsResponse;
    change_issue_labels(ChangeIssueLabelsRequest) -> ChangeIssueLabelsResponse;
});
