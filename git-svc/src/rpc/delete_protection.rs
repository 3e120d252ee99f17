use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{DeleteProtectionRequest, DeleteProtectionResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::get_protection;
use crate::{app::App, error::GitError, failure::Failure};

/// Removes a rule.
pub(super) async fn delete_protection(
    app: &App,
    request: Request<DeleteProtectionRequest>,
) -> Result<DeleteProtectionResponse, Failure> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    app.authorize(&caller, request.repository_id).await?;
    let id = RepositoryId(request.repository_id);
    let rule = get_protection::named(app, id, request.protection_id, &request.pattern).await?;
    let found = app.protection.table().delete(id, rule.id).await?;
    if found { Ok(DeleteProtectionResponse {}) } else { Err(GitError::ProtectionNotFound.into()) }
}
