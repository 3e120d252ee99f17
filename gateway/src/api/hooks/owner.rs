//! Owners of webhooks in paths. repo-svc checks the caller's access to each kind of owner, and
//! hook-svc gets the grant.

use std::convert::Infallible;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use ferrite_api_types::links::encode;
use ferrite_proto::hook::{HookOwner, hook_owner};
use ferrite_proto::repo::RepositoryRef;

use crate::api::access::{PermissionCheck, ResolvedAccess};
use crate::api::call::ApiCall;
use crate::http::describe::Input;
use crate::http::error::ApiError;
use crate::http::path::{Params, RepoPath};
use crate::http::request::{Fields, RequestBody};
use crate::upstream::grant::Grant;

/// The owner in a path: `/repos/{owner}/{repo}/hooks…`, `/orgs/{org}/hooks…` or `/admin/hooks…`.
#[derive(Clone, Debug)]
pub(crate) enum HookOwnerPath {
    Repository(RepoPath),
    Organization(String),
    Site,
}

impl<S: Send + Sync> FromRequestParts<S> for HookOwnerPath {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Infallible> {
        let params = Params::from_request_parts(parts, state).await?;
        if params.optional_name("repo").is_some() {
            return RepoPath::from_request_parts(parts, state).await.map(Self::Repository);
        }
        Ok(params.optional_name("org").map_or(Self::Site, Self::Organization))
    }
}

impl Input for HookOwnerPath {}

pub(crate) struct HookAccess {
    owner: HookOwner,
    grant: Grant,
    url: String,
}

impl HookAccess {
    fn of_repository(access: ResolvedAccess) -> Self {
        let owner = Some(hook_owner::Owner::RepositoryId(access.id));
        Self { owner: HookOwner { owner }, url: access.urls.api(), grant: access.grant }
    }

    pub(crate) fn owner(&self) -> Option<HookOwner> {
        Some(self.owner.clone())
    }

    pub(crate) fn hook_url(&self, id: i64) -> String {
        format!("{}/hooks/{id}", self.url)
    }

    pub(crate) fn request<T>(&self, call: &ApiCall, message: T) -> tonic::Request<T> {
        call.request_with_grant(&self.grant, message)
    }
}

impl ApiCall {
    /// Resolves the owner of a path and the caller's permission for `operation`.
    pub(crate) async fn hook_access(&self, path: &HookOwnerPath, operation: &str) -> Result<HookAccess, ApiError> {
        let (owner, grant, url) = match path {
            HookOwnerPath::Repository(path) => {
                return Ok(HookAccess::of_repository(self.access(path, operation).await?));
            }
            HookOwnerPath::Organization(name) => {
                let grant = self.grant(PermissionCheck::of(operation).on_organization(name)).await?;
                let url = self.links.api(&format!("/orgs/{}", encode(name.as_bytes())));
                (hook_owner::Owner::Organization(name.clone()), grant, url)
            }
            HookOwnerPath::Site => {
                let grant = self.grant(PermissionCheck::of(operation).by_administrator(true)).await?;
                (hook_owner::Owner::Site(true), grant, self.links.api("/admin"))
            }
        };
        Ok(HookAccess { owner: HookOwner { owner: Some(owner) }, grant, url })
    }

    /// As [`Self::hook_access`], and reads the body of the request.
    pub(crate) async fn hook_body<T: Fields>(
        &self,
        path: &HookOwnerPath,
        operation: &str,
        body: RequestBody<T>,
    ) -> Result<(HookAccess, T), ApiError> {
        let (access, begin) = (self.hook_access(path, operation).await?, Instant::now());
        // These operations have ordinary bodies, so there is no permit to hold.
        let (fields, _permit) = body.read(&self.body_limits).await?;
        // As in `confirm`: during a slow body, the name can move to another repository.
        let access = match access.owner.owner {
            _ if begin.elapsed() < self.reauthorizer.interval() => access,
            Some(hook_owner::Owner::RepositoryId(id)) => {
                HookAccess::of_repository(self.resolve(RepositoryRef::by_id(id), operation).await?)
            }
            _ => self.hook_access(path, operation).await?,
        };
        Ok((access, fields))
    }
}
