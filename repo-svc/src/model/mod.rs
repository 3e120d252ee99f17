//! Domain types: what is valid is decided here, once. Parsers take the name of the field that a refusal is to name.
//!
//! Not here: rows, messages, permissions.

mod account;
mod collaborator;
mod key;
mod name;
mod organization;
mod profile;
mod text;
mod token;

pub(crate) use account::CheckedUser;
pub use account::{NewUser, User};
pub(crate) use collaborator::{level_named, parse_level};
pub(crate) use key::{KeyTitle, SshKey};
pub(crate) use name::{RepoName, TokenName, UserName, lookup_key};
pub(crate) use organization::{CheckedOrganization, CheckedTeam, OrganizationChange, TeamChange};
pub(crate) use profile::{Location, Website};
pub(crate) use text::{Description, Email, FullName, Password, SearchText, Templates};
pub(crate) use token::{Expiry, RepositoryPath, TokenScopes};

use ferrite_proto::error::FieldViolation;

use crate::RepoError;

/// Collects the refusals of several fields, so that a request hears of all of them at once.
#[derive(Debug, Default)]
pub(crate) struct Violations(Vec<FieldViolation>);

impl Violations {
    /// The value, or `None` after noting why there is none.
    pub(crate) fn take<T>(&mut self, parsed: Result<T, FieldViolation>) -> Option<T> {
        match parsed {
            Ok(value) => Some(value),
            Err(violation) => {
                self.0.push(violation);
                None
            }
        }
    }

    /// The refusal of the request.
    pub(crate) fn into_error(self) -> RepoError {
        RepoError::Invalid(self.0)
    }
}
