//! Who else may use a repository.

mod get_collaborator;
mod list_collaborators;
mod remove_collaborator;
mod set_collaborator;

use ferrite_kit::auth::AuthError;
use ferrite_proto::Permission;
use ferrite_proto::repo::collaborator_service_server::CollaboratorService;
use ferrite_proto::repo::{
    self, GetCollaboratorRequest, GetCollaboratorResponse, ListCollaboratorsRequest, ListCollaboratorsResponse,
    RemoveCollaboratorRequest, RemoveCollaboratorResponse, SetCollaboratorRequest, SetCollaboratorResponse,
};

use super::{encode, service};
use crate::access::Viewer;
use crate::store::Collaborator;

/// The field that refusals of the user name.
const USER: &str = "collaborator";

service!(CollaboratorService {
    list_collaborators(ListCollaboratorsRequest) -> ListCollaboratorsResponse;
    get_collaborator(GetCollaboratorRequest) -> GetCollaboratorResponse;
    set_collaborator(SetCollaboratorRequest) -> SetCollaboratorResponse;
    remove_collaborator(RemoveCollaboratorRequest) -> RemoveCollaboratorResponse;
});

fn encoded(collaborator: Collaborator, viewer: &Viewer) -> repo::Collaborator {
    repo::Collaborator {
        user: Some(encode::user(collaborator.user, viewer)),
        permission: repo::Permission::from(collaborator.permission).into(),
    }
}

/// Nobody gives more than it has, and nobody changes or removes somebody who was given more than that.
fn require_at_most(own: Permission, levels: [Permission; 2]) -> Result<(), AuthError> {
    match levels.into_iter().max() {
        Some(needed) if needed > own => Err(AuthError::PermissionRequired { needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gives_or_takes_what_it_has_not() {
        use Permission::{Admin, None, Owner, Read, Write};
        for own in [None, Read, Write, Admin, Owner] {
            for current in [None, Read, Write, Admin, Owner] {
                for wanted in [None, Read, Write, Admin, Owner] {
                    let may = require_at_most(own, [current, wanted]).is_ok();
                    assert_eq!(may, current <= own && wanted <= own, "{own} {current} {wanted}");
                }
            }
        }
    }
}
