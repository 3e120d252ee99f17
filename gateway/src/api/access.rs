//! What handlers ask repo-svc before, after, or instead of their own call.

use std::collections::BTreeSet;

use ferrite_proto::Permission;
use ferrite_proto::git::Commit;
use ferrite_proto::repo::{AuthenticateRequest, GetUsersRequest, Identity, ResolveAccessRequest};

use crate::auth::Call;
use crate::dto::{Accounts, present};
use crate::error::ApiError;
use crate::links::RepositoryLinks;
use crate::path::RepoPath;
use crate::state::Gateway;

/// Ids or addresses of one lookup.
const LOOKUP: usize = 1000;
/// Longer ones belong to nobody.
const MAX_EMAIL_BYTES: usize = 254;

/// A repository that the caller may see.
pub(crate) struct Access {
    pub(crate) id: i64,
    pub(crate) grant: String,
    pub(crate) permission: Permission,
    pub(crate) urls: RepositoryLinks,
}

impl Access {
    /// Refuses callers below a level before their request is looked at any further. The service behind checks again.
    pub(crate) fn require(&self, needed: Permission) -> Result<(), ApiError> {
        if self.permission >= needed {
            return Ok(());
        }
        Err(ApiError::new(axum::http::StatusCode::FORBIDDEN, format!("{needed} permission is required")))
    }
}

/// Addresses of authors and committers, each once.
pub(crate) struct Emails(BTreeSet<String>);

impl Emails {
    /// Those in `commits` that an account may have.
    pub(crate) fn of<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Self {
        let is_sane =
            |email: &&str| (1..=MAX_EMAIL_BYTES).contains(&email.len()) && !email.chars().any(char::is_control);
        let signatures = commits.into_iter().flat_map(|commit| [&commit.author, &commit.committer]).flatten();
        let emails = signatures.filter_map(|signature| std::str::from_utf8(&signature.email).ok()).filter(is_sane);
        Self(emails.map(str::to_owned).collect())
    }
}

impl Gateway {
    /// The repository of a path, as the caller may see it.
    pub(crate) async fn access(&self, call: &Call, path: &RepoPath) -> Result<Access, ApiError> {
        let Some(repository) = path.repository() else {
            return Err(self.refusal(call, ApiError::repository_not_found()).await);
        };
        let request = call.request(ResolveAccessRequest { repository: Some(repository), basic: None });
        let answer = self.clients.access().resolve_access(request).await?.into_inner();
        let repository = present(answer.repository, "repository")?;
        let permission = Permission::from(repository.permission());
        let owner = present(repository.owner, "owner")?;
        Ok(Access {
            id: repository.id,
            grant: answer.grant,
            permission,
            urls: self.links.repository(&owner.username, &repository.name),
        })
    }

    /// Who the caller's token belongs to.
    pub(crate) async fn identity(&self, call: &Call) -> Result<Identity, ApiError> {
        let token = call.token().ok_or_else(ApiError::credentials_required)?.expose().to_owned();
        let answer = self.clients.access().authenticate(call.bare(AuthenticateRequest { token })).await?.into_inner();
        Ok(present(answer.identity, "identity")?)
    }

    /// What to refuse a request with when `error` was found before anybody checked its token: a bad token comes first.
    pub(crate) async fn refusal(&self, call: &Call, error: ApiError) -> ApiError {
        if call.is_anonymous() {
            return error;
        }
        match self.identity(call).await {
            Ok(_) => error,
            Err(first) => first,
        }
    }

    /// The accounts with the given ids.
    pub(crate) async fn accounts_by_id(
        &self,
        call: &Call,
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<Accounts, ApiError> {
        let ids: Vec<_> = ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let requests = ids.chunks(LOOKUP).map(|ids| GetUsersRequest { user_ids: ids.to_vec(), ..Default::default() });
        self.accounts(call, requests).await
    }

    /// The accounts with the given verified addresses.
    pub(crate) async fn accounts_by_email(&self, call: &Call, emails: Emails) -> Result<Accounts, ApiError> {
        let emails: Vec<_> = emails.0.into_iter().collect();
        let requests =
            emails.chunks(LOOKUP).map(|emails| GetUsersRequest { emails: emails.to_vec(), ..Default::default() });
        self.accounts(call, requests).await
    }

    async fn accounts(
        &self,
        call: &Call,
        requests: impl Iterator<Item = GetUsersRequest>,
    ) -> Result<Accounts, ApiError> {
        let mut accounts = Accounts::default();
        for request in requests {
            let found = self.clients.accounts().get_users(call.request(request)).await?.into_inner();
            accounts.add(found, &self.links);
        }
        Ok(accounts)
    }
}
