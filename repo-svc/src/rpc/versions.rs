//! The messages from which resource versions are computed, where they differ from what reads
//! return. They leave out what depends on the viewer and what changes without a request to change
//! the resource: counts, sizes, and the accounts shown.

use ferrite_core::timestamp;
use ferrite_proto::id::{PublicKeyId, UserId};
use ferrite_proto::repo;

use super::encode;
use crate::store::{EmailRow, Membership, Repository, TransferRow};

/// Settings, topics, owner and the state of a mirror. The times in that state keep an old version
/// from coming back if the store tells an old interval just after a change of it.
pub(super) fn repository(row: &Repository) -> repo::Repository {
    repo::Repository {
        owner: Some(account(UserId(row.owner_id))),
        is_empty: false,
        language: String::new(),
        size_bytes: 0,
        star_count: 0,
        fork_count: 0,
        watcher_count: 0,
        open_issue_count: 0,
        open_pull_count: 0,
        release_count: 0,
        archive_time: None,
        update_time: None,
        store: String::new(),
        owner_visibility: repo::Visibility::Unspecified.into(),
        ..encode::repository_snapshot(row.clone())
    }
}

/// Everything except the author, with the files.
pub(super) fn release(shown: repo::Release) -> repo::Release {
    let assets = shown.assets.into_iter().map(asset).collect();
    repo::Release { author: None, assets, ..shown }
}

/// Everything except the download count.
pub(super) fn asset(shown: repo::ReleaseAsset) -> repo::ReleaseAsset {
    repo::ReleaseAsset { download_count: 0, ..shown }
}

/// Everything except the fields of the organization.
pub(super) fn team(shown: repo::Team) -> repo::Team {
    repo::Team { organization: None, ..shown }
}

/// Everything except the user.
pub(super) fn membership(row: Membership) -> repo::GetMembershipResponse {
    let role = if row.is_owner { repo::MembershipRole::Admin } else { repo::MembershipRole::Member };
    repo::GetMembershipResponse { role: role.into(), is_public: row.is_public, user: None }
}

/// The limits.
pub(super) fn quota(shown: repo::Quota) -> repo::Quota {
    let limit = |usage: Option<repo::QuotaUsage>| usage.map(|usage| repo::QuotaUsage { used: 0, ..usage });
    repo::Quota {
        repositories: limit(shown.repositories),
        bytes: limit(shown.bytes),
        organizations: limit(shown.organizations),
        ..shown
    }
}

/// The accounts and the start time.
pub(super) fn transfer(row: &TransferRow) -> repo::Transfer {
    repo::Transfer {
        new_owner: Some(account(row.new_owner())),
        user: Some(account(row.user())),
        create_time: Some(timestamp(row.created_us)),
        ..repo::Transfer::default()
    }
}

/// Nothing else of a public key changes.
pub(super) fn public_key(id: PublicKeyId, title: &str, fingerprint: &str) -> repo::PublicKey {
    repo::PublicKey {
        id: id.0,
        title: title.to_owned(),
        fingerprint: fingerprint.to_owned(),
        ..repo::PublicKey::default()
    }
}

/// All addresses of the account.
pub(super) fn emails(all: Vec<EmailRow>) -> repo::ListEmailsResponse {
    repo::ListEmailsResponse { emails: all.into_iter().map(encode::email).collect(), total_count: 0 }
}

/// The account alone: a member of a team, or an owner.
pub(super) fn account(id: UserId) -> repo::User {
    repo::User { id: id.0, ..repo::User::default() }
}
