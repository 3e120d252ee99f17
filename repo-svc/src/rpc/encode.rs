//! From domain values to messages.

use std::collections::HashMap;

use ferrite_kit::timestamp;
use ferrite_proto::repo;

use crate::access::Viewer;
use crate::model::User;
use crate::store::{Repository, RepositoryName, TokenRow};

/// A user as `viewer` sees it.
pub(super) fn user(user: User, viewer: &Viewer) -> repo::User {
    repo::User {
        id: user.id.0,
        username: user.username,
        full_name: user.full_name,
        email: shown(user.email, viewer),
        is_organization: user.is_organization,
        is_admin: user.is_admin,
    }
}

/// A repository as `viewer`, whom it was read for, sees it.
pub(super) fn repository(row: Repository, viewer: &Viewer) -> repo::Repository {
    let permission = row.level(viewer);
    let owner = repo::User {
        id: row.owner_id,
        username: row.owner_name,
        full_name: row.owner_full_name,
        email: shown(row.owner_email, viewer),
        is_organization: row.owner_kind == "organization",
        is_admin: row.owner_is_admin,
    };
    repo::Repository {
        id: row.id,
        owner: Some(owner),
        name: row.name,
        description: row.description,
        website: row.website,
        is_private: row.is_private,
        is_empty: row.is_empty,
        is_mirror: row.is_mirror,
        size_bytes: row.size_bytes,
        default_branch: row.default_branch,
        star_count: row.star_count,
        fork_count: row.fork_count,
        watcher_count: row.watcher_count,
        open_issue_count: row.open_issue_count,
        create_time: Some(timestamp(row.created_us)),
        update_time: Some(timestamp(row.updated_us)),
        permission: repo::Permission::from(permission).into(),
        parent: None,
        is_fork: false,
    }
}

/// A token as its owner sees it in lists, with the names of those of its repositories that are among `names`.
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
    }
}

fn shown(email: String, viewer: &Viewer) -> String {
    if viewer.sees_emails() { email } else { String::new() }
}
