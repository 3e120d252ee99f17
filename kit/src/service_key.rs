//! The key that the processes of an installation share, and the short-lived tokens by which a process proves its role to another.
//!
//! Not here: credentials of users.

use std::path::Path;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// How long a service credential is valid; it is renewed long before.
const LIFETIME_SECS: u64 = 60;
/// How far the clocks of two processes may be apart.
const SKEW_SECS: u64 = 30;
const AUDIENCE: &str = "ferrite-service";
const MIN_KEY_BYTES: usize = 32;

/// The key that Ferrite's own processes share: proves to one that another is calling.
#[derive(Clone)]
pub struct ServiceKey(Vec<u8>);

/// Why a service key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ServiceKeyError {
    /// The file cannot be read.
    #[error("service key file `{0}`")]
    Read(String, #[source] std::io::Error),
    /// It is too short to be a secret.
    #[error("service key must have at least 32 bytes")]
    Short,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    aud: String,
    sub: String,
    exp: u64,
}

impl ServiceKey {
    /// A key from its bytes.
    ///
    /// # Errors
    /// When there are too few of them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, ServiceKeyError> {
        ferrite_proto::jwt::install();
        let bytes = bytes.into();
        if bytes.len() < MIN_KEY_BYTES { Err(ServiceKeyError::Short) } else { Ok(Self(bytes)) }
    }

    /// A key from a file; white space around it is not part of it.
    ///
    /// # Errors
    /// When the file cannot be read or holds too few bytes.
    pub fn read(path: &Path) -> Result<Self, ServiceKeyError> {
        let bytes = std::fs::read(path).map_err(|error| ServiceKeyError::Read(path.display().to_string(), error))?;
        Self::new(bytes.trim_ascii())
    }

    /// The role that `token` proves its bearer to be, if it does.
    #[must_use]
    pub fn verify(&self, token: &str) -> Option<String> {
        self.verify_at(token, Clock::system().now_secs())
    }

    /// The same as [`ServiceKey::verify`], when it is `now_secs` (seconds since 1970).
    #[must_use]
    pub fn verify_at(&self, token: &str, now_secs: u64) -> Option<String> {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        let key = DecodingKey::from_secret(&self.0);
        // Checked below, against the caller's clock.
        validation.validate_exp = false;
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation).ok()?.claims;
        let is_current =
            now_secs < claims.exp.saturating_add(SKEW_SECS) && claims.exp <= now_secs + LIFETIME_SECS + SKEW_SECS;
        is_current.then_some(claims.sub)
    }

    fn sign(&self, role: &str, now_secs: u64) -> String {
        let claims = Claims { aud: AUDIENCE.into(), sub: role.into(), exp: now_secs + LIFETIME_SECS };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(&self.0))
            .expect("the claims are plain data")
    }
}

impl std::fmt::Debug for ServiceKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ServiceKey([secret])")
    }
}

/// What a process shows to prove its role: signed anew every half lifetime.
#[derive(Debug)]
pub struct ServiceTokenSource {
    key: ServiceKey,
    role: &'static str,
    clock: Clock,
    current: std::sync::Mutex<(u64, String)>,
}

impl ServiceTokenSource {
    /// The credential of `role`.
    #[must_use]
    pub fn new(key: ServiceKey, role: &'static str, clock: Clock) -> Self {
        Self { key, role, clock, current: std::sync::Mutex::new((0, String::new())) }
    }

    /// A token that is valid for at least half a lifetime.
    ///
    /// # Panics
    /// Never: nothing panics while the lock is held.
    pub fn token(&self) -> String {
        let now = self.clock.now_secs();
        let mut current = self.current.lock().expect("nothing panics while it is held");
        // A clock that was set back must not leave us with a token from the future for hours.
        if current.1.is_empty() || now >= current.0 + LIFETIME_SECS / 2 || now < current.0 {
            *current = (now, self.key.sign(self.role, now));
        }
        current.1.clone()
    }
}
