//! The key that the processes of an installation share, and the short-lived tokens by which a process proves its role to another.
//!
//! Not here: credentials of users.

use std::path::Path;

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// Lifetime of a service token. A new one is made after half of it.
const TOKEN_LIFETIME_SECS: u64 = 60;
/// Largest accepted difference between the clocks of two processes.
const MAX_CLOCK_SKEW_SECS: u64 = 30;
const AUDIENCE: &str = "ferrite-service";
const MIN_KEY_BYTES: usize = 32;

/// The secret that all processes of an installation share. Signs and verifies service tokens (HMAC).
#[derive(Clone)]
pub struct ServiceKey(Vec<u8>);

/// The error of reading a service key.
#[derive(Debug, thiserror::Error)]
pub enum ServiceKeyError {
    /// The file cannot be read.
    #[error("service key file `{0}`")]
    Read(String, #[source] std::io::Error),
    /// The key has fewer than 32 bytes.
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
    /// Returns the key with these bytes.
    ///
    /// # Errors
    /// [`ServiceKeyError::Short`] when there are fewer than 32.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, ServiceKeyError> {
        ferrite_proto::jwt::install();
        let bytes = bytes.into();
        if bytes.len() < MIN_KEY_BYTES { Err(ServiceKeyError::Short) } else { Ok(Self(bytes)) }
    }

    /// Reads a key from a file, without the white space around it.
    ///
    /// # Errors
    /// When the file cannot be read or holds too few bytes.
    pub fn read(path: &Path) -> Result<Self, ServiceKeyError> {
        let bytes = std::fs::read(path).map_err(|error| ServiceKeyError::Read(path.display().to_string(), error))?;
        Self::new(bytes.trim_ascii())
    }

    /// Returns the role that `token` proves; `None` if it is not a valid token at this moment.
    #[must_use]
    pub fn verify(&self, token: &str) -> Option<String> {
        self.verify_at(token, Clock::system().now_secs())
    }

    /// Returns the role that `token` proves at the time `now_secs` (seconds since 1970); `None` if it is not valid then.
    #[must_use]
    pub fn verify_at(&self, token: &str, now_secs: u64) -> Option<String> {
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        let key = DecodingKey::from_secret(&self.0);
        // Checked below, against `now_secs`.
        validation.validate_exp = false;
        let claims = jsonwebtoken::decode::<Claims>(token, &key, &validation).ok()?.claims;
        let is_current = now_secs < claims.exp.saturating_add(MAX_CLOCK_SKEW_SECS)
            && claims.exp <= now_secs + TOKEN_LIFETIME_SECS + MAX_CLOCK_SKEW_SECS;
        is_current.then_some(claims.sub)
    }

    fn sign(&self, role: &str, now_secs: u64) -> String {
        let claims = Claims { aud: AUDIENCE.into(), sub: role.into(), exp: now_secs + TOKEN_LIFETIME_SECS };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(&self.0))
            .expect("the claims are plain data")
    }
}

impl std::fmt::Debug for ServiceKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ServiceKey([secret])")
    }
}

/// Makes service tokens: short-lived JWTs (RFC 7519) that prove the role of this process. Each is used for half of its lifetime.
#[derive(Debug)]
pub struct ServiceTokenSource {
    key: ServiceKey,
    role: &'static str,
    clock: Clock,
    /// Time of signing (seconds since 1970) and text of the newest token.
    current: std::sync::Mutex<(u64, String)>,
}

impl ServiceTokenSource {
    /// Returns a source of tokens for `role`.
    #[must_use]
    pub fn new(key: ServiceKey, role: &'static str, clock: Clock) -> Self {
        Self { key, role, clock, current: std::sync::Mutex::new((0, String::new())) }
    }

    /// Returns a token that is valid for at least another half of its lifetime.
    ///
    /// # Panics
    /// Never: nothing panics while the lock is held.
    pub fn token(&self) -> String {
        let now = self.clock.now_secs();
        let mut current = self.current.lock().expect("nothing panics while it is held");
        // After the clock was set back, a token signed in what is now the future would be kept for hours, and refused.
        if current.1.is_empty() || now >= current.0 + TOKEN_LIFETIME_SECS / 2 || now < current.0 {
            *current = (now, self.key.sign(self.role, now));
        }
        current.1.clone()
    }
}
