//! SQL and rows, one file per aggregate: the only module that names tables.
//!
//! Not here: validation (`model`) and the rules of access (`access`).

mod accounts;
mod audit;
mod avatars;
mod collaborators;
mod deploy_keys;
mod forks;
mod git_stores;
mod issue_repositories;
mod key_lookup;
mod keys;
mod organizations;
mod ownership;
mod profiles;
mod public_keys;
mod quotas;
mod release_assets;
mod releases;
mod repositories;
mod repository_links;
mod repository_lists;
mod repository_lookup;
mod repository_migrations;
mod repository_searches;
mod repository_settings;
mod repository_sizes;
mod search;
mod sign_in_addresses;
mod sql;
mod stars_and_watches;
mod teams;
mod tokens;
mod topics;
mod transfers;
mod users;
mod visibility;
mod wikis;

pub(crate) use accounts::{AccountQuery, AccountStore, AccountsFound, Login};
pub(crate) use audit::{Action, Actor, AuditFilter, AuditRow, AuditStore, Entry, Target, append};
pub(crate) use avatars::AvatarStore;
pub(crate) use collaborators::{Collaborator, CollaboratorStore};
pub(crate) use deploy_keys::{DeployKey, DeployKeyStore};
pub use git_stores::GitStore;
pub(crate) use git_stores::{FORMER_SUBSCRIBER, GitStoreTable, OpenStore, store_subscriber};
pub(crate) use issue_repositories::IssueRepository;
pub(crate) use key_lookup::{KeyHolder, key_holder};
pub(crate) use organizations::{MembershipFilter, Organization, OrganizationRole, OrganizationStore};
pub(crate) use ownership::{acts_for, viewer_of};
pub(crate) use profiles::{EmailRow, FollowDirection, ProfileStore, unverify_email, verify_email};
pub(crate) use public_keys::{NewPublicKey, PublicKeyRow, PublicKeyStore};
pub(crate) use quotas::{OwnLimits, OwnerLimits, OwnerQuota, QuotaRow, QuotaStore, UsageChanges, effective};
pub(crate) use release_assets::{Asset, AssetKey};
pub(crate) use releases::{Release, ReleaseKey, ReleaseStore};
pub(crate) use repositories::{CreatedOnDisk, NewRepository, Repository, RepositoryKey, RepositoryStore};
pub(crate) use repository_lists::RepositoryName;
pub(crate) use repository_migrations::{Migration, MigrationStore, NewMigration, Phase, Progress};
pub(crate) use repository_sizes::SizeChange;
pub(crate) use sign_in_addresses::SignInAddressStore;
pub(crate) use sql::or_missing;
pub(crate) use stars_and_watches::{Relation, RelationStore};
pub(crate) use teams::{Team, TeamStore};
pub(crate) use tokens::{NewToken, TokenRow, TokenStore};
pub(crate) use transfers::{TransferLimits, TransferRow, TransferStore};
pub(crate) use users::{UserRecord, change_user, delete_user, lock_administrators, lock_user, token_hashes};
pub(crate) use wikis::take_wiki_id;

use ferrite_kit::db::Migrations;

/// Returns the migrations of this service's schema.
pub(crate) fn migrations() -> Migrations {
    Migrations { postgres: sqlx::migrate!("migrations/postgres"), sqlite: sqlx::migrate!("migrations/sqlite") }
}

#[cfg(test)]
mod tests;
