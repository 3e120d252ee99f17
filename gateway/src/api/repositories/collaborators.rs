//! Collaborators of a repository.

use ferrite_proto::operation;
use ferrite_proto::repo::{
    GetCollaboratorRequest, ListCollaboratorsRequest, RemoveCollaboratorRequest, SetCollaboratorRequest,
};

use crate::api::call::{Authenticated, routes};
use crate::dto::Collaborator;
use crate::http::body::JsonBody;
use crate::http::error::ApiResult;
use crate::http::fields::FieldReader;
use crate::http::json;
use crate::http::page::PageLimits;
use crate::http::path::{Params, RepoPath};
use crate::http::query::Query;

routes! {
    "/api/v1/repos/{owner}/{repo}/collaborators" => get list as operation::LIST_COLLABORATORS;
    "/api/v1/repos/{owner}/{repo}/collaborators/{collaborator}" =>
        get get as operation::GET_COLLABORATOR,
        put set as operation::SET_COLLABORATOR,
        delete remove as operation::REMOVE_COLLABORATOR;
}

async fn list(Authenticated(call): Authenticated, path: RepoPath, query: Query) -> ApiResult {
    let page = query.page(PageLimits::WHOLE_LIST);
    let request =
        ListCollaboratorsRequest { repository: Some(path.repository()), page: page.number, page_size: page.size };
    let response = call.clients.collaborators().list_collaborators(call.request(request)).await?.into_inner();
    let collaborators =
        response.collaborators.into_iter().map(|collaborator| Collaborator::new(collaborator, &call.links));
    let collaborators = collaborators.collect::<Result<Vec<_>, _>>()?;
    Ok(json::page(collaborators, query.headers(page, response.total_count, &call.links)))
}

async fn get(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request = GetCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    call.clients.collaborators().get_collaborator(call.request(request)).await?;
    Ok(json::no_content())
}

async fn set(Authenticated(call): Authenticated, path: RepoPath, params: Params, body: JsonBody) -> ApiResult {
    let permission = |fields: &mut FieldReader| fields.optional_text("permission");
    let (repository, permission) =
        call.decode_repository_body(&path, operation::SET_COLLABORATOR, body, permission).await?;
    let (repository, username) = (Some(repository), params.name("collaborator"));
    let request = call.request(SetCollaboratorRequest { repository, username, permission });
    call.clients.collaborators().set_collaborator(request).await?;
    Ok(json::no_content())
}

async fn remove(Authenticated(call): Authenticated, path: RepoPath, params: Params) -> ApiResult {
    let request =
        RemoveCollaboratorRequest { repository: Some(path.repository()), username: params.name("collaborator") };
    call.clients.collaborators().remove_collaborator(call.request(request)).await?;
    Ok(json::no_content())
}
