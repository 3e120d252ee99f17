use ferrite_kit::auth::TokenHash;
use ferrite_proto::repo::{CreateAccessTokenRequest, CreateAccessTokenResponse};
use rand::TryRngCore;
use rand::rngs::OsRng;
use tonic::Request;

use super::{encode, lookup};
use crate::RepoError;
use crate::core::Core;
use crate::credentials::Origin;
use crate::model::TokenName;

/// Takes no idempotency key: its answer holds the token, which is kept nowhere.
pub(super) async fn handle(
    core: &Core,
    request: Request<CreateAccessTokenRequest>,
) -> Result<CreateAccessTokenResponse, RepoError> {
    let origin = Origin::of(&request);
    let request = request.into_inner();
    let user = lookup::token_owner(core, request.credential, &origin, &request.username).await?;
    let name = TokenName::parse(&request.name, "name").map_err(|violation| RepoError::Invalid(vec![violation]))?;
    let value = new_token()?;
    let row = core.tokens.insert(user, &name, &TokenHash::of(&value), core.clock.now_us()).await?;
    let row = row.ok_or_else(|| RepoError::TokenExists(name.as_str().to_owned()))?;
    Ok(CreateAccessTokenResponse { token: Some(encode::token(row)), value })
}

/// 160 random bits of the system as 40 lower-case hexadecimal digits.
fn new_token() -> Result<String, RepoError> {
    let mut bytes = [0; 20];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| RepoError::Hashing(error.to_string()))?;
    Ok(hex::encode(bytes))
}
