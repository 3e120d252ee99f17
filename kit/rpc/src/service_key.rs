//! The keys of roles, and the short-lived tokens that prove a process's role to another process.
//!
//! Every role has an Ed25519 key pair: only the role has its private key, all roles have the public
//! keys. A token is a JWT (RFC 7519) that names its signer and the one role that may accept it. So
//! a service cannot reuse a token that it received, and the files of one role do not suffice to
//! impersonate another.

mod merge_permit;
mod public_keys;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferrite_core::Clock;
use ferrite_core::startup::StartError;
use ferrite_proto::{ServiceRole, jwt};
use jsonwebtoken::{Algorithm, EncodingKey, Header, Validation};
use moka::sync::Cache;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use merge_permit::{MAX_REVIEWERS, MergePermit, ReviewFacts};
pub use public_keys::ServicePublicKeys;

/// Lifetime of a service token. A new one is made after half of it.
const TOKEN_LIFETIME_SECS: u64 = 60;
/// Largest accepted difference between the clocks of two processes.
const MAX_CLOCK_SKEW_SECS: u64 = 30;
/// Verified tokens in memory, whose signature is not checked again. Each process uses one token at
/// a time per callee.
const MAX_CACHED_TOKENS: u64 = 1000;
/// Real tokens have some 250 bytes.
const MAX_TOKEN_BYTES: usize = 1024;
/// Prefix of a role in the `iss` and `aud` claims.
const CLAIM_PREFIX: &str = "ferrite/";

/// The private key of a role. Signs service tokens with Ed25519 (RFC 8037).
#[derive(Clone)]
pub struct ServiceKey(EncodingKey);

/// Why the keys of roles cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServiceKeyError {
    /// A file or the folder is unreadable.
    #[error("service key `{0}`")]
    Read(String, #[source] std::io::Error),
    /// A file has no key of the right kind.
    #[error("service key `{0}` is not an Ed25519 {1} key in PEM form")]
    Malformed(String, &'static str),
    /// The private key of this process matches none of the public keys of its role, so other
    /// processes would reject it.
    #[error("service key `{key}` does not belong to `{role}.pub.pem` or `{role}.next.pub.pem` in `{folder}`")]
    Mismatch {
        /// Path of the private key.
        key: String,
        /// The role of the process.
        role: ServiceRole,
        /// Folder of the public keys.
        folder: String,
    },
}

impl From<ServiceKeyError> for StartError {
    fn from(error: ServiceKeyError) -> Self {
        Self::Unusable(Box::new(error))
    }
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    exp: u64,
}

impl ServiceKey {
    /// Parses a private key in PEM form (PKCS#8).
    ///
    /// # Errors
    /// [`jwt::BadKey`] if it is not such a key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, jwt::BadKey> {
        jwt::ed25519_private_key(pem).map(Self)
    }

    /// Reads a key from a file.
    ///
    /// # Errors
    /// [`ServiceKeyError::Read`] if the file is unreadable, [`ServiceKeyError::Malformed`] if it
    /// has no such key.
    pub fn read(path: &Path) -> Result<Self, ServiceKeyError> {
        let name = || path.display().to_string();
        let pem = std::fs::read(path).map_err(|error| ServiceKeyError::Read(name(), error))?;
        Self::from_pem(&pem).map_err(|_| ServiceKeyError::Malformed(name(), "private"))
    }

    fn sign(&self, signer: ServiceRole, audience: ServiceRole, now_secs: u64) -> String {
        let claims = Claims { iss: claim(signer), aud: claim(audience), exp: now_secs + TOKEN_LIFETIME_SECS };
        // The key id selects the public keys before a signature is checked.
        let header = Header { kid: Some(signer.as_str().to_owned()), ..Header::new(Algorithm::EdDSA) };
        jsonwebtoken::encode(&header, &claims, &self.0).expect("the claims are plain data and the key was checked")
    }
}

impl std::fmt::Debug for ServiceKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ServiceKey([secret])")
    }
}

fn claim(role: ServiceRole) -> String {
    format!("{CLAIM_PREFIX}{role}")
}

/// Verifies the service tokens sent to one role. Clones share the cache.
#[derive(Clone)]
pub struct ServiceVerifier {
    keys: ServicePublicKeys,
    audience: ServiceRole,
    /// Verified tokens, with their signer and expiry (seconds since 1970).
    verified: Cache<String, (ServiceRole, u64)>,
}

impl ServiceVerifier {
    /// Returns a verifier of tokens for `audience`, the role of this process.
    #[must_use]
    pub fn new(keys: ServicePublicKeys, audience: ServiceRole) -> Self {
        let lifetime = Duration::from_secs(TOKEN_LIFETIME_SECS + 2 * MAX_CLOCK_SKEW_SECS);
        let verified = Cache::builder().max_capacity(MAX_CACHED_TOKENS).time_to_live(lifetime).build();
        Self { keys, audience, verified }
    }

    /// Returns the role that tokens must be for.
    #[must_use]
    pub fn audience(&self) -> ServiceRole {
        self.audience
    }

    /// Returns the role that `token` proves at `now_secs` (seconds since 1970); `None` if the token
    /// is invalid then, or is for another role.
    #[must_use]
    pub fn verify_at(&self, token: &str, now_secs: u64) -> Option<ServiceRole> {
        if token.len() > MAX_TOKEN_BYTES {
            return None;
        }
        if let Some((signer, expiry)) = self.verified.get(token) {
            return is_current(expiry, now_secs).then_some(signer);
        }
        let (signer, expiry) = self.check(token)?;
        if !is_current(expiry, now_secs) {
            return None;
        }
        self.verified.insert(token.to_owned(), (signer, expiry));
        Some(signer)
    }

    /// Checks signature and claims, except for the time.
    fn check(&self, token: &str) -> Option<(ServiceRole, u64)> {
        let signer = ServiceRole::parse(&jsonwebtoken::decode_header(token).ok()?.kid?)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[claim(signer)]);
        validation.set_audience(&[claim(self.audience)]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        // The caller checks it against its clock.
        validation.validate_exp = false;
        let verify = |keys: &[jsonwebtoken::DecodingKey]| {
            keys.iter().find_map(|key| jsonwebtoken::decode::<Claims>(token, key, &validation).ok())
        };
        // If no key in memory fits, the token may be signed with one that was added since.
        let verified = verify(&self.keys.of(signer)).or_else(|| verify(&self.keys.reread(signer)?))?;
        Some((signer, verified.claims.exp))
    }
}

fn is_current(expiry_secs: u64, now_secs: u64) -> bool {
    now_secs < expiry_secs.saturating_add(MAX_CLOCK_SKEW_SECS)
        && expiry_secs <= now_secs.saturating_add(TOKEN_LIFETIME_SECS + MAX_CLOCK_SKEW_SECS)
}

/// Issues the service tokens of this process, one per role that it calls. Each is used for half of
/// its lifetime.
pub struct ServiceTokenSource {
    key: ServiceKey,
    role: ServiceRole,
    clock: Clock,
    /// When the newest token for each role was signed (seconds since 1970), and its text, in the
    /// order of [`ServiceRole::ALL`].
    current: [Mutex<(u64, Arc<str>)>; ServiceRole::ALL.len()],
}

impl std::fmt::Debug for ServiceTokenSource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ServiceTokenSource").field("role", &self.role).finish_non_exhaustive()
    }
}

impl ServiceTokenSource {
    /// Returns a source of tokens signed with the key of `role`.
    #[must_use]
    pub fn new(key: ServiceKey, role: ServiceRole, clock: Clock) -> Self {
        Self { key, role, clock, current: ServiceRole::ALL.map(|_| Mutex::new((0, Arc::from("")))) }
    }

    /// Returns a token for `audience` that is valid for at least half of its lifetime.
    ///
    /// # Panics
    /// Never: nothing panics while the lock is held.
    pub fn token(&self, audience: ServiceRole) -> Arc<str> {
        let now = self.clock.now_secs();
        let slot = ServiceRole::ALL.iter().zip(&self.current).find(|(role, _)| **role == audience);
        let slot = slot.expect("every role is in `ALL`").1;
        let mut current = slot.lock();
        // If the clock was set back, a token that now seems to be signed in the future would be
        // kept for hours and rejected.
        if current.1.is_empty() || now >= current.0 + TOKEN_LIFETIME_SECS / 2 || now < current.0 {
            *current = (now, self.key.sign(self.role, audience, now).into());
        }
        Arc::clone(&current.1)
    }

    /// Checks that other processes will accept the tokens of this one. `path` is the file of the
    /// key.
    ///
    /// # Errors
    /// [`ServiceKeyError::Mismatch`] if the key matches none of the public keys of the role.
    pub fn check(&self, keys: &ServicePublicKeys, path: &Path) -> Result<(), ServiceKeyError> {
        let own = ServiceVerifier::new(keys.clone(), self.role);
        match own.check(&self.token(self.role)) {
            Some(_) => Ok(()),
            None => Err(ServiceKeyError::Mismatch {
                key: path.display().to_string(),
                role: self.role,
                folder: keys.folder().display().to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
