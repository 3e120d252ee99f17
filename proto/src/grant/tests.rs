use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{EncodePrivateKey, EncodePublicKey};
use hmac::{Hmac, KeyInit as _, Mac as _};
use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::Sha256;

use super::*;

const NOW: u64 = 1_800_000_000;

struct Keys {
    private: String,
    public: String,
}

impl Keys {
    fn new(seed: u8) -> Self {
        let key = SigningKey::from_bytes(&[seed; 32]);
        Self {
            private: key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
            public: key.verifying_key().to_public_key_pem(LineEnding::LF).unwrap(),
        }
    }

    fn signer(&self) -> Signer {
        Signer::from_pem(self.private.as_bytes()).unwrap()
    }

    fn verifier(&self) -> Verifier {
        Verifier::from_pem(self.public.as_bytes()).unwrap()
    }

    /// Signs any claims with the private key.
    fn forge(&self, claims: &Value) -> String {
        let key = jwt::ed25519_private_key(self.private.as_bytes()).unwrap();
        jsonwebtoken::encode(&Header::new(Algorithm::EdDSA), claims, &key).unwrap()
    }
}

fn grant() -> Grant {
    Grant {
        user: Some(GrantUser {
            id: 7,
            username: "ada".into(),
            full_name: "Ada".into(),
            email: "ada@example.org".into(),
            token_id: 9,
            is_session: true,
        }),
        subject: Subject::Repository,
        repository: 42,
        operation: crate::operation::LIST_ISSUES.into(),
        permission: Permission::Write,
        issues_enabled: true,
        pulls_enabled: true,
        organization: 6,
        is_mirror: false,
        store: "default".into(),
        epoch: 3,
        issue_reach: IssueReach::All,
        reauthorization: None,
        limits: GrantLimits::default(),
    }
}

fn claims() -> Value {
    let mut claims = serde_json::to_value(grant()).unwrap();
    for (name, value) in
        [("iss", json!(ISSUER)), ("aud", json!(AUDIENCE)), ("iat", json!(NOW)), ("exp", json!(NOW + 60))]
    {
        claims[name] = value;
    }
    claims
}

#[test]
fn a_verified_grant_equals_the_signed_one() {
    let keys = Keys::new(1);
    let token = keys.signer().sign(grant(), NOW, MAX_GRANT_LIFETIME);
    assert_eq!(keys.verifier().verify_at(&token, NOW), Ok((grant(), NOW + 60)));
    let (back, _) = keys.verifier().verify_at(&token, NOW).unwrap();
    assert_eq!((back.repository_id(), back.user_id()), (RepositoryId(42), Some(UserId(7))));
}

#[test]
fn a_derived_secret_belongs_to_one_key_and_one_purpose() {
    let derive = |seed, purpose| Keys::new(seed).signer().derive(purpose);
    assert_eq!(derive(1, "one"), derive(1, "one"));
    assert_ne!(derive(1, "one"), derive(1, "two"));
    assert_ne!(derive(1, "one"), derive(2, "one"));
}

#[test]
fn verify_uses_the_system_clock() {
    let keys = Keys::new(1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(keys.verifier().verify(&keys.signer().sign(grant(), now, MAX_GRANT_LIFETIME)).is_ok());
    assert_eq!(keys.verifier().verify(&keys.signer().sign(grant(), now - 61, MAX_GRANT_LIFETIME)), Err(BadGrant));
}

#[test]
fn a_grant_may_be_about_another_subject_than_a_repository() {
    let keys = Keys::new(1);
    let organization = Subject::Organization { id: 5, name: "acme".into() };
    for subject in [Subject::Repository, organization, Subject::Site, Subject::User] {
        let grant = Grant { subject, ..grant() };
        let token = keys.signer().sign(grant.clone(), NOW, MAX_GRANT_LIFETIME);
        assert_eq!(keys.verifier().verify_at(&token, NOW), Ok((grant, NOW + 60)));
    }
    // Older processes sign and read grants for repositories without the claim.
    assert!(claims().get("subject").is_none());
    assert_eq!(keys.verifier().verify_at(&keys.forge(&claims()), NOW).unwrap().0.subject, Subject::Repository);
    let mut unknown = claims();
    unknown["subject"] = json!("galaxy");
    assert_eq!(keys.verifier().verify_at(&keys.forge(&unknown), NOW), Err(BadGrant));
}

#[test]
fn an_anonymous_grant_has_no_user() {
    let keys = Keys::new(1);
    let token = keys.signer().sign(Grant { user: None, ..grant() }, NOW, MAX_GRANT_LIFETIME);
    assert_eq!(keys.verifier().verify_at(&token, NOW).unwrap().0.user_id(), None);
}

#[test]
fn a_grant_is_refused_from_the_second_of_its_expiry() {
    let keys = Keys::new(1);
    let token = keys.signer().sign(grant(), NOW, Duration::from_secs(10));
    assert!(keys.verifier().verify_at(&token, NOW + 9).is_ok());
    assert_eq!(keys.verifier().verify_at(&token, NOW + 10), Err(BadGrant));
    assert_eq!(keys.verifier().verify_at(&token, u64::MAX), Err(BadGrant));
}

#[test]
fn no_grant_is_signed_for_longer_than_the_lifetime() {
    let keys = Keys::new(1);
    let token = keys.signer().sign(grant(), NOW, Duration::from_secs(86_400));
    assert_eq!(keys.verifier().verify_at(&token, NOW).unwrap().1, NOW + 60);
}

#[test]
fn a_grant_of_another_key_is_refused() {
    let token = Keys::new(2).signer().sign(grant(), NOW, MAX_GRANT_LIFETIME);
    assert_eq!(Keys::new(1).verifier().verify_at(&token, NOW), Err(BadGrant));
}

#[test]
fn a_grant_without_a_signature_is_refused() {
    let verifier = Keys::new(1).verifier();
    let body = BASE64.encode(claims().to_string());
    for algorithm in ["none", "None", "NONE", ""] {
        let header = BASE64.encode(json!({ "alg": algorithm, "typ": "JWT" }).to_string());
        for signature in ["", ".", ".AAAA"] {
            assert_eq!(verifier.verify_at(&format!("{header}.{body}{signature}"), NOW), Err(BadGrant), "{algorithm}");
        }
    }
}

#[test]
fn the_public_key_is_not_a_shared_secret() {
    let keys = Keys::new(1);
    let header = BASE64.encode(json!({"alg": "HS256", "typ": "JWT"}).to_string());
    let text = format!("{header}.{}", BASE64.encode(claims().to_string()));
    let mac = Hmac::<Sha256>::new_from_slice(keys.public.as_bytes()).unwrap().chain_update(&text);
    let token = format!("{text}.{}", BASE64.encode(mac.finalize().into_bytes()));
    assert_eq!(keys.verifier().verify_at(&token, NOW), Err(BadGrant));
    // The same with other symmetric algorithms. None of them is compiled in.
    let (_, signed) = token.split_once('.').unwrap();
    for algorithm in ["HS384", "HS512"] {
        let header = BASE64.encode(json!({"alg": algorithm, "typ": "JWT"}).to_string());
        assert_eq!(keys.verifier().verify_at(&format!("{header}.{signed}"), NOW), Err(BadGrant), "{algorithm}");
    }
}

#[test]
fn every_claim_is_required_and_checked() {
    let keys = Keys::new(1);
    assert!(keys.verifier().verify_at(&keys.forge(&claims()), NOW).is_ok());
    for (name, value) in [
        ("iss", json!("elsewhere")),
        ("aud", json!("elsewhere")),
        ("exp", json!(NOW + 61)),
        ("exp", json!(NOW - 1)),
        ("exp", json!("soon")),
        ("iat", json!(NOW + 1_000_000)),
        ("iat", json!(-1)),
        ("permission", json!("root")),
        ("repository", json!("42")),
        ("operation", json!(7)),
    ] {
        let mut changed = claims();
        changed[name] = value.clone();
        assert_eq!(keys.verifier().verify_at(&keys.forge(&changed), NOW), Err(BadGrant), "{name} = {value}");
    }
    for name in [
        "iss",
        "aud",
        "exp",
        "iat",
        "repository",
        "operation",
        "permission",
        "store",
        "epoch",
        "is_mirror",
        "issues_enabled",
    ] {
        let mut changed = claims();
        changed.as_object_mut().unwrap().remove(name);
        assert_eq!(keys.verifier().verify_at(&keys.forge(&changed), NOW), Err(BadGrant), "without {name}");
    }
}

#[test]
fn a_grant_without_a_reach_reaches_no_issues() {
    let keys = Keys::new(1);
    let mut changed = claims();
    changed.as_object_mut().unwrap().remove("issue_reach");
    let expected = Grant { issue_reach: IssueReach::None, ..grant() };
    assert_eq!(keys.verifier().verify_at(&keys.forge(&changed), NOW), Ok((expected, NOW + 60)));
    changed["issue_reach"] = json!("everywhere");
    assert_eq!(keys.verifier().verify_at(&keys.forge(&changed), NOW), Err(BadGrant));
}

#[test]
fn limits_are_signed_and_a_grant_without_them_has_none() {
    let keys = Keys::new(1);
    assert!(claims().get("limits").is_none(), "a grant without limits is not longer for them");
    let quota = ByteQuota { used: 70, limit: 100 };
    let limited =
        Grant { limits: GrantLimits { bytes: Some(quota), rate_percent: Some(u32::MAX), account: None }, ..grant() };
    let token = keys.signer().sign(limited.clone(), NOW, MAX_GRANT_LIFETIME);
    assert_eq!(keys.verifier().verify_at(&token, NOW), Ok((limited, NOW + 60)));
    assert_eq!((quota.left(), ByteQuota { used: 101, ..quota }.left()), (30, 0));
}

#[test]
fn the_limits_of_the_named_account_apply_to_a_caller_who_is_no_user() {
    let limits = GrantLimits { account: Some(8), ..GrantLimits::default() };
    let of_key = Grant { user: None, limits, ..grant() };
    let keys = Keys::new(1);
    let token = keys.signer().sign(of_key.clone(), NOW, MAX_GRANT_LIFETIME);
    assert_eq!(keys.verifier().verify_at(&token, NOW), Ok((of_key.clone(), NOW + 60)));
    assert_eq!(of_key.limited_account(), Some(UserId(8)));
    assert_eq!(Grant { limits, ..grant() }.limited_account(), Some(UserId(7)));
    assert_eq!(Grant { user: None, ..grant() }.limited_account(), None);
}

#[test]
fn a_grant_signed_in_the_far_future_is_refused() {
    let keys = Keys::new(1);
    let token = keys.signer().sign(grant(), NOW + 3600, MAX_GRANT_LIFETIME);
    assert_eq!(keys.verifier().verify_at(&token, NOW), Err(BadGrant));
}

#[test]
fn only_ed25519_keys_in_pem_form_are_accepted() {
    let keys = Keys::new(1);
    for wrong in ["", "x", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"] {
        assert!(Verifier::from_pem(wrong.as_bytes()).is_err(), "{wrong}");
        assert!(Signer::from_pem(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(Verifier::from_pem(keys.private.as_bytes()).is_err());
    assert!(Signer::from_pem(keys.public.as_bytes()).is_err());
}

proptest! {
    #[test]
    fn no_text_is_a_grant(text in ".*") {
        prop_assert_eq!(Keys::new(1).verifier().verify_at(&text, NOW), Err(BadGrant));
    }

    #[test]
    fn a_grant_with_one_byte_changed_is_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let keys = Keys::new(1);
        let token = keys.signer().sign(grant(), NOW, MAX_GRANT_LIFETIME);
        let mut bytes = token.clone().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let changed = String::from_utf8_lossy(&bytes).into_owned();
        prop_assume!(changed != token);
        prop_assert_eq!(keys.verifier().verify_at(&changed, NOW), Err(BadGrant));
    }

    #[test]
    fn every_grant_is_signed_and_verified_unchanged(
        repository in any::<i64>(), epoch in any::<i64>(), store in ".*", username in ".*", operation in ".*",
        mirror in any::<bool>(),
    ) {
        let keys = Keys::new(1);
        let user = GrantUser { id: epoch, username, full_name: store.clone(), email: String::new(), token_id: repository, ..GrantUser::default() };
        let grant = Grant { user: Some(user), repository, operation, is_mirror: mirror, store, epoch, ..grant() };
        let token = keys.signer().sign(grant.clone(), NOW, MAX_GRANT_LIFETIME);
        prop_assert_eq!(keys.verifier().verify_at(&token, NOW), Ok((grant, NOW + 60)));
    }
}

const HASH: [u8; 32] = [9; 32];
const NOW_US: i64 = 1_800_000_000_000_000;

fn identity() -> crate::repo::Identity {
    crate::repo::Identity { user_id: 7, username: "ada".into(), is_admin: true, token_id: 3, ..Default::default() }
}

#[test]
fn an_identity_is_valid_for_its_token_until_its_entry_expires() {
    let keys = Keys::new(1);
    let entry = keys.verifier().verify_identity(&keys.signer().sign_identity(&HASH, &identity(), NOW_US + 1)).unwrap();
    assert_eq!(entry.identity_of(&HASH, NOW_US), Ok(&identity()));
    assert_eq!(entry.identity_of(&[8; 32], NOW_US), Err(BadEntry::OtherToken));
    for now_us in [NOW_US + 1, i64::MAX, NOW_US - 3_630_000_001, 0, i64::MIN] {
        assert_eq!(entry.identity_of(&HASH, now_us), Err(BadEntry::Expired), "{now_us}");
    }
    assert!(entry.identity_of(&HASH, NOW_US - 3_629_999_999).is_ok(), "clocks may differ by half a minute");
}

#[test]
fn an_identity_without_the_signature_of_the_grant_key_is_refused() {
    let (keys, message) = (Keys::new(1), prost::Message::encode_to_vec(&identity()));
    let entry = keys.signer().sign_identity(&HASH, &identity(), NOW_US);
    for index in 0..entry.len() {
        let mut changed = entry.clone();
        changed[index] ^= 1;
        assert_eq!(keys.verifier().verify_identity(&changed), Err(BadEntry::Unsigned), "byte {index}");
        assert_eq!(keys.verifier().verify_identity(&entry[..index]), Err(BadEntry::Unsigned), "cut at {index}");
    }
    let of_other_key = Keys::new(2).signer().sign_identity(&HASH, &identity(), NOW_US);
    for forged in [of_other_key, message.clone(), [&[0; 65], message.as_slice()].concat()] {
        assert_eq!(keys.verifier().verify_identity(&forged), Err(BadEntry::Unsigned));
    }
}

#[test]
fn a_grant_is_no_identity_and_the_signature_of_an_identity_signs_no_grant() {
    let keys = Keys::new(1);
    let token = keys.signer().sign(grant(), NOW, MAX_GRANT_LIFETIME);
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let signature = BASE64.decode(signature).unwrap();
    let as_entry = [&[0], signature.as_slice(), signed.as_bytes()].concat();
    assert_eq!(keys.verifier().verify_identity(&as_entry), Err(BadEntry::Unsigned));
}

#[test]
fn versions_that_took_identities_without_a_signature_do_not_take_an_entry_for_one() {
    let entry = Keys::new(1).signer().sign_identity(&HASH, &identity(), NOW_US);
    assert!(<crate::repo::Identity as prost::Message>::decode(entry.as_slice()).is_err());
}
