//! `CreateRepository`: a new repository with a first commit from templates if the request asks for one.

use std::sync::Arc;

use ferrite_kit::idempotency::IdempotencyKey;
use ferrite_proto::git::{FirstCommit, Signature};
use ferrite_proto::id::UserId;
use ferrite_proto::repo::{AutoInit, CreateRepositoryRequest, CreateRepositoryResponse, Identity};
use ferrite_rest::links::Links;
use tonic::Request;

use super::super::lookup::{self, Owner};
use super::super::repeat;
use super::creation::Creation;
use crate::access::Capacity;
use crate::config::Config;
use crate::error::RepoError;
use crate::model::{Description, RepoName, Violations, check_templates};
use crate::rpc::permit::Permit;
use crate::state::AppState;
use crate::store::NewRepository;

/// Returns the account that will own the repository.
async fn owner(state: &AppState, permit: &Permit, name: &str) -> Result<Owner, RepoError> {
    match permit.capacity() {
        Capacity::Own => Ok(Owner::caller(permit)?),
        Capacity::Organization => {
            let organization = permit.organization(&state.organizations, name).await?;
            Ok(Owner { id: organization.id(), name: organization.name })
        }
        Capacity::Administrator => Ok(lookup::account(state, name).await?.into()),
    }
}

pub(super) async fn handle(
    state: &Arc<AppState>,
    permit: Permit,
    request: Request<CreateRepositoryRequest>,
) -> Result<CreateRepositoryResponse, RepoError> {
    let key = IdempotencyKey::of(&request, permit.user()?.0, "CreateRepository")?;
    let (caller, owner_name) = (permit.clone(), request.get_ref().owner.clone());
    let access = async { owner(state, &caller, &owner_name).await.map(drop) };
    let reader = &caller;
    let rebuild = |id: i64| async move {
        let repository = Some(repeat::read_repository(state, reader, id).await?);
        Ok(CreateRepositoryResponse { repository })
    };
    let work = async {
        let owner = owner(state, &permit, &request.get_ref().owner).await?;
        let (new, auto_init) = check(request.into_inner(), permit.user()?, &state.config)?;
        let author = permit.identity()?;
        state.creation_limit.count(author).await?;
        let new = NewRepository { store: state.stores.place().await?, ..new };
        let first_commit = auto_init.map(|init| first_commit(init, author, &owner, &new, &state.config));
        let respond = |repository| CreateRepositoryResponse { repository: Some(repository) };
        let creation = Creation { owner, new, first_commit, parent: None, key: key.clone(), respond };
        // A task of its own, because a cancelled request must not leave an unfinished repository.
        let task = state.life.spawn_for_request("create repository", creation.run(Arc::clone(state), permit));
        task.await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

/// Checks a request. Returns the repository to register, and the templates for its first commit.
fn check(
    request: CreateRepositoryRequest,
    creator: UserId,
    config: &Config,
) -> Result<(NewRepository, Option<AutoInit>), RepoError> {
    let mut violations = Violations::default();
    let name = violations.take(RepoName::parse(&request.name, "name"));
    let description = violations.take(Description::parse(&request.description, "description"));
    let auto_init = violations.take(request.auto_init.map(check_templates).transpose());
    let (Some(name), Some(description), Some(auto_init)) = (name, description, auto_init) else {
        return Err(violations.into_error());
    };
    let new = NewRepository {
        creator,
        name,
        description,
        is_private: request.is_private,
        default_branch: config.default_branch.clone(),
        // Chosen when nothing else is in the way.
        store: String::new(),
    };
    Ok((new, auto_init))
}

fn first_commit(init: AutoInit, author: &Identity, owner: &Owner, new: &NewRepository, config: &Config) -> FirstCommit {
    let name = if author.full_name.is_empty() { &author.username } else { &author.full_name };
    let links = Links::new(&config.site.public_url, &config.site.ssh).repository(&owner.name, new.name.as_str());
    FirstCommit {
        author: Some(Signature { name: name.clone(), email: author.email.clone() }),
        gitignores: init.gitignores,
        license: init.license,
        readme: init.readme,
        repository_name: new.name.as_str().to_owned(),
        repository_description: new.description.as_str().to_owned(),
        clone_url_http: links.clone_http(),
        clone_url_ssh: links.clone_ssh(),
        user_id: author.user_id,
    }
}
