use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use ferrite_core::Clock;
use ferrite_core::Lifecycle;
use ferrite_core::net::Address;
use ferrite_proto::grant::{Grant, GrantUser, Signer, Verifier};
use ferrite_proto::repo::Identity;
use ferrite_proto::{Permission, ServiceRole};
use ferrite_rpc::auth::{AuthError, AuthLayer, TokenAuthority, TokenValidator};
use ferrite_rpc::grpc::{Channel, ChannelCredentials, channel};
use ferrite_rpc::service_key::{ServiceTokenSource, ServiceVerifier};
use ferrite_rpc::testing::ServiceKeys;
use tempfile::TempDir;
use tonic::service::Routes;

use crate::{GrpcServer, ListenerOptions, serve, serve_all};

/// Keys, folder, clock and lifecycle shared by the servers and clients of a test. The lifecycle
/// stops when this is dropped.
pub struct TestEnv {
    /// The folder of sockets and keys.
    pub folder: TempDir,
    /// The lifecycle of the servers.
    pub life: Lifecycle,
    /// The clock of the servers.
    pub clock: Clock,
    /// Keys of the roles.
    pub keys: ServiceKeys,
    /// The key that signs grants.
    pub private_pem: String,
    /// The key that verifies grants.
    pub public_pem: String,
}

/// The role of the servers of a test.
pub const ROLE: ServiceRole = ServiceRole::RepoSvc;

/// A token authority that knows no token.
struct RejectAll;

#[async_trait]
impl TokenAuthority for RejectAll {
    async fn authenticate(&self, _: &str) -> Result<Option<Identity>, AuthError> {
        Ok(None)
    }
}

impl TestEnv {
    /// Creates the keys and the folder of one test.
    pub fn new(clock: Clock) -> Self {
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

    /// Returns the signer of grants.
    pub fn signer(&self) -> Signer {
        Signer::from_pem(self.private_pem.as_bytes()).unwrap()
    }

    /// Returns the verifier of grants.
    pub fn verifier(&self) -> Arc<Verifier> {
        Arc::new(Verifier::from_pem(self.public_pem.as_bytes()).unwrap())
    }

    /// Returns the address of a Unix socket in the folder.
    pub fn socket(&self, name: &str) -> Address {
        Address::Unix(self.folder.path().join(name))
    }

    /// Returns a validator that knows no token.
    pub fn tokens(&self) -> TokenValidator {
        TokenValidator::new(None, Arc::new(RejectAll), self.clock.clone())
    }

    /// Returns an authentication layer with these tokens.
    pub fn layer(&self, tokens: TokenValidator) -> AuthLayer {
        let service_verifier = ServiceVerifier::new(self.keys.public(), ROLE);
        AuthLayer::new(tokens, self.verifier(), service_verifier, self.clock.clone())
    }

    /// Returns the token source of the gateway.
    pub fn token_source(&self) -> Arc<ServiceTokenSource> {
        self.keys.token_source(ServiceRole::Gateway, &self.clock)
    }

    /// Returns a token of the gateway for the servers of the test.
    pub fn service_token(&self) -> Arc<str> {
        self.token_source().token(ROLE)
    }

    /// Returns a channel that the gateway calls on.
    pub fn channel(&self, address: &Address) -> Channel {
        self.channel_of(ServiceRole::Gateway, address)
    }

    /// Returns a channel that a process with the role `from` calls on.
    pub fn channel_of(&self, from: ServiceRole, address: &Address) -> Channel {
        channel(address, Some(ChannelCredentials::new(self.keys.token_source(from, &self.clock), ROLE)))
    }

    /// Serves on `address` until the lifecycle stops. Returns the address with the actual port.
    pub async fn serve(&self, address: &Address, server: GrpcServer, extra: Router) -> Address {
        self.serve_with_tokens(self.tokens(), address, server, extra).await
    }

    /// Like [`TestEnv::serve`], with access tokens validated by `tokens`.
    pub async fn serve_with_tokens(
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

    /// Returns a grant of a user with write permission.
    pub fn grant(&self, repository: i64, operation: &str) -> Grant {
        let (username, email) = ("ada".into(), "ada@example.org".into());
        let user = GrantUser { id: 7, username, email, ..GrantUser::default() };
        Grant {
            user: Some(user),
            repository,
            operation: operation.to_owned(),
            permission: Permission::Write,
            issues_enabled: true,
            pulls_enabled: true,
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

/// Serves fakes of other services at `address` until `life` stops.
///
/// # Panics
/// If the address is in use.
pub async fn serve_peers(address: &Address, peers: Routes, life: &Lifecycle) {
    let listeners = vec![address.bind().await.unwrap()];
    let (router, own) = (peers.into_axum_router(), life.clone());
    life.spawn("peers", async move { serve_all(listeners, router, ListenerOptions::default(), &own).await });
}
