//! Converts rows and domain values to protobuf messages. Forks include their parent if the viewer
//! can see it.

use std::collections::{BTreeSet, HashMap};

use ferrite_core::timestamp;
use ferrite_db::DbError;
use ferrite_proto::Permission;
use ferrite_proto::repo;

use crate::access::Viewer;
use crate::model::{PullSettings, User};
use crate::store::{
    Collaborator, DeployKey, EmailRow, Organization, OwnerLimits, PublicKeyRow, QuotaRow, Repository, RepositoryName,
    RepositoryTable, Team, TokenRow,
};

pub(super) fn user(user: User, viewer: &Viewer) -> repo::User {
    repo::User {
        id: user.id.0,
        username: user.username,
        full_name: user.full_name,
        email: visible_email(user.email, viewer),
        is_organization: user.is_organization,
        is_admin: user.is_admin,
        details: None,
        visibility: repo::Visibility::from(user.visibility).into(),
        profile: None,
    }
}

pub(super) fn users(rows: Vec<User>, viewer: &Viewer) -> Vec<repo::User> {
    rows.into_iter().map(|row| user(row, viewer)).collect()
}

/// Encodes the authenticated user, who sees the whole account.
pub(super) fn identity(identity: &repo::Identity) -> repo::User {
    repo::User {
        id: identity.user_id,
        username: identity.username.clone(),
        full_name: identity.full_name.clone(),
        email: identity.email.clone(),
        is_organization: false,
        is_admin: identity.is_admin,
        details: None,
        visibility: repo::Visibility::Public.into(),
        profile: None,
    }
}

/// The row must have been read for `viewer`.
pub(super) fn repository(row: Repository, viewer: &Viewer) -> repo::Repository {
    let permission = repo::Permission::from(row.level(viewer)).into();
    let is_administrator = row.level(viewer) >= Permission::Admin;
    let original_url = if is_administrator { row.original_url.clone() } else { String::new() };
    let mut repository = repo::Repository { permission, original_url, ..repository_snapshot(row) };
    if let Some(mirror) = repository.mirror.as_mut().filter(|_| !is_administrator) {
        *mirror = repo::MirrorState { interval_seconds: mirror.interval_seconds, ..Default::default() };
    }
    if let Some(owner) = &mut repository.owner {
        owner.email = visible_email(std::mem::take(&mut owner.email), viewer);
    }
    repository
}

/// The row must have been read for `viewer`, with its parent.
pub(super) fn repository_with_parent(row: Repository, viewer: &Viewer) -> repo::Repository {
    let parent = parent(&row, viewer);
    repo::Repository { parent, ..repository(row, viewer) }
}

/// Returns `None` if there is no parent or the viewer cannot see it.
pub(super) fn parent(row: &Repository, viewer: &Viewer) -> Option<Box<repo::Repository>> {
    row.parent.as_deref().and_then(|parent| readable_parent(parent, viewer))
}

/// The rows must have been read for `viewer`. Reads the parents of all forks with one query.
pub(super) async fn repositories(
    store: &RepositoryTable,
    rows: Vec<Repository>,
    viewer: &Viewer,
) -> Result<Vec<repo::Repository>, DbError> {
    let ids: BTreeSet<i64> = rows.iter().filter_map(|row| row.parent_id).collect();
    let ids: Vec<i64> = ids.into_iter().collect();
    let found = if ids.is_empty() { Vec::new() } else { store.find_many_visible(&ids, viewer).await? };
    let parents: HashMap<i64, Repository> = found.into_iter().map(|row| (row.id, row)).collect();
    let encoded = rows.into_iter().map(|row| {
        let parent = row.parent_id.and_then(|id| parents.get(&id)).and_then(|parent| readable_parent(parent, viewer));
        repo::Repository { parent, ..repository(row, viewer) }
    });
    Ok(encoded.collect())
}

fn readable_parent(parent: &Repository, viewer: &Viewer) -> Option<Box<repo::Repository>> {
    (parent.level(viewer) >= Permission::Read).then(|| Box::new(repository(parent.clone(), viewer)))
}

/// Encodes a repository for other services: with the owner's address, without a permission and the
/// address of an import.
pub(super) fn repository_snapshot(row: Repository) -> repo::Repository {
    let (has_issues, has_wiki) = (row.has_issues(), row.has_wiki());
    let (mirror, external_tracker) = (mirror_state(&row), external_tracker(&row));
    let owner_visibility = repo::Visibility::from(row.owner_visibility()).into();
    let owner = repo::User {
        id: row.owner_id,
        username: row.owner_name,
        full_name: row.owner_full_name,
        email: row.owner_email,
        is_organization: row.owner_kind == "organization",
        is_admin: row.owner_is_admin,
        details: None,
        visibility: owner_visibility,
        profile: None,
    };
    repo::Repository {
        id: row.id,
        owner: Some(owner),
        name: row.name,
        description: row.description,
        website: row.website,
        is_private: row.is_private,
        is_empty: row.is_empty,
        language: row.language,
        is_mirror: row.is_mirror,
        size_bytes: row.size_bytes,
        default_branch: row.default_branch,
        star_count: row.star_count,
        fork_count: row.fork_count,
        watcher_count: row.watcher_count,
        open_issue_count: row.open_issue_count,
        open_pull_count: row.open_pull_count,
        release_count: row.release_count,
        archive_time: (row.archived_us > 0).then(|| timestamp(row.archived_us)),
        original_url: String::new(),
        create_time: Some(timestamp(row.created_us)),
        update_time: Some(timestamp(row.updated_us)),
        permission: repo::Permission::Unspecified.into(),
        parent: None,
        is_fork: row.parent_id.is_some(),
        is_archived: row.is_archived,
        has_issues,
        has_wiki,
        external_tracker,
        external_wiki_url: if row.is_external_wiki { row.external_wiki_url } else { String::new() },
        topics: row.topics.split(',').filter(|topic| !topic.is_empty()).map(str::to_owned).collect(),
        mirror,
        store: row.store,
        owner_visibility,
        pulls: Some(pull_settings(row.pulls)),
    }
}

fn pull_settings(settings: PullSettings) -> repo::PullSettings {
    repo::PullSettings {
        has_pulls: settings.has_pulls,
        allow_merge: settings.allow_merge,
        allow_rebase: settings.allow_rebase,
        allow_rebase_merge: settings.allow_rebase_merge,
        allow_squash: settings.allow_squash,
        allow_fast_forward_only: settings.allow_fast_forward_only,
        allow_rebase_update: settings.allow_rebase_update,
        delete_branch_after_merge: settings.delete_branch_after_merge,
        detects_manual_merges: settings.detects_manual_merges,
        allow_manual_merge: settings.allow_manual_merge,
        default_style: settings.default_merge_style,
    }
}

fn mirror_state(row: &Repository) -> Option<repo::MirrorState> {
    let time = |us: i64| (us > 0).then(|| timestamp(us));
    row.is_mirror.then(|| repo::MirrorState {
        interval_seconds: row.mirror_interval_secs,
        last_sync_time: time(row.mirror_last_sync_us),
        next_sync_time: time(row.mirror_next_sync_us),
        last_error: row.mirror_error.clone(),
    })
}

fn external_tracker(row: &Repository) -> Option<repo::ExternalTracker> {
    row.is_external_tracker.then(|| repo::ExternalTracker {
        url: row.external_tracker_url.clone(),
        url_format: row.tracker_url_format.clone(),
        is_alphanumeric: row.tracker_issue_style == "alphanumeric",
    })
}

/// Encodes a token for its owner. Leaves out repositories that are not in `names`.
pub(super) fn token(row: TokenRow, names: &HashMap<i64, RepositoryName>) -> repo::AccessToken {
    let only = row.only();
    let known = only.iter().flatten().filter_map(|id| names.get(id));
    repo::AccessToken {
        id: row.id,
        scopes: row.scopes().to_proto(),
        expire_time: (row.expire_us > 0).then(|| timestamp(row.expire_us)),
        last_use_time: (row.last_use_us > 0).then(|| timestamp(row.last_use_us)),
        is_limited: only.is_some(),
        repositories: known.map(RepositoryName::full).collect(),
        create_time: Some(timestamp(row.created_us)),
        name: row.name,
        digest: row.digest,
        last_eight: row.last_eight,
    }
}

pub(super) fn organization(row: Organization) -> repo::Organization {
    let visibility = repo::Visibility::from(row.visibility()).into();
    repo::Organization {
        id: row.id,
        username: row.name,
        full_name: row.full_name,
        description: row.description,
        website: row.website,
        location: row.location,
        visibility,
        repository_admins_change_teams: row.admins_change_teams,
    }
}

pub(super) fn team(row: Team) -> repo::Team {
    repo::Team {
        id: row.id,
        permission: repo::Permission::from(row.permission()).into(),
        name: row.name.clone(),
        description: row.description.clone(),
        organization_id: row.organization_id,
        includes_all_repositories: row.includes_all_repositories(),
        can_create_repositories: row.can_create_repositories(),
        organization: Some(organization(row.into_organization())),
    }
}

pub(super) fn collaborator(collaborator: Collaborator, viewer: &Viewer) -> repo::Collaborator {
    repo::Collaborator {
        user: Some(user(collaborator.user, viewer)),
        permission: repo::Permission::from(collaborator.permission).into(),
    }
}

pub(super) fn deploy_key(key: DeployKey) -> repo::DeployKey {
    repo::DeployKey {
        id: key.id,
        key: key.content,
        title: key.title,
        fingerprint: key.fingerprint,
        is_read_only: key.is_read_only,
        create_time: Some(timestamp(key.created_us)),
    }
}

pub(super) fn public_key(row: PublicKeyRow, owner: repo::User) -> repo::PublicKey {
    let token = row.token_id.map(|id| repo::KeyToken { id, name: row.token_name.unwrap_or_default() });
    repo::PublicKey {
        id: row.id,
        key: row.content,
        title: row.title,
        fingerprint: row.fingerprint,
        create_time: Some(timestamp(row.created_us)),
        token,
        user: Some(owner),
    }
}

/// Addresses are never confirmed by mail. Only those that an administrator set or verified count as
/// verified.
pub(super) fn email(row: EmailRow) -> repo::Email {
    repo::Email { email: row.email, is_verified: row.is_verified, is_primary: row.is_primary }
}

/// Returns `None` if there is no limit.
pub(super) fn byte_quota(row: QuotaRow, site: OwnerLimits) -> Option<repo::ByteQuota> {
    row.max_bytes(site).map(|limit_bytes| repo::ByteQuota { used_bytes: row.used_bytes(), limit_bytes })
}

/// Returns an empty string if `viewer` may not see the address.
fn visible_email(email: String, viewer: &Viewer) -> String {
    if viewer.sees_emails() { email } else { String::new() }
}
