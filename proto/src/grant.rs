//! Grants: statements signed by repo-svc that allow one caller one operation on one subject,
//! usually a repository.
//!
//! A grant is a JWT (RFC 7519) signed with Ed25519 (RFC 8037). Only repo-svc has the signing key;
//! the other services verify grants offline. A grant is a bearer credential between Ferrite's
//! processes and is never sent to clients.

mod cached_identity;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use crate::jwt::BadKey;
pub use cached_identity::{BadEntry, MAX_ENTRY_LIFETIME};

use crate::Permission;
use crate::events;
use crate::id::{OrganizationId, RepositoryId, UserId};
use crate::jwt;
use crate::repo::reauthorize_access_request::Credential as Requested;
use crate::repo::{PasswordReference, ReauthorizeAccessRequest};

/// Maximum lifetime of a grant.
pub const MAX_GRANT_LIFETIME: Duration = Duration::from_secs(60);

/// Maximum difference between the clocks of two processes. A grant with a lifetime beyond it is
/// rejected.
const MAX_CLOCK_SKEW_SECS: u64 = 30;
const ISSUER: &str = "repo.ferrite";
const AUDIENCE: &str = "ferrite";

/// The statement of a grant, without its signature and lifetime. The default allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The caller. `None` for anonymous callers and deploy keys, which have no user.
    pub user: Option<GrantUser>,
    /// The subject of the operation. A repository in grants without this claim.
    #[serde(default, skip_serializing_if = "Subject::is_repository")]
    pub subject: Subject,
    /// The only repository that the grant is valid for; zero for another subject.
    pub repository: i64,
    /// The only operation that the grant allows, a name in [`crate::operation`].
    pub operation: String,
    /// The caller's permission on the part of the repository that the operation belongs to, limited
    /// by the scopes of its token.
    pub permission: Permission,
    /// True if the issue tracker is on.
    pub issues_enabled: bool,
    /// True if pull requests are on and the caller may read content, and in grants without this claim.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub pulls_enabled: bool,
    /// The organization that owns the repository, whose labels its issues can have. Zero if a user
    /// owns it, for another subject, and in grants without this claim.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub organization: i64,
    /// True if the repository is a mirror, which accepts no writes.
    pub is_mirror: bool,
    /// Name of the store that has the repository.
    pub store: String,
    /// Epoch of the placement. A store rejects grants with an older epoch than the newest it knows.
    pub epoch: i64,
    /// The repositories whose issues commit messages may close and reopen. [`IssueReach::None`] for
    /// operations that move no refs, and in grants without this claim.
    #[serde(default)]
    pub issue_reach: IssueReach,
    /// The access behind a push, which repo-svc checks again before refs move. `None` for other
    /// operations, whose callers have an access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reauthorization: Option<Reauthorization>,
    /// Limits of the accounts that the operation counts for. None in grants without this claim.
    #[serde(default, skip_serializing_if = "GrantLimits::is_empty")]
    pub limits: GrantLimits,
}

/// The subject of a granted operation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// The repository of the grant.
    #[default]
    Repository,
    /// An organization.
    Organization {
        /// Its id.
        id: i64,
        /// Its name in the request to repo-svc.
        name: String,
    },
    /// The site, for a site administrator.
    Site,
    /// The caller's own account.
    User,
}

impl Subject {
    fn is_repository(&self) -> bool {
        *self == Self::Repository
    }
}

/// Limits of the accounts that an operation counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrantLimits {
    /// Storage quota of the repository's owner. `None` if there is none, and for operations that
    /// store no bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteQuota>,
    /// Percentage of the hourly limits that applies to the caller; [`u32::MAX`] for no limits.
    /// `None` for 100, and for operations that are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<u32>,
    /// The account whose limits apply to a caller without a user. For a deploy key: the user who
    /// added it, as long as that user administers the repository, otherwise the owner of the
    /// repository. `None` for users and anonymous callers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<i64>,
}

impl GrantLimits {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Storage quota of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ByteQuota {
    /// Bytes in use.
    pub used: u64,
    /// The limit in bytes.
    pub limit: u64,
}

impl ByteQuota {
    /// Returns the bytes that the owner may still store.
    #[must_use]
    pub fn left(self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

/// The parts of a granted access that the grant itself does not have.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reauthorization {
    /// Id of the repository, also for its wiki.
    pub repository: i64,
    /// True for the wiki of the repository.
    pub is_wiki: bool,
    /// True if the caller authenticated to git.
    pub is_git: bool,
    /// The credential of the caller.
    pub credential: Credential,
}

/// A credential by its id. It authenticates no one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Credential {
    /// No credential.
    Anonymous,
    /// An access token, by id.
    Token(i64),
    /// An SSH key, by fingerprint.
    Key(String),
    /// A password, by account and a digest of its stored hash.
    Password {
        /// Id of the account.
        user: i64,
        /// The digest.
        digest: String,
    },
    /// An account with all its permissions, for what it asked for within a session.
    Account(i64),
}

impl Reauthorization {
    /// Returns the request to repo-svc to check `operation` again.
    #[must_use]
    pub fn request(self, operation: String) -> ReauthorizeAccessRequest {
        let credential = match self.credential {
            Credential::Anonymous => None,
            Credential::Token(id) => Some(Requested::TokenId(id)),
            Credential::Key(fingerprint) => Some(Requested::SshFingerprint(fingerprint)),
            Credential::Password { user, digest } => {
                Some(Requested::Password(PasswordReference { user_id: user, digest }))
            }
            Credential::Account(id) => Some(Requested::UserId(id)),
        };
        let Self { repository, is_wiki, is_git, .. } = self;
        ReauthorizeAccessRequest { repository_id: repository, is_wiki, operation, is_git, credential }
    }
}

/// The repositories whose issues commit messages may close and reopen, as far as the caller's
/// credential reaches. The caller also needs permission there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IssueReach {
    /// None: there is no user, or the token lacks the scope for issues.
    #[default]
    None,
    /// The repository of the commits: the token is limited to some repositories.
    Repository,
    /// All repositories of the user.
    All,
}

impl From<IssueReach> for events::IssueReach {
    fn from(reach: IssueReach) -> Self {
        match reach {
            IssueReach::None => Self::None,
            IssueReach::Repository => Self::Repository,
            IssueReach::All => Self::All,
        }
    }
}

/// The user of a grant, with name and address for commits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrantUser {
    /// Id of the account.
    pub id: i64,
    /// User name.
    pub username: String,
    /// Display name, possibly empty.
    pub full_name: String,
    /// Primary e-mail address.
    pub email: String,
    /// The access token that the user authenticated with, or the token that limits the SSH key.
    /// Zero for a password, for a key without a token, and in grants without this claim.
    #[serde(default)]
    pub token_id: i64,
    /// True if `token_id` is a session.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_session: bool,
}

impl Grant {
    /// Returns the id of the repository.
    #[must_use]
    pub fn repository_id(&self) -> RepositoryId {
        RepositoryId(self.repository)
    }

    /// Returns the organization that owns the repository; `None` if a user does.
    #[must_use]
    pub fn organization_id(&self) -> Option<OrganizationId> {
        (self.organization != 0).then_some(OrganizationId(self.organization))
    }

    /// Returns the id of the caller's account; `None` for anonymous callers and deploy keys.
    #[must_use]
    pub fn user_id(&self) -> Option<UserId> {
        self.user.as_ref().map(|user| UserId(user.id))
    }

    /// Returns the request to repo-svc to check the granted access again. `None` for a caller without
    /// an access token, unless the grant names the access.
    #[must_use]
    pub fn reauthorization(&self) -> Option<ReauthorizeAccessRequest> {
        let token = self.user.as_ref().map_or(0, |user| user.token_id);
        let of_token = || {
            let credential = Credential::Token(token);
            Reauthorization { repository: self.repository, is_wiki: false, is_git: false, credential }
        };
        let access = self.reauthorization.clone().or_else(|| (token != 0).then(of_token));
        Some(access?.request(self.operation.clone()))
    }

    /// Returns the id of the account whose limits apply; `None` for anonymous callers.
    #[must_use]
    pub fn limited_account(&self) -> Option<UserId> {
        self.user_id().or(self.limits.account.map(UserId))
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_yes(value: &bool) -> bool {
    *value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_no(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &i64) -> bool {
    *number == 0
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

/// A grant was rejected. Gives no reason, so that an attacker does not learn which check failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("grant is not valid")]
pub struct BadGrant;

/// Signs grants and cached identities. Only repo-svc has one.
pub struct Signer(EncodingKey);

impl Signer {
    /// Returns a signer with an Ed25519 private key in PEM form (PKCS#8).
    ///
    /// # Errors
    /// If `pem` is not such a key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BadKey> {
        jwt::ed25519_private_key(pem).map(Self)
    }

    /// Derives the secret of repo-svc for another purpose from the private key.
    #[must_use]
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let purpose = Sha256::digest(purpose);
        Sha256::new().chain_update(purpose).chain_update(self.0.as_bytes()).finalize().into()
    }

    /// Signs a grant at the time `now` (seconds since 1970). It is valid for `lifetime`, at most
    /// [`MAX_GRANT_LIFETIME`].
    ///
    /// # Panics
    /// Never: the claims are plain data that always serialise.
    #[must_use]
    pub fn sign(&self, grant: Grant, now: u64, lifetime: Duration) -> String {
        let claims = Claims {
            iss: ISSUER.into(),
            aud: AUDIENCE.into(),
            iat: now,
            exp: now + lifetime.min(MAX_GRANT_LIFETIME).as_secs(),
            grant,
        };
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &self.0)
            .expect("claims are plain data and the key was checked")
    }
}

/// Verifies grants and cached identities offline.
pub struct Verifier {
    key: DecodingKey,
    validation: Validation,
}

impl Verifier {
    /// Returns a verifier with an Ed25519 public key in PEM form (SubjectPublicKeyInfo).
    ///
    /// # Errors
    /// If `pem` is not such a key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, BadKey> {
        let key = jwt::ed25519_public_key(pem)?;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[ISSUER]);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.leeway = 0;
        // `verify_at` checks it against its argument `now`.
        validation.validate_exp = false;
        Ok(Self { key, validation })
    }

    /// Returns the grant in `token` and its expiry (seconds since 1970).
    ///
    /// # Errors
    /// [`BadGrant`] if the key or algorithm is another one, the token is malformed or has expired,
    /// or its lifetime exceeds [`MAX_GRANT_LIFETIME`].
    pub fn verify(&self, token: &str) -> Result<(Grant, u64), BadGrant> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|_| BadGrant)?;
        self.verify_at(token, now.as_secs())
    }

    /// Like [`Verifier::verify`], at the time `now` (seconds since 1970).
    ///
    /// # Errors
    /// As [`Verifier::verify`].
    pub fn verify_at(&self, token: &str, now: u64) -> Result<(Grant, u64), BadGrant> {
        let claims = jsonwebtoken::decode::<Claims>(token, &self.key, &self.validation).map_err(|_| BadGrant)?.claims;
        let lifetime = claims.exp.checked_sub(claims.iat).ok_or(BadGrant)?;
        let left = claims.exp.checked_sub(now).ok_or(BadGrant)?;
        let max_lifetime = MAX_GRANT_LIFETIME.as_secs();
        if lifetime > max_lifetime || left == 0 || left > max_lifetime + MAX_CLOCK_SKEW_SECS {
            return Err(BadGrant);
        }
        Ok((claims.grant, claims.exp))
    }
}

#[cfg(test)]
mod tests;
