use ferrite_kit::auth::Caller;
use ferrite_proto::{
    git::{GetProtectionRequest, GetProtectionResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::encode;
use crate::{app::App, error::GitError, failure::Failure};

/// Returns one rule.
pub(super) async fn get_protection(
    app: &App,
    request: Request<GetProtectionRequest>,
) -> Result<GetProtectionResponse, Failure> {
    let caller = Caller::of(&request);
    let request = request.into_inner();
    app.authorize(&caller, request.repository_id).await?;
    let rules = app.protection.rules(RepositoryId(request.repository_id)).await?;
    let rule = rules.into_vec().into_iter().find(|rule| rule.id == request.protection_id);
    let rule = rule.ok_or(GitError::ProtectionNotFound)?;
    Ok(GetProtectionResponse { protection: Some(encode::protection(rule)) })
}
