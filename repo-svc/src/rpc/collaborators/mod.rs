//! The collaborators of a repository: users who were added to it, with a level each.

mod get_collaborator;
mod level_rule;
mod list_collaborators;
mod remove_collaborator;
mod set_collaborator;

use ferrite_proto::repo::collaborator_service_server::CollaboratorService;
use ferrite_proto::repo::*;

use super::dispatch::permitted_service;

permitted_service!(CollaboratorService {
    list_collaborators(ListCollaboratorsRequest) -> ListCollaboratorsResponse;
    get_collaborator(GetCollaboratorRequest) -> GetCollaboratorResponse;
    set_collaborator(SetCollaboratorRequest) -> SetCollaboratorResponse;
    remove_collaborator(RemoveCollaboratorRequest) -> RemoveCollaboratorResponse;
});
