//! Callers of RPCs, for tests of the services.

use std::time::Duration;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use ferrite_core::Clock;
use ferrite_proto::Permission;
use ferrite_proto::grant::{Grant, GrantUser, MAX_GRANT_LIFETIME, Signer, Subject};
use ferrite_proto::metadata;

/// The repository of the callers' grants.
pub const REPOSITORY: i64 = 42;

/// Signs valid grants.
const SIGNING_KEY: [u8; 32] = [7; 32];
/// A key that no service accepts.
const OTHER_SIGNING_KEY: [u8; 32] = [8; 32];

/// A caller of RPCs in tests, with a grant or without credentials.
#[derive(Clone, Debug)]
pub struct TestCaller {
    grant: Option<Grant>,
    key: [u8; 32],
    age: Duration,
    idempotency_key: Option<&'static str>,
    operation: Option<&'static str>,
}

impl TestCaller {
    /// Returns a signed-in user with a level on [`REPOSITORY`].
    #[must_use]
    pub fn user(id: i64, permission: Permission) -> Self {
        let (username, email) = (format!("user{id}"), format!("user{id}@example.com"));
        let user = GrantUser { id, username, email, ..GrantUser::default() };
        let mut caller = Self::anonymous(permission);
        caller.grant = caller.grant.map(|grant| Grant { user: Some(user), ..grant });
        caller
    }

    /// Returns an anonymous caller with a grant for [`REPOSITORY`].
    #[must_use]
    pub fn anonymous(permission: Permission) -> Self {
        let grant = Grant {
            repository: REPOSITORY,
            permission,
            issues_enabled: true,
            pulls_enabled: true,
            store: "default".to_owned(),
            epoch: 1,
            ..Grant::default()
        };
        Self { grant: Some(grant), key: SIGNING_KEY, age: Duration::ZERO, idempotency_key: None, operation: None }
    }

    /// Returns a caller without any credentials.
    #[must_use]
    pub fn without_credentials() -> Self {
        Self { grant: None, ..Self::anonymous(Permission::None) }
    }

    /// Returns this caller with an idempotency key.
    #[must_use]
    pub fn with_key(&self, idempotency_key: &'static str) -> Self {
        Self { idempotency_key: Some(idempotency_key), ..self.clone() }
    }

    /// Returns this caller with a grant signed with another key.
    #[must_use]
    pub fn with_other_key(&self) -> Self {
        Self { key: OTHER_SIGNING_KEY, ..self.clone() }
    }

    /// Returns this caller with an expired grant.
    #[must_use]
    pub fn expired(&self) -> Self {
        Self { age: MAX_GRANT_LIFETIME + Duration::from_secs(1), ..self.clone() }
    }

    /// Returns this caller with a grant for another repository.
    #[must_use]
    pub fn of_repository(&self, repository: i64) -> Self {
        Self { grant: self.grant.clone().map(|grant| Grant { repository, ..grant }), ..self.clone() }
    }

    /// Returns this caller with a grant for a repository that this organization owns.
    #[must_use]
    pub fn of_organization(&self, organization: i64) -> Self {
        Self { grant: self.grant.clone().map(|grant| Grant { organization, ..grant }), ..self.clone() }
    }

    /// Returns this caller with a grant for a subject other than a repository.
    #[must_use]
    pub fn of_subject(&self, subject: Subject) -> Self {
        let grant = self.grant.clone().map(|grant| Grant { subject, repository: 0, ..grant });
        Self { grant, ..self.clone() }
    }

    /// Returns this caller with a grant for `operation`, whichever operation it calls.
    #[must_use]
    pub fn granted(&self, operation: &'static str) -> Self {
        Self { operation: Some(operation), ..self.clone() }
    }

    /// Returns this caller with a grant for a repository whose issue tracker is disabled.
    #[must_use]
    pub fn without_issues(&self) -> Self {
        Self { grant: self.grant.clone().map(|grant| Grant { issues_enabled: false, ..grant }), ..self.clone() }
    }

    /// Returns this caller with a grant for a repository without pull requests.
    #[must_use]
    pub fn without_pulls(&self) -> Self {
        Self { grant: self.grant.clone().map(|grant| Grant { pulls_enabled: false, ..grant }), ..self.clone() }
    }

    /// Returns this caller with a grant for the access token with an id.
    #[must_use]
    pub fn with_token(&self, token_id: i64) -> Self {
        let grant = self
            .grant
            .clone()
            .map(|grant| Grant { user: grant.user.clone().map(|user| GrantUser { token_id, ..user }), ..grant });
        Self { grant, ..self.clone() }
    }

    /// Returns a request of this caller for `operation`, with a grant for it.
    pub fn request<T>(&self, operation: &str, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        if let Some(grant) = &self.grant {
            let operation = self.operation.unwrap_or(operation).to_owned();
            let token = sign(&self.key, Grant { operation, ..grant.clone() }, self.age);
            request.metadata_mut().insert(metadata::GRANT, token.parse().unwrap());
        }
        if let Some(key) = self.idempotency_key {
            request.metadata_mut().insert(metadata::IDEMPOTENCY_KEY, key.parse().unwrap());
        }
        request
    }
}

fn sign(key: &[u8; 32], grant: Grant, age: Duration) -> String {
    let pem = SigningKey::from_bytes(key).to_pkcs8_pem(LineEnding::LF).unwrap();
    let now = Clock::system().now_secs() - age.as_secs();
    Signer::from_pem(pem.as_bytes()).unwrap().sign(grant, now, MAX_GRANT_LIFETIME)
}

/// Returns a grant in the form that services accept.
#[must_use]
pub fn signed(grant: Grant) -> String {
    sign(&SIGNING_KEY, grant, Duration::ZERO)
}

/// Returns the public key of valid grants in PEM form.
#[must_use]
pub fn public_key_pem() -> String {
    SigningKey::from_bytes(&SIGNING_KEY).verifying_key().to_public_key_pem(LineEnding::LF).unwrap()
}
