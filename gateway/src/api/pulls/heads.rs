//! Names of heads: `branch`, `owner:branch` and `owner/repo:branch`.

use axum::http::StatusCode;
use ferrite_api_types::convert::require;
use ferrite_proto::operation;
use ferrite_proto::repo::{GetForkRequest, GetRepositoryRequest, Repository, RepositoryRef};

use crate::api::access::ResolvedAccess;
use crate::api::call::ApiCall;
use crate::http::error::{ApiError, ApiResult};

/// A head as clients name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeadName<'a> {
    /// The owner of a repository of the same family.
    owner: Option<&'a str>,
    /// The name of the repository; `None` for the one of the family.
    repository: Option<&'a str>,
    pub(super) branch: &'a str,
}

impl<'a> HeadName<'a> {
    /// The head of a new pull request, which is a branch of the same family.
    pub(super) fn of_family(text: &'a str) -> Self {
        // No name of a branch has a colon.
        match text.split_once(':') {
            Some((owner, branch)) => Self { owner: Some(owner), repository: None, branch },
            None => Self { owner: None, repository: None, branch: text },
        }
    }

    /// The head of a pull request to find, whose repository can have a name as well.
    pub(super) fn parse(text: &'a str) -> Self {
        let name = Self::of_family(text);
        match name.owner.and_then(|owner| owner.split_once('/')) {
            Some((owner, repository)) => Self { owner: Some(owner), repository: Some(repository), ..name },
            None => name,
        }
    }

    /// Returns the id of the repository. 404 if the caller does not see it.
    pub(super) async fn repository_id(self, call: &ApiCall, access: &ResolvedAccess) -> ApiResult<i64> {
        let Some(owner) = self.owner else { return Ok(access.id) };
        let found = match self.repository {
            Some(name) => named(call, RepositoryRef::by_name(owner, name)).await,
            None => of_owner(call, access, owner).await,
        };
        Ok(require(found.map_err(head_error)?, "repository")?.id)
    }
}

async fn of_owner(call: &ApiCall, access: &ResolvedAccess, owner: &str) -> ApiResult<Option<Repository>> {
    let repository = Some(RepositoryRef::by_id(access.id));
    let request = call.request(GetForkRequest { repository, owner: owner.to_owned() });
    Ok(call.clients.repositories().get_fork(request).await?.into_inner().repository)
}

async fn named(call: &ApiCall, repository: RepositoryRef) -> ApiResult<Option<Repository>> {
    let request = call.request(GetRepositoryRequest { repository: Some(repository) });
    Ok(call.clients.repositories().get_repository(request).await?.into_inner().repository)
}

/// Returns the access to read the branch of a head.
pub(super) async fn head_access(call: &ApiCall, repository_id: i64) -> ApiResult<ResolvedAccess> {
    call.resolve(RepositoryRef::by_id(repository_id), operation::GET_BRANCH).await.map_err(head_error)
}

/// Says of which repository a 404 is. It also drops a redirect, which would be one of the base.
fn head_error(error: ApiError) -> ApiError {
    match error.status {
        StatusCode::NOT_FOUND => {
            ApiError::not_found("the repository of the head does not exist").because("REPOSITORY_NOT_FOUND")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_may_name_its_owner_and_its_repository() {
        for (text, owner, repository, branch) in [
            ("topic", None, None, "topic"),
            ("feature/one", None, None, "feature/one"),
            ("bob:feature/one", Some("bob"), None, "feature/one"),
            ("bob/demo:feature/one", Some("bob"), Some("demo"), "feature/one"),
            ("bob:a:b", Some("bob"), None, "a:b"),
            (":topic", Some(""), None, "topic"),
            ("bob:", Some("bob"), None, ""),
        ] {
            assert_eq!(HeadName::parse(text), HeadName { owner, repository, branch }, "{text}");
        }
        let expected = HeadName { owner: Some("bob/demo"), repository: None, branch: "topic" };
        assert_eq!(HeadName::of_family("bob/demo:topic"), expected);
    }
}
