use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::GrpcServer;
use crate::testing::TestEnv;
use async_trait::async_trait;
use axum::Router;
use ferrite_core::Clock;
use ferrite_proto::grant::MAX_GRANT_LIFETIME;
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_proto::repo::{
    AuthenticateRequest, AuthenticateResponse, CheckAccessRequest, CheckAccessResponse, Identity, ResolveAccessRequest,
    ResolveAccessResponse, repository_ref,
};
use ferrite_rpc::auth::{AuthError, TokenAuthority, TokenValidator};
use ferrite_rpc::grpc::Channel;
use ferrite_rpc::testing::{Fake, FakeAccessService};
use tonic::{Request, Response, Status};

pub(super) const OPERATION: &str = ferrite_proto::operation::LIST_ISSUES;

pub(super) const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

/// A fake repo-svc: accepts one token, counts requests, and signs the grant that the test sets.
#[derive(Clone)]
pub(super) struct Authority {
    signer: Arc<ferrite_proto::grant::Signer>,
    clock: Clock,
    pub(super) asked: Arc<AtomicUsize>,
    pub(super) state: Arc<Mutex<State>>,
}

pub(super) struct State {
    pub(super) is_revoked: bool,
    pub(super) delay: Duration,
    /// Response to `ResolveAccess` and `CheckAccess`: the grant to sign, or the rejection.
    pub(super) response: Result<ferrite_proto::grant::Grant, AuthError>,
}

pub(super) fn ada() -> Identity {
    Identity { user_id: 7, username: "ada".into(), token_id: 3, ..Identity::default() }
}

struct OneToken;

#[async_trait]
impl TokenAuthority for OneToken {
    async fn authenticate(&self, token: &str) -> Result<Option<Identity>, AuthError> {
        Ok((token == TOKEN).then(ada))
    }
}

impl Authority {
    /// Starts the fake on a socket of `env`. Returns it with a channel to it.
    pub(super) async fn serve(env: &TestEnv) -> (Self, Channel) {
        let state = State { is_revoked: false, delay: Duration::ZERO, response: Ok(env.grant(1, OPERATION)) };
        let authority = Self {
            signer: Arc::new(env.signer()),
            clock: env.clock.clone(),
            asked: Arc::default(),
            state: Arc::new(Mutex::new(state)),
        };
        let server = GrpcServer::default().add(AccessServiceServer::new(Fake(authority.clone())));
        let tokens = TokenValidator::new(None, Arc::new(OneToken), env.clock.clone());
        let address = env.serve_with_tokens(tokens, &env.socket("repo"), server, Router::new()).await;
        (authority, env.channel(&address))
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub(super) fn respond(&self, response: Result<ferrite_proto::grant::Grant, AuthError>) {
        self.state.lock().unwrap().response = response;
    }

    fn signed(&self) -> Result<String, AuthError> {
        let grant = self.state.lock().unwrap().response.clone()?;
        Ok(self.signer.sign(grant, self.clock.now_secs(), MAX_GRANT_LIFETIME))
    }

    pub(super) fn revoke(&self) {
        self.state.lock().unwrap().is_revoked = true;
    }
}

#[tonic::async_trait]
impl FakeAccessService for Authority {
    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let (is_revoked, delay) = {
            let state = self.state.lock().unwrap();
            (state.is_revoked, state.delay)
        };
        tokio::time::sleep(delay).await;
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
        Ok(Response::new(ResolveAccessResponse { grant: self.signed()?, ..ResolveAccessResponse::default() }))
    }

    async fn check_access(
        &self,
        request: Request<CheckAccessRequest>,
    ) -> Result<Response<CheckAccessResponse>, Status> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let bearer = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        assert_eq!(bearer, Some(format!("Bearer {TOKEN}")), "the caller's own token is shown");
        assert_eq!(request.get_ref().operation, OPERATION);
        Ok(Response::new(CheckAccessResponse { grant: self.signed()?, ..CheckAccessResponse::default() }))
    }
}
