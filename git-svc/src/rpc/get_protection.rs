use ferrite_proto::{
    git::{GetProtectionRequest, GetProtectionResponse},
    id::RepositoryId,
};
use tonic::Request;

use super::{authorize, encode};
use crate::{
    state::AppState,
    types::{error::GitError, protection::Rule, rpc_error::RpcError},
};

/// Returns one branch protection rule.
pub(super) async fn get_protection(
    state: &AppState,
    request: Request<GetProtectionRequest>,
) -> Result<GetProtectionResponse, RpcError> {
    let (request, id) = authorize(state, request, |request| request.repository_id).await?;
    let rule = named(state, id, request.protection_id, &request.pattern).await?;
    Ok(GetProtectionResponse { protection: Some(encode::protection(rule)) })
}

/// The rule with an id or, without one, with a pattern.
pub(super) async fn named(
    state: &AppState,
    repository: RepositoryId,
    id: i64,
    pattern: &str,
) -> Result<Rule, RpcError> {
    let rules = state.protection.rules(repository).await?;
    let is_named = |rule: &Rule| if id == 0 { rule.pattern.as_str() == pattern } else { rule.id == id };
    Ok(rules.into_vec().into_iter().find(is_named).ok_or(GitError::ProtectionNotFound)?)
}
