use ferrite_api_types::convert::{MissingField, require};
use ferrite_api_types::links::Links;
use ferrite_api_types::{Permissions, User};
use ferrite_proto::repo::{
    self, GetCollaboratorPermissionRequest, GetCollaboratorRequest, ListAssigneesRequest, ListCollaboratorsRequest,
    RemoveCollaboratorRequest, SetCollaboratorRequest,
};
use ferrite_proto::{Permission, operation};
use serde::Serialize;

use crate::api::call::{Authenticated, MaybeAuthenticated, operations};
use crate::http::error::ApiResult;
use crate::http::page::WholeList;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{NonEmpty, RequestBody, Text, fields};
use crate::http::response::{Json, List, NoContent};
use crate::http::routes::variant;

operations! {
    "/api/v1/repos/{owner}/{repo}/collaborators" => get list as operation::LIST_COLLABORATORS;
    "/api/v1/repos/{owner}/{repo}/collaborators/{collaborator}" =>
        get get as operation::GET_COLLABORATOR,
        put set as operation::SET_COLLABORATOR,
        delete remove as operation::REMOVE_COLLABORATOR;
    "/api/v1/repos/{owner}/{repo}/collaborators/{collaborator}/permission" =>
        get permission as operation::GET_COLLABORATOR_PERMISSION;
    "/api/v1/repos/{owner}/{repo}/assignees" => get assignees as operation::LIST_ASSIGNEES;
    "/api/v1/repos/{owner}/{repo}/reviewers" => get assignees as variant(operation::LIST_ASSIGNEES, "Reviewers");
}

ferrite_api_types::shape! {
    /// A collaborator of a repository, with their permissions.
    #[derive(Clone, Debug, Serialize)]
    struct Collaborator {
        #[serde(flatten)]
        user: User,
        permissions: Permissions,
    }
}

impl Collaborator {
    fn new(collaborator: repo::Collaborator, links: &Links) -> Result<Self, MissingField> {
        let permissions = Permission::from(collaborator.permission()).into();
        Ok(Self { user: User::new(require(collaborator.user, "user")?, links), permissions })
    }
}

ferrite_api_types::shape! {
    /// The permission of a user on a repository.
    #[derive(Clone, Debug, Serialize)]
    struct UserPermission {
        /// The permission: `none`, `read`, `write`, `admin` or `owner`.
        permission: String,
        /// The same as `permission`.
        role_name: String,
        user: User,
    }
}

fields! {
    /// The permission of a collaborator.
    struct NewCollaborator {
        permission: NonEmpty<Text> = "write",
    }
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: WholeList) -> ApiResult<List<Collaborator>> {
    let repository = Some(path.repository());
    let request = ListCollaboratorsRequest { repository, page: query.page.number, page_size: query.page.size };
    let response = call.clients.collaborators().list_collaborators(call.request(request)).await?.into_inner();
    let collaborators =
        response.collaborators.into_iter().map(|collaborator| Collaborator::new(collaborator, &call.links));
    let collaborators = collaborators.collect::<Result<Vec<_>, _>>()?;
    Ok(query.list(collaborators, response.total_count, &call.links))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request = GetCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    call.clients.collaborators().get_collaborator(call.request(request)).await?;
    Ok(NoContent)
}

async fn permission(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
) -> ApiResult<Json<UserPermission>> {
    let (repository, username) = (Some(path.repository()), params.name("collaborator"));
    let request = call.request(GetCollaboratorPermissionRequest { repository, username });
    let response = call.clients.collaborators().get_collaborator_permission(request).await?.into_inner();
    let permission = Permission::from(response.permission()).to_string();
    let user = call.user(require(response.user, "user")?);
    Ok(Json(UserPermission { role_name: permission.clone(), permission, user }))
}

/// The lists of users who can be assigned, and of those who can be asked for a review.
async fn assignees(
    MaybeAuthenticated(call): MaybeAuthenticated,
    path: RepoPath,
    query: WholeList,
) -> ApiResult<List<User>> {
    let repository = Some(path.repository());
    let request = ListAssigneesRequest { repository, page: query.page.number, page_size: query.page.size };
    let response = call.clients.collaborators().list_assignees(call.request(request)).await?.into_inner();
    Ok(query.list(call.users(response.users), response.total_count, &call.links))
}

async fn set(
    Authenticated(call): Authenticated,
    path: RepoPath,
    params: Params,
    body: RequestBody<NewCollaborator>,
) -> ApiResult<NoContent> {
    let (repository, NewCollaborator { permission }, _permit) =
        call.repository_body(&path, operation::SET_COLLABORATOR, body).await?;
    let (repository, username) = (Some(repository), params.name("collaborator"));
    let request = call.request(SetCollaboratorRequest { repository, username, permission });
    call.clients.collaborators().set_collaborator(request).await?;
    Ok(NoContent)
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult<NoContent> {
    let request =
        RemoveCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    call.clients.collaborators().remove_collaborator(call.request(request)).await?;
    Ok(NoContent)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_collaborator_is_a_user_with_permissions() {
        let links = Links::new("http://h", "h:22");
        let message = repo::Collaborator {
            user: Some(repo::User { id: 3, username: "bob".into(), ..Default::default() }),
            permission: repo::Permission::Write.into(),
        };
        let expected = json!({
            "id": 3, "username": "bob", "login": "bob", "full_name": "", "email": "bob@noreply.h",
            "avatar_url": "http://h/avatars/3", "visibility": "public",
            "permissions": {"admin": false, "push": true, "pull": true},
        });
        assert_eq!(serde_json::to_value(Collaborator::new(message, &links).unwrap()).unwrap(), expected);
    }
}
