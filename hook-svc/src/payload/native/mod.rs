//! Native payloads, one function per event. They return compact JSON with the keys in the order of
//! Gogs.
//!
//! Values are those after the change, such as the text of an issue or the state of the repository.
//! Deleted accounts and deploy keys appear as the user `ghost`.

mod issues;
mod pulls;
mod refs;
mod repository;
mod status;
#[cfg(test)]
mod tests;

use ferrite_api_types::convert::MissingField;
use ferrite_api_types::links::{Links, RepositoryLinks};
use ferrite_api_types::{Accounts, Repository, User, Viewer};
use ferrite_proto::repo;

pub(crate) use issues::{issue_comment, issues};
pub(crate) use pulls::{pull_request, pull_review};
pub(crate) use refs::{PushEvent, create, delete, ping, push, site_ping};
pub(crate) use repository::{fork, release, repository};
pub(crate) use status::status;

type Payload = Result<String, super::PayloadError>;

/// The repository and the sender, which are in every payload, and all accounts that the payload
/// mentions.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    repository: Repository,
    default_branch: String,
    /// The owner of the repository, if it is an organization.
    organization: Option<User>,
    sender: User,
    urls: RepositoryLinks,
    accounts: &'a Accounts,
}

impl<'a> Context<'a> {
    /// Creates the context of an event. `sender_id` is zero for a sender without an account. Fails
    /// if the repository lacks its owner or a time.
    pub(crate) fn new(
        repository: repo::Repository,
        sender_id: i64,
        accounts: &'a Accounts,
        links: &Links,
    ) -> Result<Self, MissingField> {
        let owner = repository.owner.as_ref().map(|owner| owner.username.as_str()).unwrap_or_default();
        let urls = links.repository(owner, &repository.name);
        let default_branch = repository.default_branch.clone();
        let organization = repository.owner.clone().filter(|owner| owner.is_organization);
        let organization = organization.map(|owner| User::new(owner, links));
        let mut repository = Repository::new(repository, Viewer::Authenticated, links)?;
        repository.hide_permissions();
        let sender = accounts.by_id(sender_id, links);
        Ok(Self { default_branch, organization, repository, sender, urls, accounts })
    }
}
