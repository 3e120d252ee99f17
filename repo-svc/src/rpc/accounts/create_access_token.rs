//! `CreateAccessToken`: a token with scopes, expiry and repositories; its text is in the response and nowhere else.

use std::collections::HashMap;

use ferrite_kit::auth::TokenHash;
use ferrite_kit::timestamp;
use ferrite_proto::Scope;
use ferrite_proto::error::FieldViolation;
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo::{CreateAccessTokenRequest, CreateAccessTokenResponse};
use rand::TryRngCore;
use rand::rngs::OsRng;
use tonic::Request;

use super::super::{encode, lookup};
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{RepositoryPath, Title, Violations, parse_expiry, parse_scopes};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::{Action, Entry, NewToken, RepositoryName, Target, TokenRow, append};

/// Takes no idempotency key: the response contains the token, which must not be stored.
pub(super) async fn handle(
    state: &AppState,
    permit: Permit,
    request: Request<CreateAccessTokenRequest>,
) -> Result<CreateAccessTokenResponse, RepoError> {
    let mut request = request.into_inner();
    let owner =
        lookup::token_owner(state, request.credential.take(), permit.client_address(), &request.username).await?;
    let (new, names) = check(state, &request, &Viewer::of(Some(owner.identity()))).await?;
    state.creation_limit.count(owner.identity()).await?;
    let value = new_token()?;
    let now = state.clock.now_us();
    let mut tx = state.db.begin().await?;
    owner.confirm(state, &mut tx).await?;
    let row = state.tokens.insert(&mut tx, owner.id(), &new, &TokenHash::of(&value), now).await?;
    let row = row.ok_or_else(|| RepoError::TokenExists(new.name.as_str().to_owned()))?;
    let entry = Entry {
        actor: &permit.actor_as(owner.identity()),
        action: Action::TokenCreate,
        target: Target::user(owner.id(), &owner.identity().username),
        details: &details(&row),
    };
    append(&mut tx, entry, now).await?;
    tx.commit().await?;
    Ok(CreateAccessTokenResponse { token: Some(encode::token(row, &names)), value })
}

/// Checks a request. Returns the token to create and the names of the repositories that it is limited to.
async fn check(
    state: &AppState,
    request: &CreateAccessTokenRequest,
    viewer: &Viewer,
) -> Result<(NewToken, HashMap<i64, RepositoryName>), RepoError> {
    let mut violations = Violations::default();
    let expire = request.expire_time.as_ref().map(|time| (time.seconds, time.nanos));
    let name = violations.take(Title::parse(&request.name, "name"));
    let is_limited = !request.repositories.is_empty();
    let scopes = violations.take(parse_scopes(&request.scopes, is_limited, "scopes"));
    let expire_us = violations.take(parse_expiry(expire, state.clock.now_us(), "expires_at"));
    let found = violations.take(find(state, &request.repositories, viewer).await?);
    let (Some(name), Some(scopes), Some(expire_us), Some(found)) = (name, scopes, expire_us, found) else {
        return Err(violations.into_error());
    };
    let ids = found.iter().map(|row| RepositoryId(row.id)).collect();
    let only = if found.is_empty() { None } else { Some(ids) };
    let names = found.into_iter().map(|row| (row.id, row)).collect();
    Ok((NewToken { name, scopes, expire_us, only }, names))
}

/// Finds repositories by path, in the order of `texts`. Missing and hidden ones give the same violation.
async fn find(
    state: &AppState,
    texts: &[String],
    viewer: &Viewer,
) -> Result<Result<Vec<RepositoryName>, FieldViolation>, RepoError> {
    let paths = match RepositoryPath::parse_all(texts, "repositories") {
        Ok(paths) if paths.is_empty() => return Ok(Ok(Vec::new())),
        Ok(paths) => paths,
        Err(violation) => return Ok(Err(violation)),
    };
    let rows = state.repositories.find_paths(&paths, viewer).await?;
    let mut by_key: HashMap<String, RepositoryName> = rows.into_iter().map(|row| (row.key(), row)).collect();
    Ok(paths
        .iter()
        .map(|path| by_key.remove(&path.key()).ok_or_else(|| RepositoryPath::missing(&path.key(), "repositories")))
        .collect())
}

/// Returns the details of a new token for the audit log.
fn details(row: &TokenRow) -> [(&'static str, String); 4] {
    let scopes: Vec<_> = row.scopes().iter().map(Scope::as_str).collect();
    let expires = if row.expire_us > 0 { timestamp(row.expire_us).to_string() } else { "never".to_owned() };
    let repositories = row.only().map_or_else(|| "all".to_owned(), |only| only.len().to_string());
    [("name", row.name.clone()), ("scopes", scopes.join(" ")), ("expires", expires), ("repositories", repositories)]
}

/// Returns 160 random bits from the operating system as 40 lower-case hexadecimal digits.
fn new_token() -> Result<String, RepoError> {
    let mut bytes = [0; 20];
    OsRng.try_fill_bytes(&mut bytes).map_err(|error| RepoError::Hashing(error.to_string()))?;
    Ok(hex::encode(bytes))
}
