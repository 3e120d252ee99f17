use std::time::Duration;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use ferrite_proto::Permission;
use ferrite_proto::grant::{Grant, GrantUser, LIFETIME, Signer};
use ferrite_proto::metadata;

use crate::clock::Clock;

/// The repository that tests work with.
pub const REPOSITORY: i64 = 42;

const KEY: [u8; 32] = [7; 32];
const OTHER_KEY: [u8; 32] = [8; 32];

/// Somebody who calls, by the grant they bring.
#[derive(Clone, Debug)]
pub struct TestCaller {
    grant: Option<Grant>,
    key: [u8; 32],
    age: Duration,
    idempotency_key: Option<&'static str>,
    operation: Option<&'static str>,
}

impl TestCaller {
    /// A signed-in user with a level on [`REPOSITORY`].
    #[must_use]
    pub fn user(id: i64, permission: Permission) -> Self {
        let (username, email) = (format!("user{id}"), format!("user{id}@example.com"));
        let user = GrantUser { id, username, full_name: String::new(), email };
        let mut caller = Self::anonymous(permission);
        caller.grant = caller.grant.map(|grant| Grant { user: Some(user), ..grant });
        caller
    }

    /// Nobody in particular, with a grant.
    #[must_use]
    pub fn anonymous(permission: Permission) -> Self {
        let grant = Grant {
            user: None,
            repository: REPOSITORY,
            operation: String::new(),
            permission,
            issues_enabled: true,
            is_mirror: false,
            store: "default".to_owned(),
            epoch: 1,
        };
        Self { grant: Some(grant), key: KEY, age: Duration::ZERO, idempotency_key: None, operation: None }
    }

    /// Somebody who brings nothing.
    #[must_use]
    pub fn without_credentials() -> Self {
        Self { grant: None, ..Self::anonymous(Permission::None) }
    }

    /// With an idempotency key.
    #[must_use]
    pub fn with_key(&self, idempotency_key: &'static str) -> Self {
        Self { idempotency_key: Some(idempotency_key), ..self.clone() }
    }

    /// With a grant that somebody else signed.
    #[must_use]
    pub fn with_other_key(&self) -> Self {
        Self { key: OTHER_KEY, ..self.clone() }
    }

    /// With a grant that was good once.
    #[must_use]
    pub fn expired(&self) -> Self {
        Self { age: LIFETIME + Duration::from_secs(1), ..self.clone() }
    }

    /// With a grant for another repository.
    #[must_use]
    pub fn of_repository(&self, repository: i64) -> Self {
        Self { grant: self.grant.clone().map(|grant| Grant { repository, ..grant }), ..self.clone() }
    }

    /// With a grant for this operation, whatever is called.
    #[must_use]
    pub fn granted(&self, operation: &'static str) -> Self {
        Self { operation: Some(operation), ..self.clone() }
    }

    /// With a grant that says that the repository's issues are switched off.
    #[must_use]
    pub fn without_issues(&self) -> Self {
        Self { grant: self.grant.clone().map(|grant| Grant { issues_enabled: false, ..grant }), ..self.clone() }
    }

    /// A request of this caller to do `operation`, with a grant for it.
    pub fn request<T>(&self, operation: &str, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if let Some(grant) = &self.grant {
            let operation = self.operation.unwrap_or(operation).to_owned();
            let grant = Grant { operation, ..grant.clone() };
            let pem = SigningKey::from_bytes(&self.key).to_pkcs8_pem(LineEnding::LF).unwrap();
            let now = Clock::system().now_secs() - self.age.as_secs();
            let token = Signer::from_pem(pem.as_bytes()).unwrap().sign(grant, now, LIFETIME);
            request.metadata_mut().insert(metadata::GRANT, token.parse().unwrap());
        }
        if let Some(key) = self.idempotency_key {
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, key.parse().unwrap());
        }
        request
    }
}

/// The public half of the key that good grants are signed with.
#[must_use]
pub fn public_key_pem() -> String {
    SigningKey::from_bytes(&KEY).verifying_key().to_public_key_pem(LineEnding::LF).unwrap()
}
