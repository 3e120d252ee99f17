//! SQL and rows, one file per aggregate: the only place that knows tables.
//!
//! Not here: what is valid (`model`) and who may (`access`).

mod accounts;
mod audit;
mod audit_log;
mod collaborators;
mod deploy_keys;
mod key_lookup;
mod keys;
mod memberships;
mod organizations;
mod profile;
mod public_keys;
mod repositories;
mod repository_lists;
mod search;
mod team_members;
mod teams;
mod tokens;
mod users;

pub(crate) use accounts::{AccountStore, Asked};
pub(crate) use audit::{Action, Actor, Entry, Target, append};
pub(crate) use audit_log::{AuditFilter, AuditRow, AuditStore};
pub(crate) use collaborators::{Collaborator, CollaboratorStore};
pub(crate) use deploy_keys::{DeployKey, DeployKeyStore};
pub(crate) use key_lookup::{KeyHolder, key_holder};
pub(crate) use keys::{KeyKind, claim_key, release_key, release_repository_keys};
pub(crate) use organizations::{Organization, OrganizationStore, Seen};
pub(crate) use profile::{EmailRow, Follows, ProfileStore};
pub(crate) use public_keys::{PublicKeyRow, PublicKeyStore};
pub(crate) use repositories::{Finished, NewRepository, Repository, RepositoryKey, RepositoryStore};
pub(crate) use repository_lists::RepositoryName;
pub(crate) use teams::{Team, TeamStore};
pub(crate) use tokens::{NewToken, TokenRow, TokenStore};
pub(crate) use users::{UserRecord, change_user, lock_administrators, lock_user, remove_user, token_hashes};

use ferrite_kit::db::{Migrations, Query};
use ferrite_proto::Permission;
use ferrite_proto::id::UserId;

/// The schema of this service.
pub(crate) fn migrations() -> Migrations {
    Migrations { postgres: sqlx::migrate!("migrations/postgres"), sqlite: sqlx::migrate!("migrations/sqlite") }
}

/// What a user is to an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nothing.
    Outsider,
    /// A member.
    Member,
    /// A member of the team of owners.
    Owner,
}

impl Standing {
    fn from_number(number: i32) -> Self {
        match number {
            2 => Self::Owner,
            1 => Self::Member,
            _ => Self::Outsider,
        }
    }
}

/// Adds to a query what `viewer` is to the organization whose id is `organization` there, as the number of a [`Standing`].
fn push_standing(query: &mut Query, organization: &'static str, viewer: Option<UserId>) {
    let viewer = viewer.map_or(0, |user| user.0);
    query
        .push(
            "CASE WHEN EXISTS (SELECT 1 FROM team_members m JOIN teams w ON w.id = m.team_id \
             WHERE w.level = 4 AND w.organization_id = ",
        )
        .push(organization)
        .push(" AND m.user_id = ")
        .bind(viewer)
        .push(") THEN 2 WHEN EXISTS (SELECT 1 FROM memberships m WHERE m.organization_id = ")
        .push(organization)
        .push(" AND m.user_id = ")
        .bind(viewer)
        .push(") THEN 1 ELSE 0 END AS standing");
}

/// The level that a number stands for where levels are stored as numbers; none for anything else.
fn level_of(number: Option<i64>) -> Permission {
    match number {
        Some(1) => Permission::Read,
        Some(2) => Permission::Write,
        Some(3) => Permission::Admin,
        Some(4) => Permission::Owner,
        _ => Permission::None,
    }
}

#[cfg(test)]
mod tests;
