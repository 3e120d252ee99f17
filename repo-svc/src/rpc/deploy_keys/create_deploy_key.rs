use ferrite_kit::auth::AuthError;
use ferrite_kit::idempotency::{IdempotencyKey, once};
use ferrite_proto::repo::{CreateDeployKeyRequest, CreateDeployKeyResponse};
use tonic::Request;

use super::super::change;
use super::encoded;
use crate::RepoError;
use crate::access::Permit;
use crate::core::Core;
use crate::model::{KeyTitle, SshKey, Violations};
use crate::store::{Action, Target};

pub(super) async fn handle(
    core: &Core,
    permit: Permit,
    request: Request<CreateDeployKeyRequest>,
) -> Result<CreateDeployKeyResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateDeployKey")?;
    once(&core.db, key.as_ref(), create(core, request.into_inner(), &permit, key.as_ref())).await
}

fn check(request: &CreateDeployKeyRequest) -> Result<(KeyTitle, SshKey), RepoError> {
    let mut violations = Violations::default();
    let title = violations.take(KeyTitle::parse(&request.title, "title"));
    let key = violations.take(SshKey::parse(&request.key, "key"));
    title.zip(key).ok_or_else(|| violations.into_error())
}

async fn create(
    core: &Core,
    mut request: CreateDeployKeyRequest,
    permit: &Permit,
    key: Option<&IdempotencyKey>,
) -> Result<CreateDeployKeyResponse, RepoError> {
    let repository = permit.repository(core, request.repository.take()).await?;
    let (title, ssh_key) = check(&request)?;
    core.count_creation(permit.identity()?).await?;
    let now = core.clock.now_us();
    let mut tx = core.db.begin().await?;
    core.repositories.turn(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    let row = core.deploy_keys.insert(&mut tx, repository.id(), (&title, &ssh_key), !request.can_write, now).await?;
    let details = [
        ("fingerprint", row.fingerprint.clone()),
        ("title", row.title.clone()),
        ("read_only", row.is_read_only.to_string()),
    ];
    change::record(&mut tx, permit, Action::DeployKeyAdd, Target::repository(&repository), &details, now).await?;
    change::commit(tx, key, CreateDeployKeyResponse { key: Some(encoded(row)) }, now).await
}
