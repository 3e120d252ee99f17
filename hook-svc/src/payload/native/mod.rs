//! Native payloads, one function for each event. They return compact JSON, whose keys are in the order of Gogs.
//!
//! Values are those after the change: the texts, counts and times of an issue, the state of the repository. An account that does not
//! exist any more, and a deploy key, are the user `ghost`.

mod issues;
mod refs;
mod repository;
#[cfg(test)]
mod tests;

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::{Links, RepositoryLinks};
use ferrite_api_types::{Accounts, Repository, User, Viewer};
use ferrite_proto::repo;

pub(crate) use issues::{issue_comment, issues};
pub(crate) use refs::{PushEvent, create, delete, ping, push, site_ping};
pub(crate) use repository::{fork, release, repository};

/// A payload in compact JSON.
type Payload = Result<String, super::PayloadError>;

/// The repository and the sender, which every payload has, and the accounts that its parts name.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    repository: Repository,
    default_branch: String,
    sender: User,
    urls: RepositoryLinks,
    accounts: &'a Accounts,
}

impl<'a> Context<'a> {
    /// Makes the context of an event. `sender_id` is zero for a sender without an account.
    ///
    /// # Errors
    /// When the repository lacks its owner or a time.
    pub(crate) fn new(
        repository: repo::Repository,
        sender_id: i64,
        accounts: &'a Accounts,
        links: &Links,
    ) -> Result<Self, MissingField> {
        let owner = repository.owner.as_ref().map(|owner| owner.username.as_str()).unwrap_or_default();
        let urls = links.repository(owner, &repository.name);
        let default_branch = repository.default_branch.clone();
        let mut repository = Repository::new(repository, Viewer::Authenticated, links)?;
        repository.hide_permissions();
        Ok(Self { default_branch, repository, sender: accounts.by_id(sender_id, links), urls, accounts })
    }
}
