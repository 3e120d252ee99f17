//! What handlers ask repo-svc before, after, or instead of their own call.

use std::collections::BTreeSet;

use ferrite_proto::Permission;
use ferrite_proto::git::Commit;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{
    self, AuthenticateRequest, CheckAccessRequest, GetRepositoryRequest, GetUsersRequest, Identity, RepositoryRef,
    ResolveAccessRequest,
};

use crate::auth::Call;
use crate::dto::{Accounts, User, present};
use crate::http::body::{Fields, JSON_BYTES, Payload};
use crate::http::error::ApiError;
use crate::http::links::RepositoryLinks;
use crate::http::path::RepoPath;
use crate::state::Gateway;

/// Ids or addresses of one lookup.
const LOOKUP: usize = 1000;
/// Longer ones belong to nobody.
const MAX_EMAIL_BYTES: usize = 254;

/// A repository to which the caller may do what it asked for.
pub(crate) struct Access {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) grant: String,
    pub(crate) permission: Permission,
    pub(crate) urls: RepositoryLinks,
}

/// What a request was about to do when a mistake was found in it.
pub(crate) struct Attempt(CheckAccessRequest);

impl Attempt {
    /// One of [`super::operation`].
    pub(crate) fn of(operation: &str) -> Self {
        Self(CheckAccessRequest { operation: operation.to_owned(), as_administrator: false, target: None })
    }

    pub(crate) fn by_administrator(mut self, as_administrator: bool) -> Self {
        self.0.as_administrator = as_administrator;
        self
    }

    pub(crate) fn on_repository(mut self, repository: RepositoryRef) -> Self {
        self.0.target = Some(Target::Repository(repository));
        self
    }

    pub(crate) fn on_organization(mut self, name: &str) -> Self {
        self.0.target = Some(Target::Organization(name.to_owned()));
        self
    }

    pub(crate) fn on_team(mut self, id: i64) -> Self {
        self.0.target = Some(Target::TeamId(id));
        self
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
    /// The repository of a path, when the caller may do `operation` to it: one of [`ferrite_proto::operation`].
    pub(crate) async fn access(&self, call: &Call, path: &RepoPath, operation: &str) -> Result<Access, ApiError> {
        let request = ResolveAccessRequest {
            repository: Some(path.repository()),
            operation: operation.to_owned(),
            ..ResolveAccessRequest::default()
        };
        let answer = self.clients.access().resolve_access(call.request(request)).await?.into_inner();
        let repository = present(answer.repository, "repository")?;
        Ok(Access {
            id: repository.id,
            name: repository.name.clone(),
            grant: answer.grant,
            permission: Permission::from(repository.permission()),
            urls: self.urls(repository)?,
        })
    }

    /// Who the caller's token belongs to.
    pub(crate) async fn identity(&self, call: &Call) -> Result<Identity, ApiError> {
        let token = call.token().ok_or_else(ApiError::credentials_required)?.expose().to_owned();
        let answer = self.clients.access().authenticate(call.bare(AuthenticateRequest { token })).await?.into_inner();
        Ok(present(answer.identity, "identity")?)
    }

    /// What to refuse a request with when `error` was found in the request itself: that the caller may not make it at all comes
    /// first.
    pub(crate) async fn refusal(&self, call: &Call, attempt: Attempt, error: ApiError) -> ApiError {
        match self.clients.access().check_access(call.request(attempt.0)).await {
            Ok(_) => error,
            Err(first) => first.into(),
        }
    }

    /// What `decode` makes of a JSON body. Of mistakes in it only those hear who may make the attempt.
    pub(crate) async fn decoded<T>(
        &self,
        call: &Call,
        attempt: Attempt,
        payload: Payload,
        decode: impl FnOnce(&mut Fields) -> T,
    ) -> Result<T, ApiError> {
        let decoded = payload.fields(self, JSON_BYTES).await;
        self.checked(call, attempt, decoded, decode).await
    }

    /// The same, from fields that are at hand.
    pub(crate) async fn checked<T>(
        &self,
        call: &Call,
        attempt: Attempt,
        fields: Result<Fields, ApiError>,
        decode: impl FnOnce(&mut Fields) -> T,
    ) -> Result<T, ApiError> {
        let decoded = fields.and_then(|mut fields| {
            let decoded = decode(&mut fields);
            // An ordinary body takes no slot.
            fields.finish().map(|_slot| decoded)
        });
        match decoded {
            Ok(decoded) => Ok(decoded),
            Err(error) => Err(self.refusal(call, attempt, error).await),
        }
    }

    /// Addresses inside a repository, which answers of its parts do not name.
    pub(crate) async fn links_of(&self, call: &Call, path: &RepoPath) -> Result<RepositoryLinks, ApiError> {
        let request = call.request(GetRepositoryRequest { repository: Some(path.repository()) });
        let answer = self.clients.repositories().get_repository(request).await?.into_inner();
        self.urls(present(answer.repository, "repository")?)
    }

    fn urls(&self, repository: repo::Repository) -> Result<RepositoryLinks, ApiError> {
        let owner = present(repository.owner, "owner")?;
        Ok(self.links.repository(&owner.username, &repository.name))
    }

    /// A user as the caller may see it.
    pub(crate) fn user(&self, call: &Call, mut user: repo::User) -> User {
        if call.is_anonymous() {
            user.email.clear();
        }
        User::new(user, &self.links)
    }

    /// Users as the caller may see them.
    pub(crate) fn users(&self, call: &Call, users: Vec<repo::User>) -> Vec<User> {
        users.into_iter().map(|user| self.user(call, user)).collect()
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
