mod access;
mod accounts;
mod activity_access;
mod administration;
mod avatars;
mod collaborators;
mod conditional;
mod default_branches;
mod deploy_keys;
mod events;
mod feed_access;
mod forks;
mod imports;
mod issue_access;
mod issue_reach;
mod issue_tracker;
mod keys;
mod limits;
mod lists;
mod lost_rights;
mod many_repositories;
mod organization_lists;
mod organizations;
mod profile;
mod pulls;
mod quotas;
mod reauthorization;
mod releases;
mod repositories;
mod repository_settings;
mod repository_teams;
mod reviewers;
mod sessions;
mod ssh;
mod stars;
mod stores;
mod tag_claims;
mod teams;
mod tokens;
mod transfers;
mod user_settings;
mod wikis;
mod write_limits;

use ferrite_proto::error::reason;
use ferrite_proto::repo::{RepositoryRef, ResolveAccessRequest};
use tonic::{Code, Status};

/// The code and reason of an error.
fn refusal<T: std::fmt::Debug>(response: Result<T, Status>) -> (Code, String) {
    let status = response.unwrap_err();
    (status.code(), reason(&status).unwrap_or_default())
}

fn refused(code: Code, reason: &str) -> (Code, String) {
    (code, reason.to_owned())
}

fn by_id(id: i64) -> Option<RepositoryRef> {
    Some(RepositoryRef::by_id(id))
}

fn by_name(owner: &str, name: &str) -> Option<RepositoryRef> {
    Some(RepositoryRef::by_name(owner, name))
}

fn of_demo(operation: &str) -> ResolveAccessRequest {
    ResolveAccessRequest {
        repository: by_name("ada", "demo"),
        operation: operation.to_owned(),
        ..ResolveAccessRequest::default()
    }
}
