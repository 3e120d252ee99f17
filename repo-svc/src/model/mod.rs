//! Domain types and their validation. Parsers take the name of the field that a violation names.
//!
//! Not here: rows, messages, permissions.

mod account;
mod collaborator;
mod issue_tracker;
mod key;
mod name;
mod organization;
mod profile;
mod text;
mod token;
mod violations;
mod web_address;

pub(crate) use account::CheckedUser;
pub use account::{NewUser, User};
pub(crate) use collaborator::{level_named, parse_level};
pub(crate) use issue_tracker::{IssueTracker, IssueTrackerChange, TrackerStyle};
pub(crate) use key::{KeyTitle, SshKey};
pub(crate) use name::{RepoName, TokenName, lookup_key};
pub(crate) use organization::{CheckedOrganization, CheckedTeam, OrganizationChange, TeamChange};
pub(crate) use profile::{Location, Website};
pub(crate) use text::{Description, Email, FullName, Password, SearchText, Templates};
pub(crate) use token::{Expiry, RepositoryPath, TokenScopes};
pub(crate) use violations::Violations;
