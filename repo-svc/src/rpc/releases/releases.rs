//! Releases: their rows, their tags, and the event when they are published.

use std::collections::{BTreeSet, HashMap};

use ferrite_core::timestamp;
use ferrite_db::Tx;
use ferrite_db::idempotency::IdempotencyKey;
use ferrite_events as outbox;
use ferrite_proto::MAX_FACT_TEXT_BYTES;
use ferrite_proto::events::ReleasePublished;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::{
    self, CreateReleaseRequest, CreateReleaseResponse, DeleteReleaseRequest, DeleteReleaseResponse, GetReleaseRequest,
    GetReleaseResponse, GetTagUseRequest, GetTagUseResponse, ListReleasesRequest, ListReleasesResponse, RepositoryRef,
    UpdateReleaseRequest, UpdateReleaseResponse,
};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::version::{self, is_conditional};
use tonic::Request;

use super::assets::encode_asset;
use super::{find_visible, lock, lock_by_tag, lock_tags, sees_drafts, storage};
use crate::access::Viewer;
use crate::error::RepoError;
use crate::model::{ReleaseChange, ReleaseFields, User, Visibility};
use crate::rpc::authorized::Authorized;
use crate::rpc::{change, encode, lookup, repeat, versions};
use crate::state::AppState;
use crate::store::{Asset, Release, ReleaseFilter, ReleaseKey, Repository, TagClaim};

/// Subscribers to releases. Responses do not wait for them.
const SUBSCRIBERS: &[&str] = &["hook-svc"];

pub(super) async fn list_releases(
    state: &AppState,
    authorized: Authorized,
    request: Request<ListReleasesRequest>,
) -> Result<ListReleasesResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let page = lookup::page(request.page, request.page_size);
    let filter = ReleaseFilter {
        with_drafts: sees_drafts(&authorized, &repository),
        is_draft: request.is_draft,
        is_prerelease: request.is_prerelease,
    };
    let (rows, total_count) = state.releases.list(repository.id(), filter, page).await?;
    let mut assets: HashMap<i64, Vec<Asset>> = HashMap::with_capacity(rows.len());
    for asset in state.releases.assets(rows.iter().map(|row| row.id)).await? {
        assets.entry(asset.release_id).or_default().push(asset);
    }
    let encode = |row: Release| {
        let assets = assets.remove(&row.id).unwrap_or_default();
        encode_release(row, assets, authorized.viewer())
    };
    Ok(ListReleasesResponse { releases: rows.into_iter().map(encode).collect(), total_count })
}

pub(super) async fn get_release(
    state: &AppState,
    authorized: Authorized,
    request: Request<GetReleaseRequest>,
) -> Result<GetReleaseResponse, RepoError> {
    let request = request.into_inner();
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let key = match request.by {
        Some(By::ReleaseId(id)) => ReleaseKey::Id(id),
        // PostgreSQL rejects NUL, and no tag contains one.
        Some(By::TagName(name)) if name.contains('\0') => return Err(RepoError::ReleaseNotFound),
        Some(By::TagName(name)) => ReleaseKey::Tag(name),
        Some(By::IsLatest(true)) => ReleaseKey::Latest,
        Some(By::IsLatest(false)) | None => return Err(RepoError::field("by", "required", "is required")),
    };
    let release = find_visible(state, &authorized, &repository, &key).await?;
    let assets = state.releases.assets([release.id]).await?;
    let release = encode_release(release, assets, authorized.viewer());
    if version::is_asked() {
        version::tell(&versions::release(release.clone()));
    }
    Ok(GetReleaseResponse { release: Some(release) })
}

pub(super) async fn get_tag_use(
    state: &AppState,
    _: Authorized,
    request: Request<GetTagUseRequest>,
) -> Result<GetTagUseResponse, RepoError> {
    let GetTagUseRequest { repository_id, tag_name } = request.into_inner();
    let now_us = state.clock.now_us();
    let is_in_use = state.releases.is_tag_in_use(RepositoryId(repository_id), &tag_name, now_us).await?;
    Ok(GetTagUseResponse { is_in_use })
}

/// Creates a release. Unless it is a draft, the request claims the tag name and creates the tag
/// before the row. A crash in between leaves a tag without a release. A repeated request uses that
/// tag.
pub(super) async fn create_release(
    state: &AppState,
    authorized: Authorized,
    request: Request<CreateReleaseRequest>,
) -> Result<CreateReleaseResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "CreateRelease", |request| &mut request.repository)
            .await?;
    let (repository, reader) = (request.get_ref().repository.clone(), &authorized);
    let access = repeat::repository(state, reader, repository.clone());
    let rebuild = |id: i64| async move {
        let release = Some(read(state, reader, repository, id).await?);
        Ok(CreateReleaseResponse { release })
    };
    let work = async {
        // Runs in its own task: a cancelled request must still end its claim.
        let create = create(state.clone(), request.into_inner(), reader.clone(), key.clone());
        state.life.spawn_for_request("create release", create).await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn create(
    state: AppState,
    mut request: CreateReleaseRequest,
    authorized: Authorized,
    key: Option<IdempotencyKey>,
) -> Result<CreateReleaseResponse, RepoError> {
    let (state, authorized, key) = (&state, &authorized, key.as_ref());
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let fields = ReleaseFields::check(&request, &repository.default_branch)?;
    let (id, user) = (repository.id(), authorized.user()?);
    state.releases.check_tag_is_free(id, &fields.tag_name).await?;
    state.creation_limit.count(authorized.identity()?).await?;
    let (mut tx, _) = lock_tags(state, &repository, None, Some(&fields.tag_name)).await?;
    if fields.is_draft {
        return insert(state, authorized, key, tx, id, &fields).await;
    }
    state.releases.check_tag_is_free_for(&mut tx, id, None, &fields.tag_name).await?;
    state.releases.check_room(&mut tx, id).await?;
    let names = BTreeSet::from([fields.tag_name.clone()]);
    let claim = state.releases.claim(&mut tx, id, names, state.clock.now_us()).await?;
    tx.commit().await?;
    create_tag(state, user, &repository, &claim, &fields).await?;
    let outcome = async {
        let tx = end_claim(state, &repository, &claim).await?;
        insert(state, authorized, key, tx, id, &fields).await
    };
    let outcome = outcome.await;
    if outcome.is_err() {
        give_up(state, &claim).await;
    }
    outcome
}

/// Adds a release and commits. The repository must be locked.
async fn insert(
    state: &AppState,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
    mut tx: Tx,
    repository: RepositoryId,
    fields: &ReleaseFields,
) -> Result<CreateReleaseResponse, RepoError> {
    let now = state.clock.now_us();
    let release = state.releases.insert(&mut tx, repository, fields, authorized.user()?, now).await?;
    if !release.is_draft {
        publish(&mut tx, authorized, release.clone(), Vec::new(), now).await?;
    }
    let id = release.id;
    let response = CreateReleaseResponse { release: Some(encode_release(release, Vec::new(), authorized.viewer())) };
    let response = change::commit_with_subject(tx, key, response, &id, now).await?;
    state.relay.wake();
    Ok(response)
}

/// Changes a release. If the release becomes public or gets another tag, the request claims its tag
/// names and creates the tag before the row changes, so a request that loses creates no tag. If a
/// crash leaves a tag without its release, a repeated request uses that tag.
pub(super) async fn update_release(
    state: &AppState,
    authorized: Authorized,
    request: Request<UpdateReleaseRequest>,
) -> Result<UpdateReleaseResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "UpdateRelease", |request| &mut request.repository)
            .await?;
    let (repository, reader) = (request.get_ref().repository.clone(), &authorized);
    let access = repeat::repository(state, reader, repository.clone());
    let rebuild = |id: i64| async move {
        let release = Some(read(state, reader, repository, id).await?);
        Ok(UpdateReleaseResponse { release })
    };
    let work = async {
        // Runs in its own task: a cancelled request must still end its claim.
        let update = update(state.clone(), request.into_inner(), reader.clone(), key.clone());
        state.life.spawn_for_request("update release", update).await.unwrap_or(Err(RepoError::Interrupted))
    };
    repeat::once_or_rebuild(&state.db, key.as_ref(), access, rebuild, work).await
}

async fn update(
    state: AppState,
    mut request: UpdateReleaseRequest,
    authorized: Authorized,
    key: Option<IdempotencyKey>,
) -> Result<UpdateReleaseResponse, RepoError> {
    let (state, authorized, key) = (&state, &authorized, key.as_ref());
    let repository = authorized.repository(&state.repositories, request.repository.take()).await?;
    let (id, user) = (request.release_id, authorized.user()?);
    let wanted = ReleaseChange::check(&request)?;
    find_visible(state, authorized, &repository, &ReleaseKey::Id(id)).await?;
    let (mut tx, _, before) = lock(state, &repository, id, request.tag_name.as_deref()).await?;
    require_version(state, &mut tx, authorized, &before).await?;
    let after = wanted.apply(&before.fields());
    let is_tagged_anew = before.is_draft || after.tag_name != before.tag_name;
    if after.is_draft || !is_tagged_anew {
        return write(state, authorized, key, tx, &before, &after).await;
    }
    if after.tag_name != before.tag_name {
        state.releases.check_tag_is_free_for(&mut tx, repository.id(), Some(id), &after.tag_name).await?;
    }
    let names = BTreeSet::from([before.tag_name.clone(), after.tag_name.clone()]);
    let claim = state.releases.claim(&mut tx, repository.id(), names, state.clock.now_us()).await?;
    tx.commit().await?;
    create_tag(state, user, &repository, &claim, &after).await?;
    let outcome = write_tagged(state, authorized, key, &repository, &claim, &before, &wanted).await;
    if outcome.is_err() {
        give_up(state, &claim).await;
    }
    outcome
}

/// Creates the tag of a claim. If the store refuses, ends the claim. If the store's response is
/// unknown, the claim stays until it is old, because the tag may be created yet.
async fn create_tag(
    state: &AppState,
    user: UserId,
    repository: &Repository,
    claim: &TagClaim,
    fields: &ReleaseFields,
) -> Result<(), RepoError> {
    let made = storage::create_tag(state, user, repository, fields, claim.tag_deadline_us()).await;
    let Err(status) = made else { return Ok(()) };
    if storage::creates_no_tag(&status) {
        give_up(state, claim).await;
    }
    Err(storage::map_status(status))
}

/// Begins the transaction that ends a claim, and locks the repository. Fails with
/// [`RepoError::Interrupted`] if another request took over the claim.
async fn end_claim(state: &AppState, repository: &Repository, claim: &TagClaim) -> Result<Tx, RepoError> {
    let mut tx = state.db.begin().await?;
    state.repositories.lock(&mut tx, repository.id()).await?.ok_or(AuthError::RepositoryNotFound)?;
    if state.releases.end_claim(&mut tx, claim).await? { Ok(tx) } else { Err(RepoError::Interrupted) }
}

/// Changes a release whose tag was created, in the transaction that ends the claim. `before` is the
/// release as it was claimed.
async fn write_tagged(
    state: &AppState,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
    repository: &Repository,
    claim: &TagClaim,
    before: &Release,
    wanted: &ReleaseChange,
) -> Result<UpdateReleaseResponse, RepoError> {
    let mut tx = end_claim(state, repository, claim).await?;
    let release = state.releases.find_locked(&mut tx, repository.id(), &ReleaseKey::Id(before.id)).await?;
    let release = release.ok_or(RepoError::ReleaseNotFound)?;
    // The tag must match the row. Compare, because replicas of the previous version do not use
    // claims.
    let tagged = |row: &Release| (row.tag_name.clone(), row.target.clone(), row.is_draft);
    if tagged(&release) != tagged(before) {
        return Err(RepoError::Interrupted);
    }
    write(state, authorized, key, tx, &release, &wanted.apply(&release.fields())).await
}

/// Ends the claim of a failed request. If that fails too, the claim expires.
async fn give_up(state: &AppState, claim: &TagClaim) {
    let end = async {
        let mut tx = state.db.begin().await?;
        state.releases.end_claim(&mut tx, claim).await?;
        tx.commit().await
    };
    if let Err(error) = end.await {
        tracing::warn!(%error, "cannot end the claim of a tag name; it will expire");
    }
}

/// Changes a release and commits. The repository must be locked.
async fn write(
    state: &AppState,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
    mut tx: Tx,
    before: &Release,
    after: &ReleaseFields,
) -> Result<UpdateReleaseResponse, RepoError> {
    let (now, is_published) = (state.clock.now_us(), before.is_draft && !after.is_draft);
    let published_us = match (after.is_draft, is_published) {
        (true, _) => 0,
        (false, true) => now,
        (false, false) => before.published_us,
    };
    let assets = state.releases.assets_locked(&mut tx, before).await?;
    let release = state.releases.update(&mut tx, before, after, published_us).await?;
    if is_published {
        publish(&mut tx, authorized, release.clone(), assets.clone(), now).await?;
    }
    let response = UpdateReleaseResponse { release: Some(encode_release(release, assets, authorized.viewer())) };
    let response = change::commit_with_subject(tx, key, response, &before.id, now).await?;
    state.relay.wake();
    Ok(response)
}

pub(super) async fn delete_release(
    state: &AppState,
    authorized: Authorized,
    request: Request<DeleteReleaseRequest>,
) -> Result<DeleteReleaseResponse, RepoError> {
    let key =
        repeat::key_for_repository(state, &authorized, &request, "DeleteRelease", |request| &mut request.repository)
            .await?;
    let access = repeat::repository(state, &authorized, request.get_ref().repository.clone());
    repeat::once(&state.db, key.as_ref(), access, delete(state, request.into_inner(), &authorized, key.as_ref())).await
}

async fn delete(
    state: &AppState,
    request: DeleteReleaseRequest,
    authorized: &Authorized,
    key: Option<&IdempotencyKey>,
) -> Result<DeleteReleaseResponse, RepoError> {
    let repository = authorized.repository(&state.repositories, request.repository).await?;
    let (mut tx, owner, release) = match request.release_id {
        0 => lock_by_tag(state, &repository, request.tag_name).await?,
        id => lock(state, &repository, id, None).await?,
    };
    require_version(state, &mut tx, authorized, &release).await?;
    let bytes = state.releases.asset_bytes(&mut tx, &release).await?;
    let file_ids = state.releases.delete(&mut tx, &release).await?;
    state.quotas.release(&mut tx, owner, bytes).await?;
    let response = change::commit(tx, key, DeleteReleaseResponse {}, state.clock.now_us()).await?;
    storage::remove_files(state, repository.id(), &repository.store, file_ids).await;
    Ok(response)
}

/// The repository of the release must be locked.
async fn require_version(
    state: &AppState,
    tx: &mut Tx,
    authorized: &Authorized,
    release: &Release,
) -> Result<(), RepoError> {
    if is_conditional() {
        let assets = state.releases.assets_locked(tx, release).await?;
        tx.require_version(Some(&versioned(release, assets, authorized.viewer())))?;
    }
    Ok(())
}

/// The message from which the version of a release is computed.
fn versioned(release: &Release, assets: Vec<Asset>, viewer: &Viewer) -> repo::Release {
    versions::release(encode_release(release.clone(), assets, viewer))
}

/// Returns a release with its files, for a repeated write.
async fn read(
    state: &AppState,
    authorized: &Authorized,
    repository: Option<RepositoryRef>,
    id: i64,
) -> Result<repo::Release, RepoError> {
    let repository = authorized.repository_by_any_name(&state.repositories, repository).await?;
    let row = find_visible(state, authorized, &repository, &ReleaseKey::Id(id)).await?;
    let assets = state.releases.assets([id]).await?;
    Ok(encode_release(row, assets, authorized.viewer()))
}

/// Appends the `ReleasePublished` event in the transaction of the change.
async fn publish(
    tx: &mut Tx,
    authorized: &Authorized,
    mut release: Release,
    assets: Vec<Asset>,
    now_us: i64,
) -> Result<(), RepoError> {
    let repository = RepositoryId(release.repository_id);
    release.body.truncate(release.body.floor_char_boundary(MAX_FACT_TEXT_BYTES));
    let release = Some(encode_release(release, assets, authorized.viewer()));
    let fact = Fact::ReleasePublished(ReleasePublished { release, user_id: authorized.user()?.0 });
    Ok(outbox::append(tx, &outbox::event(repository, now_us, fact), SUBSCRIBERS, now_us).await?)
}

fn encode_release(row: Release, assets: Vec<Asset>, viewer: &Viewer) -> repo::Release {
    let author = author(&row).map(|author| encode::user(author, viewer));
    let assets = assets.into_iter().map(|asset| encode_asset(asset, &row)).collect();
    repo::Release {
        id: row.id,
        tag_name: row.tag_name,
        target: row.target,
        title: row.title,
        body: row.body,
        is_draft: row.is_draft,
        is_prerelease: row.is_prerelease,
        author,
        create_time: Some(timestamp(row.created_us)),
        publish_time: (row.published_us > 0).then(|| timestamp(row.published_us)),
        assets,
        is_truncated: row.is_truncated,
    }
}

fn author(row: &Release) -> Option<User> {
    Some(User {
        id: UserId(row.author_id?),
        username: row.author_name.clone()?,
        full_name: row.author_full_name.clone()?,
        email: row.author_email.clone()?,
        is_organization: false,
        is_admin: row.author_is_admin?,
        visibility: Visibility::Public,
    })
}
