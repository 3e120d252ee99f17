//! A fake repo-svc with three tokens and one organization. It records the events it receives.

use std::sync::{Arc, Mutex};

use ferrite_proto::Permission;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_server::{EventSink, EventSinkServer};
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event, HookChanged};
use ferrite_proto::grant::{Grant, GrantUser, Subject};
use ferrite_proto::metadata::AUTHORIZATION;
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_proto::repo::account_service_server::AccountServiceServer;
use ferrite_proto::repo::check_access_request::Target;
use ferrite_proto::repo::{
    ActivityAccess, AuthenticateRequest, AuthenticateResponse, CheckAccessRequest, CheckAccessResponse,
    DescribeRepositoriesRequest, DescribeRepositoriesResponse, Identity, Repository, ResolveAccessRequest,
    ResolveAccessResponse, ResolveActivityAccessRequest, ResolveActivityAccessResponse,
};
use ferrite_rpc::auth::AuthError;
use ferrite_rpc::testing::{Fake, FakeAccessService, REPOSITORY, signed};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::peers::Peer;

/// Token of an owner of the organization.
pub(crate) const OWNER_TOKEN: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
/// Token of a user without any role.
pub(crate) const OUTSIDER_TOKEN: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
pub(crate) const ADMINISTRATOR_TOKEN: &str = "cccccccccccccccccccccccccccccccccccccccc";
/// Id of the token that reads pull requests.
pub(crate) const PULLS_TOKEN_ID: i64 = 71;
pub(crate) const ORGANIZATION: &str = "acme";
pub(crate) const ORGANIZATION_ID: i64 = 5;

const ACCOUNTS: [(&str, i64, &str); 3] =
    [(OWNER_TOKEN, 11, "olga"), (OUTSIDER_TOKEN, 12, "otto"), (ADMINISTRATOR_TOKEN, 13, "root")];

/// Clones share the events.
#[derive(Clone, Default)]
pub(crate) struct FakeRepo(Arc<Mutex<Vec<Event>>>);

impl FakeRepo {
    pub(super) fn routes(&self) -> Routes {
        let mut routes = Routes::builder();
        routes.add_service(AccessServiceServer::new(Fake(self.clone())));
        routes.add_service(EventSinkServer::new(self.clone()));
        routes.add_service(AccountServiceServer::new(Fake(Peer::default())));
        routes.routes()
    }

    /// Returns the reported changes of webhooks with their repositories.
    pub(crate) fn changes(&self) -> Vec<(i64, HookChanged)> {
        let events = self.0.lock().unwrap();
        let change = |event: &Event| match &event.fact {
            Some(Fact::HookChanged(change)) => Some((event.repository_id, change.clone())),
            _ => None,
        };
        events.iter().filter_map(change).collect()
    }
}

#[tonic::async_trait]
impl EventSink for FakeRepo {
    async fn deliver(&self, request: Request<DeliverRequest>) -> Result<Response<DeliverResponse>, Status> {
        self.0.lock().unwrap().extend(request.into_inner().events);
        Ok(Response::new(DeliverResponse::default()))
    }
}

#[tonic::async_trait]
impl FakeAccessService for FakeRepo {
    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        let token = request.into_inner().token;
        let account = ACCOUNTS.iter().find(|(known, ..)| *known == token).ok_or(AuthError::BadCredentials)?;
        let identity = Identity { user_id: account.1, username: account.2.to_owned(), ..Identity::default() };
        Ok(Response::new(AuthenticateResponse { identity: Some(identity) }))
    }

    async fn check_access(
        &self,
        request: Request<CheckAccessRequest>,
    ) -> Result<Response<CheckAccessResponse>, Status> {
        let bearer = request.metadata().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let account = ACCOUNTS.iter().find(|(token, ..)| bearer == format!("Bearer {token}"));
        let (token, user_id, username) = *account.ok_or(AuthError::BadCredentials)?;
        let request = request.into_inner();
        assert!(request.operation.starts_with("ferrite.hook.v1."), "{request:?}");
        let subject = match request.target {
            Some(Target::Organization(name)) if name == ORGANIZATION => {
                if token == OUTSIDER_TOKEN {
                    return Err(AuthError::PermissionRequired { needed: Permission::Owner }.into());
                }
                Subject::Organization { id: ORGANIZATION_ID, name }
            }
            Some(Target::Organization(_)) => return Err(AuthError::OrganizationNotFound.into()),
            None if request.as_administrator && token == ADMINISTRATOR_TOKEN => Subject::Site,
            _ => return Err(AuthError::AdminRequired.into()),
        };
        let user = GrantUser { id: user_id, username: username.to_owned(), ..GrantUser::default() };
        let grant = Grant { user: Some(user), subject, operation: request.operation, ..Grant::default() };
        Ok(Response::new(CheckAccessResponse { grant: signed(grant), ..CheckAccessResponse::default() }))
    }

    async fn resolve_access(
        &self,
        _: Request<ResolveAccessRequest>,
    ) -> Result<Response<ResolveAccessResponse>, Status> {
        Err(AuthError::RepositoryNotFound.into())
    }

    /// Every token reads content and issues of one repository, and [`PULLS_TOKEN_ID`] its pull
    /// requests too. Others hide nothing.
    async fn resolve_activity_access(
        &self,
        request: Request<ResolveActivityAccessRequest>,
    ) -> Result<Response<ResolveActivityAccessResponse>, Status> {
        let ResolveActivityAccessRequest { token_id, repository_ids, .. } = request.into_inner();
        let access = |id: &i64| ActivityAccess {
            repository: Some(Repository { id: *id, ..Repository::default() }),
            can_read_content: true,
            can_read_issues: true,
            can_read_pulls: token_id == PULLS_TOKEN_ID,
        };
        let readable = repository_ids.iter().filter(|id| **id == REPOSITORY && token_id != 0);
        let accesses = readable.map(access).collect();
        Ok(Response::new(ResolveActivityAccessResponse { accesses, is_hidden: false }))
    }

    async fn describe_repositories(
        &self,
        _: Request<DescribeRepositoriesRequest>,
    ) -> Result<Response<DescribeRepositoriesResponse>, Status> {
        Ok(Response::new(DescribeRepositoriesResponse::default()))
    }
}
