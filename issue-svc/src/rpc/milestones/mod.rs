//! Milestones of repositories.

mod create_milestone;
mod delete_milestone;
mod get_milestone;
mod list_milestones;
mod update_milestone;

use ferrite_kit::service;
use ferrite_proto::issue::milestone_service_server::MilestoneService;
use ferrite_proto::issue::*;

use super::IssueRpc;

use self::create_milestone::create_milestone;
use self::delete_milestone::delete_milestone;
use self::get_milestone::get_milestone;
use self::list_milestones::list_milestones;
use self::update_milestone::update_milestone;

service!(MilestoneService for IssueRpc {
    list_milestones(ListMilestonesRequest) -> ListMilestonesResponse;
    get_milestone(GetMilestoneRequest) -> GetMilestoneResponse;
    create_milestone(CreateMilestoneRequest) -> CreateMilestoneResponse;
    update_milestone(UpdateMilestoneRequest) -> UpdateMilestoneResponse;
    delete_milestone(DeleteMilestoneRequest) -> DeleteMilestoneResponse;
});
