//! SQL and rows, one file per aggregate: the only module that names tables.
//!
//! Not here: validation (`model`) and the rules of access (`access`).

mod accounts;
mod audit;
mod audit_log;
mod collaborators;
mod deploy_keys;
mod issue_repositories;
mod issue_trackers;
mod key_lookup;
mod keys;
mod level;
mod memberships;
mod organization_role;
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
mod visibility;

pub(crate) use accounts::{AccountQuery, AccountStore};
pub(crate) use audit::{Action, Actor, Entry, Target, append};
pub(crate) use audit_log::{AuditFilter, AuditRow, AuditStore};
pub(crate) use collaborators::{Collaborator, CollaboratorStore};
pub(crate) use deploy_keys::{DeployKey, DeployKeyStore};
pub(crate) use issue_repositories::IssueRepository;
pub(crate) use key_lookup::{KeyHolder, key_holder};
pub(crate) use organization_role::OrganizationRole;
pub(crate) use organizations::{MembershipFilter, Organization, OrganizationStore};
pub(crate) use profile::{EmailRow, FollowDirection, ProfileStore};
pub(crate) use public_keys::{PublicKeyRow, PublicKeyStore};
pub(crate) use repositories::{CreatedOnDisk, NewRepository, Repository, RepositoryKey, RepositoryStore};
pub(crate) use repository_lists::RepositoryName;
pub(crate) use teams::{Team, TeamStore};
pub(crate) use tokens::{NewToken, TokenRow, TokenStore};
pub(crate) use users::{UserRecord, change_user, delete_user, lock_administrators, lock_user, token_hashes};

use ferrite_kit::db::Migrations;

/// Returns the migrations of this service's schema.
pub(crate) fn migrations() -> Migrations {
    Migrations { postgres: sqlx::migrate!("migrations/postgres"), sqlite: sqlx::migrate!("migrations/sqlite") }
}

#[cfg(test)]
mod tests;
