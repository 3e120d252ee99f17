//! Permits for merges: issue-svc signs that a pull request may be merged, git-svc verifies it.

use ferrite_proto::ServiceRole;
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation};
use serde::{Deserialize, Serialize};

use super::{ServiceTokenSource, ServiceVerifier, TOKEN_LIFETIME_SECS, claim, is_current};

/// Real permits have some 600 bytes, the name of a branch, and up to [`MAX_REVIEWERS`] of each kind.
const MAX_PERMIT_BYTES: usize = 24 * 1024;
/// The users of each kind in [`ReviewFacts`].
pub const MAX_REVIEWERS: usize = 200;
/// Tells permits from service tokens, which the same key signs.
const AUDIENCE: &str = "ferrite/merge";

/// What issue-svc permits: one merge by one user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergePermit {
    /// Id of the repository of the base.
    pub repository: i64,
    /// The number of the pull request.
    pub number: i64,
    /// The target branch, short name.
    pub base_branch: String,
    /// The only commit of the head that may be merged.
    pub head_id: String,
    /// The style, a number of `ferrite.git.v1.MergeStyle`.
    pub style: i32,
    /// The user who merges.
    pub user: i64,
    /// What reviewers say about it.
    #[serde(default)]
    pub reviews: ReviewFacts,
}

/// The reviews of a pull request that count: the latest of each user that approves or rejects, of
/// users who can write to the repository at this moment. At most [`MAX_REVIEWERS`] of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewFacts {
    /// Who approves the head.
    pub approvals: Vec<i64>,
    /// Who approved an earlier head.
    pub stale_approvals: Vec<i64>,
    /// Who rejects the pull request, at this head or an earlier one.
    pub rejections: Vec<i64>,
    /// Whether a team, or a user who can write, is asked for a review.
    pub has_requests: bool,
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: String,
    exp: u64,
    merge: MergePermit,
}

impl ServiceTokenSource {
    /// Signs a permit, valid for a minute.
    ///
    /// # Panics
    /// Never: the claims are plain data and the key was checked.
    #[must_use]
    pub fn sign_merge_permit(&self, merge: MergePermit) -> String {
        let exp = self.clock.now_secs() + TOKEN_LIFETIME_SECS;
        let claims = Claims { iss: claim(self.role), aud: AUDIENCE.to_owned(), exp, merge };
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), &claims, &self.key.0)
            .expect("the claims are plain data and the key was checked")
    }
}

impl ServiceVerifier {
    /// Returns the permit in `text`; `None` if issue-svc did not sign it, or if it has expired.
    #[must_use]
    pub fn verify_merge_permit(&self, text: &str, now_secs: u64) -> Option<MergePermit> {
        if text.len() > MAX_PERMIT_BYTES {
            return None;
        }
        let signer = ServiceRole::IssueSvc;
        let mut validation = Validation::new(Algorithm::EdDSA);
        validation.set_issuer(&[claim(signer)]);
        validation.set_audience(&[AUDIENCE]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        // Checked against the caller's clock.
        validation.validate_exp = false;
        let verify = |keys: &[DecodingKey]| {
            keys.iter().find_map(|key| jsonwebtoken::decode::<Claims>(text, key, &validation).ok())
        };
        // If no key in memory fits, the permit may be signed with one that was added since.
        let verified = verify(&self.keys.of(signer)).or_else(|| verify(&self.keys.reread(signer)?))?;
        is_current(verified.claims.exp, now_secs).then_some(verified.claims.merge)
    }
}

#[cfg(test)]
mod tests {
    use ferrite_core::Clock;

    use super::*;
    use crate::testing::ServiceKeys;

    fn permit() -> MergePermit {
        MergePermit {
            repository: 1,
            number: 2,
            base_branch: "main".to_owned(),
            head_id: "a".repeat(40),
            style: 1,
            user: 3,
            reviews: ReviewFacts { approvals: vec![4], ..ReviewFacts::default() },
        }
    }

    #[test]
    fn only_a_current_permit_of_issue_svc_is_valid() {
        let folder = tempfile::tempdir().unwrap();
        let keys = ServiceKeys::write(folder.path());
        let clock = Clock::system();
        let verifier = ServiceVerifier::new(keys.public(), ServiceRole::GitSvc);
        let signed = keys.token_source(ServiceRole::IssueSvc, &clock).sign_merge_permit(permit());
        let now = clock.now_secs();
        assert_eq!(verifier.verify_merge_permit(&signed, now), Some(permit()));
        assert_eq!(verifier.verify_merge_permit(&signed, now + 2 * TOKEN_LIFETIME_SECS), None);
        assert_eq!(verifier.verify_at(&signed, now), None, "a permit is no service token");

        let of_gateway = keys.token_source(ServiceRole::Gateway, &clock).sign_merge_permit(permit());
        assert_eq!(verifier.verify_merge_permit(&of_gateway, now), None);
        let token = keys.token_source(ServiceRole::IssueSvc, &clock).token(ServiceRole::GitSvc);
        assert_eq!(verifier.verify_merge_permit(&token, now), None, "a service token is no permit");
        let other = ServiceKeys::write(&folder.path().join("other"));
        let forged = other.token_source(ServiceRole::IssueSvc, &clock).sign_merge_permit(permit());
        assert_eq!(verifier.verify_merge_permit(&forged, now), None);
    }
}
