//! What a user may do in an organization. Gogs does not have it; the shape is Gitea's.

use ferrite_proto::repo::GetOrganizationPermissionsRequest;
use ferrite_proto::{Permission, operation};
use serde::Serialize;

use crate::api::call::{Authenticated, operations};
use crate::http::error::ApiResult;
use crate::http::path::Params;
use crate::http::response::Json;

operations! {
    "/api/v1/users/{username}/orgs/{org}/permissions" => get get as operation::GET_ORGANIZATION_PERMISSIONS;
}

ferrite_api_types::shape! {
    /// What a user may do in an organization, by the highest permission of their teams there.
    #[derive(Clone, Copy, Debug, Serialize)]
    struct OrganizationPermissions {
        is_owner: bool,
        /// Whether a team of the user has `admin`. True for owners, as all of these are.
        is_admin: bool,
        /// Whether a team of the user has `write`.
        can_write: bool,
        /// Whether the user is in a team.
        can_read: bool,
        can_create_repository: bool,
    }
}

impl OrganizationPermissions {
    fn new(permission: Permission, can_create_repository: bool) -> Self {
        Self {
            is_owner: permission >= Permission::Owner,
            is_admin: permission >= Permission::Admin,
            can_write: permission >= Permission::Write,
            can_read: permission >= Permission::Read,
            can_create_repository,
        }
    }
}

async fn get(Authenticated(call): Authenticated, path: Params) -> ApiResult<Json<OrganizationPermissions>> {
    let request = GetOrganizationPermissionsRequest { organization: path.name("org"), username: path.name("username") };
    let response = call.clients.organizations().get_organization_permissions(call.request(request)).await?.into_inner();
    let permission = Permission::from(response.permission());
    Ok(Json(OrganizationPermissions::new(permission, response.can_create_repository)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_permission_includes_those_below_it() {
        let shown = |permission, may_create| {
            serde_json::to_value(OrganizationPermissions::new(permission, may_create)).unwrap()
        };
        for (permission, [owner, admin, write, read]) in [
            (Permission::None, [false; 4]),
            (Permission::Read, [false, false, false, true]),
            (Permission::Write, [false, false, true, true]),
            (Permission::Admin, [false, true, true, true]),
            (Permission::Owner, [true; 4]),
        ] {
            let expected = json!({
                "is_owner": owner, "is_admin": admin, "can_write": write, "can_read": read,
                "can_create_repository": owner,
            });
            assert_eq!(shown(permission, owner), expected);
        }
    }
}
