//! Keys, servers and channels for tests of this crate.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use ferrite_proto::Permission;
use ferrite_proto::grant::{Grant, GrantUser, IssueReach, Signer, Verifier};
use ferrite_proto::repo::Identity;
use tempfile::TempDir;

use crate::auth::{AuthError, AuthLayer, TokenAuthority, TokenValidator};
use crate::clock::Clock;
use crate::grpc::{Channel, channel};
use crate::lifecycle::Lifecycle;
use crate::net::Address;
use crate::server::{GrpcServer, ListenerLimits, serve};
use crate::service_key::{ServiceKey, ServiceTokenSource};

/// Keys, folder, clock and lifecycle that the servers and clients of one test share. The lifecycle stops when this is dropped.
pub(crate) struct TestEnv {
    pub(crate) folder: TempDir,
    pub(crate) life: Lifecycle,
    pub(crate) clock: Clock,
    pub(crate) key: ServiceKey,
    pub(crate) private_pem: String,
    pub(crate) public_pem: String,
}

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
        Self {
            folder: tempfile::tempdir().unwrap(),
            life: Lifecycle::new(Duration::from_secs(5)),
            clock,
            key: ServiceKey::new([9; 32]).unwrap(),
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
        AuthLayer::new(tokens, self.verifier(), self.key.clone(), self.clock.clone())
    }

    pub(crate) fn token_source(&self) -> Arc<ServiceTokenSource> {
        Arc::new(ServiceTokenSource::new(self.key.clone(), "test-svc", self.clock.clone()))
    }

    pub(crate) fn channel(&self, address: &Address) -> Channel {
        channel(address, Some(self.token_source()))
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
        self.life.spawn("test", serve(listener, router, ListenerLimits::default(), self.life.clone()));
        bound
    }

    pub(crate) fn grant(&self, repository: i64, operation: &str) -> Grant {
        let user =
            GrantUser { id: 7, username: "ada".into(), full_name: String::new(), email: "ada@example.org".into() };
        Grant {
            user: Some(user),
            repository,
            operation: operation.to_owned(),
            permission: Permission::Write,
            issues_enabled: true,
            is_mirror: false,
            store: "default".into(),
            epoch: 1,
            issue_reach: IssueReach::None,
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        self.life.stop();
    }
}
