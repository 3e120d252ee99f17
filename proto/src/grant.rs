//! Grants: signed statements of repo-svc about what one caller may do to one repository.
//!
//! A grant is a JWT (RFC 7519) signed with Ed25519 (RFC 8037). Only repo-svc holds the signing key; every other service checks
//! grants offline. A grant is a bearer credential between Ferrite's own processes and never leaves them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

pub use crate::jwt::BadKey;

use crate::Permission;
use crate::id::{RepositoryId, UserId};
use crate::jwt;

/// How long a grant is valid.
pub const LIFETIME: Duration = Duration::from_secs(60);

/// How far the clocks of two processes may be apart before grants are refused rather than trusted for longer.
const SKEW_SECS: u64 = 30;
const ISSUER: &str = "repo.ferrite";
const AUDIENCE: &str = "ferrite";

/// What repo-svc states about one caller and one repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The caller; absent for anonymous callers and for deploy keys, which are nobody's.
    pub user: Option<GrantUser>,
    /// The repository the grant is for, and no other.
    pub repository: i64,
    /// What the caller may do to it, and nothing else: one of the names in [`crate::operation`].
    pub operation: String,
    /// The caller's level on the part of the repository that the operation belongs to, as far as its token reaches.
    pub permission: Permission,
    /// Whether the issue tracker is switched on.
    pub issues_enabled: bool,
    /// Whether the repository follows a remote, so that nobody writes to it.
    pub is_mirror: bool,
    /// The store the repository is on.
    pub store: String,
    /// The placement's epoch: a store refuses any but the newest it knows.
    pub epoch: i64,
}

/// The caller inside a grant: enough to sign a commit with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrantUser {
    /// The account.
    pub id: i64,
    /// The name the account signs in with.
    pub username: String,
    /// The display name, possibly empty.
    pub full_name: String,
    /// The primary e-mail address.
    pub email: String,
}

impl Grant {
    /// The repository the grant is for.
    #[must_use]
    pub fn repository_id(&self) -> RepositoryId {
        RepositoryId(self.repository)
    }

    /// The caller's account, unless anonymous.
    #[must_use]
    pub fn user_id(&self) -> Option<UserId> {
        self.user.as_ref().map(|user| UserId(user.id))
    }
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    iat: u64,
    exp: u64,
    #[serde(flatten)]
    grant: Grant,
}

/// Why a grant is refused. Deliberately says no more: the bearer is not to learn what would pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("grant is not valid")]
pub struct BadGrant;

/// Signs grants. Held by repo-svc alone.
pub struct Signer(EncodingKey);

impl Signer {
    /// A signer with the Ed25519 private key in PEM form (PKCS#8).
    ///
    /// # Errors
    /// When `pem` is not such a key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BadKey> {
        jwt::ed25519_private_key(pem).map(Self)
    }

    /// A grant signed at `now` (seconds since 1970), valid for `lifetime` but never longer than [`LIFETIME`].
    ///
    /// # Panics
    /// Never: the claims are plain data that always serialise.
    #[must_use]
    pub fn sign(&self, grant: Grant, now: u64, lifetime: Duration) -> String {
        let claims = Claims {
            iss: ISSUER.into(),
            aud: AUDIENCE.into(),
            iat: now,
            exp: now + lifetime.min(LIFETIME).as_secs(),
            grant,
        };
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &self.0)
            .expect("claims are plain data and the key was checked")
    }
}

/// Checks grants offline.
pub struct Verifier {
    key: DecodingKey,
    validation: Validation,
}

impl Verifier {
    /// A verifier with the Ed25519 public key in PEM form (SubjectPublicKeyInfo).
    ///
    /// # Errors
    /// When `pem` is not such a key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BadKey> {
        let key = jwt::ed25519_public_key(pem)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[ISSUER]);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.leeway = 0;
        // Checked in `verify_at`, against the caller's clock.
        validation.validate_exp = false;
        Ok(Self { key, validation })
    }

    /// The grant in `token` and the second (since 1970) at which it expires.
    ///
    /// # Errors
    /// [`BadGrant`] for another key or algorithm, a wrong form, a lifetime beyond [`LIFETIME`], and after expiry.
    pub fn verify(&self, token: &str) -> Result<(Grant, u64), BadGrant> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| BadGrant)?;
        self.verify_at(token, now.as_secs())
    }

    /// The same as [`Verifier::verify`], when it is `now` (seconds since 1970).
    ///
    /// # Errors
    /// As [`Verifier::verify`].
    pub fn verify_at(&self, token: &str, now: u64) -> Result<(Grant, u64), BadGrant> {
        let claims = jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation).map_err(|_| BadGrant)?.claims;
        let lifetime = claims.exp.checked_sub(claims.iat).ok_or(BadGrant)?;
        let left = claims.exp.checked_sub(now).ok_or(BadGrant)?;
        let longest = LIFETIME.as_secs();
        if lifetime > longest || left == 0 || left > longest + SKEW_SECS {
            return Err(BadGrant);
        }
        Ok((claims.grant, claims.exp))
    }
}

#[cfg(test)]
mod tests;
