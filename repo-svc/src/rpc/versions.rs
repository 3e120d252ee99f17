//! The messages of which versions of resources are computed, where those are not what reads return. They leave out what depends on the
//! viewer, and what is changed by others than the requests to change the resource: counts, sizes, and the accounts that are shown.
//!
//! Not here: telling and checking versions, which each RPC does.

use ferrite_core::timestamp;
use ferrite_proto::id::{PublicKeyId, UserId};
use ferrite_proto::repo;

use super::encode;
use crate::store::{EmailRow, Membership, Repository, TransferRow};

/// Returns that of a repository: its settings, its topics and its owner. A mirror's state is the store's.
pub(super) fn repository(row: &Repository) -> repo::Repository {
    repo::Repository {
        owner: Some(account(UserId(row.owner_id))),
        is_empty: false,
        size_bytes: 0,
        star_count: 0,
        fork_count: 0,
        watcher_count: 0,
        open_issue_count: 0,
        update_time: None,
        mirror: None,
        store: String::new(),
        ..encode::repository_snapshot(row.clone())
    }
}

/// Returns that of a release: all but its author, with its files.
pub(super) fn release(shown: repo::Release) -> repo::Release {
    let assets = shown.assets.into_iter().map(asset).collect();
    repo::Release { author: None, assets, ..shown }
}

/// Returns that of a file of a release: all but the number of downloads.
pub(super) fn asset(shown: repo::ReleaseAsset) -> repo::ReleaseAsset {
    repo::ReleaseAsset { download_count: 0, ..shown }
}

/// Returns that of a membership, which is what a read returns of it without the user.
pub(super) fn membership(row: Membership) -> repo::GetMembershipResponse {
    let role = if row.is_owner { repo::MembershipRole::Admin } else { repo::MembershipRole::Member };
    repo::GetMembershipResponse { role: role.into(), is_public: row.is_public, user: None }
}

/// Returns that of a quota: its limits.
pub(super) fn quota(shown: repo::Quota) -> repo::Quota {
    let limit = |usage: Option<repo::QuotaUsage>| usage.map(|usage| repo::QuotaUsage { used: 0, ..usage });
    repo::Quota {
        repositories: limit(shown.repositories),
        bytes: limit(shown.bytes),
        organizations: limit(shown.organizations),
        ..shown
    }
}

/// Returns that of a transfer: its accounts, and when it began.
pub(super) fn transfer(row: &TransferRow) -> repo::Transfer {
    repo::Transfer {
        new_owner: Some(account(row.new_owner())),
        user: Some(account(row.user())),
        create_time: Some(timestamp(row.created_us)),
        ..repo::Transfer::default()
    }
}

/// Returns that of a public key, of which nothing else changes.
pub(super) fn public_key(id: PublicKeyId, title: &str, fingerprint: &str) -> repo::PublicKey {
    repo::PublicKey {
        id: id.0,
        title: title.to_owned(),
        fingerprint: fingerprint.to_owned(),
        ..repo::PublicKey::default()
    }
}

/// Returns that of the e-mail addresses of an account, which are all of them.
pub(super) fn emails(all: Vec<EmailRow>) -> repo::ListEmailsResponse {
    repo::ListEmailsResponse { emails: all.into_iter().map(encode::email).collect(), total_count: 0 }
}

fn account(id: UserId) -> repo::User {
    repo::User { id: id.0, ..repo::User::default() }
}
