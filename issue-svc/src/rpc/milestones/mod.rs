//! Milestones of repositories.

mod create_milestone;
mod delete_milestone;
mod get_milestone;
mod list_milestones;
mod update_milestone;

use ferrite_proto::issue::milestone_service_server::MilestoneService;
use ferrite_proto::issue::{
    CreateMilestoneRequest, CreateMilestoneResponse, DeleteMilestoneRequest, DeleteMilestoneResponse,
    GetMilestoneRequest, GetMilestoneResponse, ListMilestonesRequest, ListMilestonesResponse, UpdateMilestoneRequest,
    UpdateMilestoneResponse,
};
use tonic::{Request, Response, Status};

use super::{IssueRpc, dispatch};

dispatch! { MilestoneService {
    list_milestones(ListMilestonesRequest) -> ListMilestonesResponse;
    get_milestone(GetMilestoneRequest) -> GetMilestoneResponse;
    create_milestone(CreateMilestoneRequest) -> CreateMilestoneResponse;
    update_milestone(UpdateMilestoneRequest) -> UpdateMilestoneResponse;
    delete_milestone(DeleteMilestoneRequest) -> DeleteMilestoneResponse;
} }
