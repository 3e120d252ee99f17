//! Keys, servers and channels for tests of this crate.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use ferrite_proto::grant::{Grant, GrantUser, Signer, Verifier};
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, ServiceRole};
use tempfile::TempDir;

use crate::auth::{AuthError, AuthLayer, TokenAuthority, TokenValidator};
use crate::clock::Clock;
use crate::grpc::{Channel, ChannelCredentials, channel};
use crate::lifecycle::Lifecycle;
use crate::net::Address;
use crate::server::{GrpcServer, ListenerOptions, serve};
use crate::service_key::{ServiceTokenSource, ServiceVerifier};
use crate::testing::ServiceKeys;

/// Keys, folder, clock and lifecycle that the servers and clients of one test share. The lifecycle stops when this is dropped.
pub(crate) struct TestEnv {
    pub(crate) folder: TempDir,
    pub(crate) life: Lifecycle,
    pub(crate) clock: Clock,
    pub(crate) keys: ServiceKeys,
    pub(crate) private_pem: String,
    pub(crate) public_pem: String,
}

/// The role of the servers of a test.
pub(crate) const ROLE: ServiceRole = ServiceRole::RepoSvc;

/// A token authority that knows no token.
struct RejectAll;

#[async_trait]
impl TokenAuthority for RejectAll {
    async fn authenticate(&self, _: &str) -> Result<Option<Identity>, AuthError> {
        Ok(None)
    }
}

impl TestEnv {
    pub(crate) fn new(clock: Clock) -> Self {
        let pair = SigningKey::from_bytes(&[7; 32]);
        let folder = tempfile::tempdir().unwrap();
        let keys = ServiceKeys::write(folder.path());
        Self {
            folder,
            life: Lifecycle::new(Duration::from_secs(5)),
            clock,
            keys,
            private_pem: pair.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
            public_pem: pair.verifying_key().to_public_key_pem(LineEnding::LF).unwrap(),
        }
    }

    pub(crate) fn signer(&self) -> Signer {
        Signer::from_pem(self.private_pem.as_bytes()).unwrap()
    }

    pub(crate) fn verifier(&self) -> Arc<Verifier> {
        Arc::new(Verifier::from_pem(self.public_pem.as_bytes()).unwrap())
    }

    pub(crate) fn socket(&self, name: &str) -> Address {
        Address::Unix(self.folder.path().join(name))
    }

    pub(crate) fn tokens(&self) -> TokenValidator {
        TokenValidator::new(None, Arc::new(RejectAll), self.clock.clone())
    }

    pub(crate) fn layer(&self, tokens: TokenValidator) -> AuthLayer {
        let service_verifier = ServiceVerifier::new(self.keys.public(), ROLE);
        AuthLayer::new(tokens, self.verifier(), service_verifier, self.clock.clone())
    }

    /// Returns the tokens of the gateway.
    pub(crate) fn token_source(&self) -> Arc<ServiceTokenSource> {
        self.keys.token_source(ServiceRole::Gateway, &self.clock)
    }

    /// Returns a token of the gateway for the servers of the test.
    pub(crate) fn service_token(&self) -> Arc<str> {
        self.token_source().token(ROLE)
    }

    /// Returns a channel on which the gateway calls.
    pub(crate) fn channel(&self, address: &Address) -> Channel {
        self.channel_of(ServiceRole::Gateway, address)
    }

    /// Returns a channel on which a process with the role `from` calls.
    pub(crate) fn channel_of(&self, from: ServiceRole, address: &Address) -> Channel {
        channel(address, Some(ChannelCredentials::new(self.keys.token_source(from, &self.clock), ROLE)))
    }

    /// Serves on `address` until the lifecycle stops, and returns the address with the actual port.
    pub(crate) async fn serve(&self, address: &Address, server: GrpcServer, extra: Router) -> Address {
        self.serve_with_tokens(self.tokens(), address, server, extra).await
    }

    /// As [`TestEnv::serve`], with access tokens validated by `tokens`.
    pub(crate) async fn serve_with_tokens(
        &self,
        tokens: TokenValidator,
        address: &Address,
        server: GrpcServer,
        extra: Router,
    ) -> Address {
        let listener = address.bind().await.unwrap();
        let bound = listener.address().unwrap();
        let router = server.into_router(self.layer(tokens), extra, &self.life);
        self.life.spawn("test", serve(listener, router, ListenerOptions::default(), self.life.clone()));
        bound
    }

    pub(crate) fn grant(&self, repository: i64, operation: &str) -> Grant {
        let (username, email) = ("ada".into(), "ada@example.org".into());
        let user = GrantUser { id: 7, username, email, ..GrantUser::default() };
        Grant {
            user: Some(user),
            repository,
            operation: operation.to_owned(),
            permission: Permission::Write,
            issues_enabled: true,
            store: "default".into(),
            epoch: 1,
            ..Grant::default()
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        self.life.stop();
    }
}
