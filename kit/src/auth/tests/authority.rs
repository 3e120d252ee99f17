use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use ferrite_proto::grant::LIFETIME;
use ferrite_proto::repo::access_service_server::{AccessService, AccessServiceServer};
use ferrite_proto::repo::{
    AuthenticateRequest, AuthenticateResponse, CheckAccessRequest, CheckAccessResponse, Identity, ResolveAccessRequest,
    ResolveAccessResponse, ResolveKeyRequest, ResolveKeyResponse, repository_ref,
};
use tonic::{Request, Response, Status};

use crate::auth::{AuthError, TokenAuthority, TokenValidator};
use crate::grpc::Channel;
use crate::server::GrpcServer;
use crate::testing::TestEnv;

/// What is asked about.
pub(super) const OPERATION: &str = ferrite_proto::operation::LIST_ISSUES;

pub(super) const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

/// A small repo-svc: knows one token, counts who asks, and signs what it is told to.
#[derive(Clone)]
pub(super) struct Authority {
    signer: Arc<ferrite_proto::grant::Signer>,
    clock: crate::Clock,
    pub(super) asked: Arc<AtomicUsize>,
    pub(super) state: Arc<Mutex<State>>,
}

pub(super) struct State {
    pub(super) is_revoked: bool,
    /// How long an answer takes.
    pub(super) pause: Duration,
    /// The grant to answer with, or the refusal.
    pub(super) answer: Result<ferrite_proto::grant::Grant, AuthError>,
}

pub(super) fn ada() -> Identity {
    Identity { user_id: 7, username: "ada".into(), token_id: 3, ..Identity::default() }
}

/// What repo-svc's own layer asks.
struct OneToken;

#[async_trait]
impl TokenAuthority for OneToken {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        Ok((token == TOKEN).then(ada))
    }
}

impl Authority {
    /// Starts it on a socket of the site.
    pub(super) async fn serve(site: &TestEnv) -> (Self, Channel) {
        let state = State { is_revoked: false, pause: Duration::ZERO, answer: Ok(site.grant(1, OPERATION)) };
        let authority = Self {
            signer: Arc::new(site.signer()),
            clock: site.clock.clone(),
            asked: Arc::default(),
            state: Arc::new(Mutex::new(state)),
        };
        let server = GrpcServer::default().add(AccessServiceServer::new(authority.clone()));
        let tokens = TokenValidator::new(None, Arc::new(OneToken), site.clock.clone());
        let address = site.serve_for(tokens, &site.socket("repo"), server, Router::new()).await;
        (authority, site.channel(&address))
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) fn answer(&self, answer: Result<ferrite_proto::grant::Grant, AuthError>) {
        self.state.lock().unwrap().answer = answer;
    }

    pub(super) fn revoke(&self) {
        self.state.lock().unwrap().is_revoked = true;
    }
}

#[tonic::async_trait]
impl AccessService for Authority {
    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (is_revoked, pause) = {
            let state = self.state.lock().unwrap();
            (state.is_revoked, state.pause)
        };
        tokio::time::sleep(pause).await;
        if is_revoked || request.into_inner().token != TOKEN {
            return Err(AuthError::BadCredentials.into());
        }
        Ok(Response::new(AuthenticateResponse { identity: Some(ada()) }))
    }

    async fn resolve_access(
        &self,
        request: Request<ResolveAccessRequest>,
    ) -> Result<Response<ResolveAccessResponse>, Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let bearer = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        assert_eq!(bearer, Some(format!("Bearer {TOKEN}")), "the caller's own token is shown");
        let request = request.into_inner();
        assert_eq!(request.operation, OPERATION);
        let by = request.repository.and_then(|repository| repository.by);
        assert!(matches!(by, Some(repository_ref::By::Id(_))), "{by:?}");
        let grant = self.state.lock().unwrap().answer.clone()?;
        let grant = self.signer.sign(grant, self.clock.now_secs(), LIFETIME);
        Ok(Response::new(ResolveAccessResponse { grant, ..ResolveAccessResponse::default() }))
    }

    async fn check_access(&self, _: Request<CheckAccessRequest>) -> Result<Response<CheckAccessResponse>, Status> {
        unreachable!("only the gateway asks this")
    }

    async fn resolve_key(&self, _: Request<ResolveKeyRequest>) -> Result<Response<ResolveKeyResponse>, Status> {
        unreachable!("only the gateway asks this")
    }
}
