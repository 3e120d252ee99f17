//! SQL and rows, one file per aggregate. No other module names tables.

mod account_lists;
mod accounts;
mod audit;
mod avatars;
mod collaborators;
mod default_branches;
mod deploy_keys;
mod forks;
mod git_stores;
mod imports;
mod issue_repositories;
mod key_fingerprints;
mod key_lookup;
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
mod repository_searches;
mod repository_settings;
mod repository_sizes;
mod repository_teams;
mod reviewers;
mod search;
mod sessions;
mod sign_in_addresses;
mod sql;
mod stars_and_watches;
mod tag_claims;
mod teams;
mod tokens;
mod topics;
mod transfers;
mod users;
mod visibility;
mod wikis;

pub(crate) use account_lists::{AccountDetails, AccountFilter, AccountOrder, DetailedAccount};
pub(crate) use accounts::{AccountQuery, AccountTable, AccountsFound, Login};
pub(crate) use audit::{Action, Actor, AuditFilter, AuditRow, AuditTable, Entry, Target, append};
pub(crate) use avatars::AvatarTable;
pub(crate) use collaborators::{Collaborator, CollaboratorTable};
pub(crate) use default_branches::{HeadClaim, HeadOutcome};
pub(crate) use deploy_keys::{DeployKey, DeployKeyTable};
pub use git_stores::GitStore;
pub(crate) use git_stores::{FORMER_SUBSCRIBER, GitStoreTable, OpenStore, store_subscriber};
pub(crate) use imports::{Import, ImportTable, NewImport, Phase, Progress};
pub(crate) use issue_repositories::IssueRepository;
pub(crate) use key_lookup::{AddedKey, KeyHolder, key_holder};
pub(crate) use organizations::{Membership, MembershipFilter, Organization, OrganizationRole, OrganizationTable};
pub(crate) use ownership::{acts_for, creates_for, viewer_of};
pub(crate) use profiles::{EmailRow, FollowDirection, ProfileTable, set_primary_email, unverify_email, verify_email};
pub(crate) use public_keys::{NewPublicKey, PublicKeyRow, PublicKeyTable};
pub(crate) use quotas::{OwnLimits, OwnerLimits, OwnerQuota, QuotaRow, QuotaTable, UsageChanges, effective};
pub(crate) use release_assets::{Asset, AssetKey};
pub(crate) use releases::{Release, ReleaseFilter, ReleaseKey, ReleaseTable};
pub(crate) use repositories::{CreatedOnDisk, NewRepository, Repository, RepositoryKey, RepositoryTable};
pub(crate) use repository_lists::RepositoryName;
pub(crate) use repository_sizes::SizeChange;
pub(crate) use reviewers::Reviewer;
pub(crate) use sessions::{NewSession, SessionRow, SessionTable};
pub(crate) use sign_in_addresses::SignInAddressTable;
pub(crate) use sql::or_missing;
pub(crate) use stars_and_watches::{Relation, RelationTable};
pub(crate) use tag_claims::TagClaim;
pub(crate) use teams::{Team, TeamTable};
pub(crate) use tokens::{NewToken, TokenRow, TokenTable};
pub(crate) use transfers::{TransferLimits, TransferRow, TransferTable};
pub(crate) use users::{
    UserRecord, change_user, delete_user, lock_administrators, lock_own_user, lock_user, token_hashes, user_name,
};
pub(crate) use wikis::take_wiki_id;

use ferrite_db::Migrations;

pub(crate) fn migrations() -> Migrations {
    Migrations {
        postgres: sqlx_macros::migrate!("migrations/postgres"),
        sqlite: sqlx_macros::migrate!("migrations/sqlite"),
    }
}

#[cfg(test)]
mod tests;
