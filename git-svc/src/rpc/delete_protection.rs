use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{DeleteProtectionRequest, DeleteProtectionResponse},
    id::RepositoryId,
};
use tonic::Request;

use crate::{app::App, error::GitError, failure::Failure};

/// Removes a rule.
pub(super) async fn delete_protection(
    app: &App,
    request: Request<DeleteProtectionRequest>,
) -> Result<DeleteProtectionResponse, Failure> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    app.authorize(&caller, request.repository_id).await?;
    let found = app.protection.table().delete(RepositoryId(request.repository_id), request.protection_id).await?;
    if found { Ok(DeleteProtectionResponse {}) } else { Err(GitError::ProtectionNotFound.into()) }
}
