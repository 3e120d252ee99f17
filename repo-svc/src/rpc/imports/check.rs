//! Checks the request of an import.

use ferrite_proto::id::UserId;
use ferrite_proto::repo::MigrateRepositoryRequest;

use crate::config::Config;
use crate::error::RepoError;
use crate::model::{CloneAddress, Description, GivenCredentials, RepoName, Violations, mirror_interval};
use crate::store::NewRepository;

pub(super) struct CheckedImport {
    pub(super) new: NewRepository,
    pub(super) address: CloneAddress,
    /// Seconds between syncs of a mirror; zero for a one-time import.
    pub(super) interval_secs: i64,
    pub(super) includes_wiki: bool,
}

/// Replaces the credentials of the remote with their fingerprints. A URL can contain them, and a
/// user can be a token. A token is the password of the address.
pub(super) fn hide_credentials(
    request: &mut MigrateRepositoryRequest,
    address: &CloneAddress,
    fingerprint: &dyn Fn(&str) -> String,
) {
    let hide = |text: &str| if text.is_empty() { String::new() } else { fingerprint(text) };
    request.clone_addr.clone_from(&address.url);
    request.auth_username = hide(&address.username);
    request.auth_password = hide(address.password.expose());
    request.auth_token.clear();
}

pub(super) fn check(
    request: &MigrateRepositoryRequest,
    config: &Config,
    creator: UserId,
) -> Result<CheckedImport, RepoError> {
    let (mut violations, policy) = (Violations::default(), config.outbound.policy());
    let (username, password, token) = (&request.auth_username, &request.auth_password, &request.auth_token);
    let given = GivenCredentials { username, password, token };
    let address = CloneAddress::parse(&request.clone_addr, given, &policy, &mut violations);
    let name = violations.take(RepoName::parse(&request.repo_name, "repo_name"));
    let description = violations.take(Description::parse_imported(&request.description, "description"));
    let interval = match request.is_mirror {
        true => violations.take(mirror_interval(request.mirror_interval_seconds)),
        false => Some(0),
    };
    let (Some(address), Some(name), Some(description), Some(interval_secs)) = (address, name, description, interval)
    else {
        return Err(violations.into_error());
    };
    let new = NewRepository {
        name,
        description,
        is_private: request.is_private,
        default_branch: config.default_branch.clone(),
        // Chosen after all other checks.
        store: String::new(),
        creator,
    };
    Ok(CheckedImport { new, address, interval_secs, includes_wiki: request.includes_wiki })
}
