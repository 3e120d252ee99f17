//! Calls to repo-svc that many handlers share: access to a repository, permission errors before
//! field errors, and account lookups.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::{Duration, Instant};

use ferrite_api_types::convert::require;
use ferrite_api_types::links::RepositoryLinks;
use ferrite_api_types::{Accounts, User};
use ferrite_proto::git::{Commit, CommitSignature};
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{
    self, AuthenticateRequest, CheckAccessRequest, CheckAccessResponse, GetRepositoryRequest, GetUsersRequest,
    Identity, ReauthorizeAccessRequest, RepositoryRef, ResolveAccessRequest,
};
use tonic::{Code, Status};

use super::call::ApiCall;
use crate::http::body_limits::BodyPermit;
use crate::http::error::ApiError;
use crate::http::path::RepoPath;
use crate::http::request::{Fields, RequestBody};
use crate::upstream::grant::Grant;

/// Maximum ids or e-mail addresses per lookup.
const MAX_LOOKUP_ITEMS: usize = 1000;
/// No account has a longer e-mail address.
const MAX_EMAIL_BYTES: usize = 254;

/// If a short body arrives within this time, the change itself looks up its repository by name,
/// which saves a call. For a slower body, the repository is looked up before.
const PROMPT_BODY_TIME: Duration = Duration::from_millis(100);

pub(crate) struct ResolvedAccess {
    pub(crate) id: i64,
    /// The id on the store: that of the repository or of its wiki.
    pub(super) stored_id: i64,
    pub(crate) name: String,
    /// Grant for the service that carries out the operation, with the store of the repository.
    pub(crate) grant: Grant,
    pub(crate) urls: RepositoryLinks,
    /// The repository as the caller sees it, without its parent.
    pub(crate) repository: repo::Repository,
    /// How its pull requests are merged.
    pub(crate) pulls: repo::PullSettings,
    caller: Option<repo::User>,
    /// Zero for a caller without a token.
    pub(crate) token_id: i64,
    /// With this, repo-svc rechecks the permission of a long transfer.
    pub(super) reauthorization: Option<ReauthorizeAccessRequest>,
    /// When repo-svc resolved it.
    resolved: Instant,
}

impl ResolvedAccess {
    /// Returns the id of the caller's account; zero for an anonymous caller.
    pub(crate) fn caller_id(&self) -> i64 {
        self.caller.as_ref().map_or(0, |caller| caller.id)
    }
}

/// The operation and target for which repo-svc checks the caller's permission.
#[derive(Clone)]
pub(crate) struct PermissionCheck(CheckAccessRequest);

impl PermissionCheck {
    /// `operation` is one of [`ferrite_proto::operation`].
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

pub(crate) struct Emails(BTreeSet<String>);

impl Emails {
    /// Collects the addresses in `commits` that an account can have.
    pub(crate) fn of<'a>(commits: impl IntoIterator<Item = &'a Commit>) -> Self {
        Self::in_signatures(commits.into_iter().flat_map(|commit| [&commit.author, &commit.committer]).flatten())
    }

    /// As [`Self::of`], for authors alone.
    pub(crate) fn in_signatures<'a>(signatures: impl IntoIterator<Item = &'a CommitSignature>) -> Self {
        let is_sane =
            |email: &&str| (1..=MAX_EMAIL_BYTES).contains(&email.len()) && !email.chars().any(char::is_control);
        let emails = signatures.into_iter().filter_map(|signature| std::str::from_utf8(&signature.email).ok());
        Self(emails.filter(is_sane).map(str::to_owned).collect())
    }
}

impl ApiCall {
    /// Resolves the repository of a path and the caller's permission for `operation`, one of
    /// [`ferrite_proto::operation`].
    pub(crate) async fn access(&self, path: &RepoPath, operation: &str) -> Result<ResolvedAccess, ApiError> {
        self.resolve(path.repository(), operation).await
    }

    /// As [`Self::access`], for any repository.
    pub(super) async fn resolve(&self, repository: RepositoryRef, operation: &str) -> Result<ResolvedAccess, ApiError> {
        self.resolve_on(repository, operation, false).await
    }

    /// As [`Self::access`], for an operation that there is on repositories and on their wikis.
    pub(super) async fn wiki_access(&self, path: &RepoPath, operation: &str) -> Result<ResolvedAccess, ApiError> {
        self.resolve_on(path.repository(), operation, true).await
    }

    async fn resolve_on(
        &self,
        repository: RepositoryRef,
        operation: &str,
        is_wiki: bool,
    ) -> Result<ResolvedAccess, ApiError> {
        let request = ResolveAccessRequest {
            repository: Some(repository),
            operation: operation.to_owned(),
            is_wiki,
            ..ResolveAccessRequest::default()
        };
        let response = self.clients.access().resolve_access(self.request(request)).await?.into_inner();
        let repository = require(response.repository, "repository")?;
        Ok(ResolvedAccess {
            id: repository.id,
            stored_id: response.stored_id,
            name: repository.name.clone(),
            pulls: repository.pulls.clone().unwrap_or_default(),
            grant: Grant::new(&response.grant, &response.store).map_err(|_| ApiError::internal())?,
            token_id: response.identity.as_ref().map_or(0, |identity| identity.token_id),
            caller: response.identity.map(user_of),
            reauthorization: response.reauthorization,
            resolved: Instant::now(),
            urls: self.urls(repository.clone())?,
            repository,
        })
    }

    /// Returns a grant for an operation on an organization, the site or the caller's own account.
    pub(crate) async fn grant(&self, check: PermissionCheck) -> Result<Grant, ApiError> {
        let response = self.clients.access().check_access(self.request(check.0)).await?.into_inner();
        Grant::new(&response.grant, "").map_err(|_| ApiError::internal())
    }

    /// Confirms an access after the request body was read. Resolves it again if that took long,
    /// because the permission may have been revoked; by the repository's id, because the name may
    /// have moved to another repository.
    pub(crate) async fn confirm(&self, access: ResolvedAccess, operation: &str) -> Result<ResolvedAccess, ApiError> {
        match access.resolved.elapsed() < self.reauthorizer.interval() {
            true => Ok(access),
            false => self.resolve(RepositoryRef::by_id(access.id), operation).await,
        }
    }

    /// Resolves the repository of a path, reads the body, and confirms the access. The caller holds
    /// the permit until the request is done.
    pub(crate) async fn access_and_body<T: Fields>(
        &self,
        path: &RepoPath,
        operation: &str,
        body: RequestBody<T>,
    ) -> Result<(ResolvedAccess, T, BodyPermit), ApiError> {
        let access = self.access(path, operation).await?;
        let (fields, permit) = body.read(&self.body_limits).await?;
        Ok((self.confirm(access, operation).await?, fields, permit))
    }

    /// Returns the owner of the caller's token.
    pub(crate) async fn identity(&self) -> Result<Identity, ApiError> {
        let token = self.token.as_ref().ok_or_else(ApiError::credentials_required)?.expose().to_owned();
        let request = self.request_without_token(AuthenticateRequest { token });
        let response = self.clients.access().authenticate(request).await?.into_inner();
        Ok(require(response.identity, "identity")?)
    }

    /// As [`after_refusal`], for a request that repo-svc has not seen yet.
    pub(crate) async fn after_permission<T>(
        &self,
        check: PermissionCheck,
        read: Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        after_refusal(async { self.clients.access().check_access(self.request(check.0)).await }, read).await
    }

    /// Checks the caller's permission for work that the gateway does itself. Returns the caller's
    /// account, if there is one.
    pub(crate) async fn check(&self, check: PermissionCheck) -> Result<Option<i64>, ApiError> {
        let response = self.check_access(check).await?;
        Ok((response.user_id != 0).then_some(response.user_id))
    }

    async fn check_access(&self, check: PermissionCheck) -> Result<CheckAccessResponse, ApiError> {
        Ok(self.clients.access().check_access(self.request(check.0)).await?.into_inner())
    }

    /// Reads the fields of a JSON body. Checks the permission before it reads a long body, and
    /// reports a permission error before errors in the body.
    pub(crate) async fn checked_body<T: Fields>(
        &self,
        check: PermissionCheck,
        body: RequestBody<T>,
    ) -> Result<T, ApiError> {
        if body.may_be_long() {
            self.check(check.clone()).await?;
        }
        // These operations have ordinary bodies, so there is no permit to hold.
        let read = body.read(&self.body_limits).await.map(|(fields, _permit)| fields);
        self.after_permission(check, read).await
    }

    /// As [`Self::checked_body`], for an operation on the repository of a path. Also returns the
    /// repository: by its id if the body is long or slow, because the name may have moved to
    /// another repository in the meantime. The caller holds the permit until the request is done.
    pub(crate) async fn repository_body<T: Fields>(
        &self,
        path: &RepoPath,
        operation: &str,
        body: RequestBody<T>,
    ) -> Result<(RepositoryRef, T, BodyPermit), ApiError> {
        let check = |repository: &RepositoryRef| PermissionCheck::of(operation).on_repository(repository.clone());
        let mut repository = path.repository();
        let may_be_long = body.may_be_long();
        let mut read = pin!(body.read(&self.body_limits));
        let prompt = match may_be_long {
            true => None,
            false => tokio::time::timeout(PROMPT_BODY_TIME, read.as_mut()).await.ok(),
        };
        let read = match prompt {
            Some(read) => read,
            None => {
                let response = self.check_access(check(&repository)).await?;
                // A repo-svc of the previous version returns zero.
                if response.repository_id != 0 {
                    repository = RepositoryRef::by_id(response.repository_id);
                }
                read.await
            }
        };
        let (read, permit) = self.after_permission(check(&repository), read).await?;
        Ok((repository, read, permit))
    }

    /// Returns the links of a repository, for responses of repo-svc without its name.
    pub(crate) async fn links_of(&self, repository: RepositoryRef) -> Result<RepositoryLinks, ApiError> {
        Ok(self.id_and_links_of(repository).await?.1)
    }

    /// As [`Self::links_of`], with the id: a long call uses it to keep to this repository if the
    /// name moves.
    pub(crate) async fn id_and_links_of(
        &self,
        repository: RepositoryRef,
    ) -> Result<(RepositoryRef, RepositoryLinks), ApiError> {
        let request = self.request(GetRepositoryRequest { repository: Some(repository) });
        let response = self.clients.repositories().get_repository(request).await?.into_inner();
        let found = require(response.repository, "repository")?;
        Ok((RepositoryRef::by_id(found.id), self.urls(found)?))
    }

    fn urls(&self, repository: repo::Repository) -> Result<RepositoryLinks, ApiError> {
        let owner = require(repository.owner, "owner")?;
        Ok(self.links.repository(&owner.username, &repository.name))
    }

    /// Converts a user. The e-mail address is blank for a request without credentials.
    pub(crate) fn user(&self, mut user: repo::User) -> User {
        if self.is_anonymous() {
            user.email.clear();
        }
        User::new(user, &self.links)
    }

    pub(crate) fn users(&self, users: Vec<repo::User>) -> Vec<User> {
        users.into_iter().map(|user| self.user(user)).collect()
    }

    pub(crate) async fn accounts_by_id(&self, ids: impl IntoIterator<Item = i64>) -> Result<Accounts, ApiError> {
        let ids: Vec<_> = ids.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let requests =
            ids.chunks(MAX_LOOKUP_ITEMS).map(|ids| GetUsersRequest { user_ids: ids.to_vec(), ..Default::default() });
        self.accounts(requests).await
    }

    /// Looks up the accounts with these verified e-mail addresses.
    pub(crate) async fn accounts_by_email(&self, emails: Emails) -> Result<Accounts, ApiError> {
        let emails: Vec<_> = emails.0.into_iter().collect();
        let requests = emails
            .chunks(MAX_LOOKUP_ITEMS)
            .map(|emails| GetUsersRequest { emails: emails.to_vec(), ..Default::default() });
        self.accounts(requests).await
    }

    /// As [`Self::accounts_by_id`]; takes the caller's account from `access`.
    pub(crate) async fn accounts_beside_caller(
        &self,
        access: &ResolvedAccess,
        ids: impl IntoIterator<Item = i64>,
    ) -> Result<Accounts, ApiError> {
        let others: Vec<_> = ids.into_iter().filter(|id| *id != access.caller_id()).collect();
        let mut accounts = self.accounts_by_id(others).await?;
        if let Some(caller) = &access.caller {
            accounts.insert(caller.clone(), &self.links);
        }
        Ok(accounts)
    }

    /// As [`Self::accounts_by_email`]; takes the caller's account from `access`. A commit without
    /// an explicit author is the caller's, so it needs no lookup.
    pub(crate) async fn accounts_by_email_beside_caller(
        &self,
        access: &ResolvedAccess,
        mut emails: Emails,
    ) -> Result<Accounts, ApiError> {
        let caller = access.caller.as_ref().filter(|caller| emails.0.remove(&caller.email));
        let mut accounts = self.accounts_by_email(emails).await?;
        if let Some(caller) = caller {
            accounts.insert(caller.clone(), &self.links);
        }
        Ok(accounts)
    }

    async fn accounts(&self, requests: impl Iterator<Item = GetUsersRequest>) -> Result<Accounts, ApiError> {
        let mut accounts = Accounts::default();
        for request in requests {
            let found = self.clients.accounts().get_users(self.request(request)).await?.into_inner();
            accounts.add(found, &self.links);
        }
        Ok(accounts)
    }
}

/// Returns the parsed request. If it has errors, `check` first asks the service whether it refuses
/// the caller, who must then learn nothing about the request.
///
/// `check` changes nothing: it is `CheckAccess`, or the operation itself with a blank request,
/// which has only ids. The service reports that as invalid if it has nothing else to refuse.
pub(crate) async fn after_refusal<T, R>(
    check: impl Future<Output = Result<R, Status>>,
    read: Result<T, ApiError>,
) -> Result<T, ApiError> {
    match read {
        Ok(read) => Ok(read),
        Err(error) => match check.await {
            Err(status) if status.code() != Code::InvalidArgument => Err(status.into()),
            Ok(_) | Err(_) => Err(error),
        },
    }
}

fn user_of(identity: Identity) -> repo::User {
    repo::User {
        id: identity.user_id,
        username: identity.username,
        full_name: identity.full_name,
        email: identity.email,
        is_organization: false,
        is_admin: identity.is_admin,
        details: None,
        visibility: repo::Visibility::Public.into(),
        profile: None,
    }
}
