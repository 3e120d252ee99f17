//! Domain types and their validation. Parsers take the name of the request field, for violations.

/// Adds accessors to a newtype of a checked text. `$fold` is how such texts are folded to compare
/// and find them.
macro_rules! checked_text {
    ($name:ident) => {
        impl $name {
            pub(crate) fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
    ($name:ident, $fold:ident) => {
        checked_text!($name);

        impl $name {
            /// Returns the folded text, to compare and find it.
            pub(crate) fn key(&self) -> String {
                self.0.$fold()
            }
        }
    };
}

mod account;
mod avatar;
mod clone_address;
mod collaborator;
mod git_store;
mod issue_tracker;
mod key;
mod name;
mod organization;
mod profile;
mod pull_settings;
mod release;
mod repository_search;
mod repository_settings;
mod search_text;
mod text;
mod token;
mod topic;
mod violations;
mod visibility;
mod web_address;
mod wiki;

pub(crate) use account::CheckedUser;
pub use account::{NewUser, User};
pub(crate) use avatar::Avatar;
pub(crate) use clone_address::{CloneAddress, GivenCredentials, mirror_interval};
pub(crate) use collaborator::{level_named, parse_level};
pub(crate) use git_store::{DEFAULT_STORE_WEIGHT, check_store_weight, parse_store_name};
pub(crate) use issue_tracker::{IssueTracker, IssueTrackerChange, TrackerStyle};
pub(crate) use key::{SshKey, parse_titled_key};
pub(crate) use name::{RepoName, Title, lookup_key};
pub use name::{may_be_account_name, may_be_repository_name};
pub(crate) use organization::{CheckedOrganization, CheckedTeam, OrganizationChange, TeamChange};
pub(crate) use profile::{parse_location, parse_user_website};
pub(crate) use pull_settings::PullSettings;
pub(crate) use release::{AssetName, NewAsset, ReleaseChange, ReleaseFields};
pub(crate) use repository_search::RepositorySearch;
pub(crate) use repository_settings::{Feature, RepositoryChange, RepositorySettings, parse_new_branch};
pub(crate) use search_text::SearchText;
pub(crate) use text::{Description, Email, FullName, Password, check_length, check_templates, refuse_nul};
pub(crate) use token::{RepositoryPath, parse_expiry, parse_scopes};
pub(crate) use topic::{Topic, Topics};
pub(crate) use violations::Violations;
pub(crate) use visibility::Visibility;
pub(crate) use wiki::{WikiChange, WikiSettings};

pub(crate) fn changed_fields<const N: usize>(fields: [(&'static str, bool); N]) -> Vec<&'static str> {
    fields.into_iter().filter(|(_, is_changed)| *is_changed).map(|(name, _)| name).collect()
}
