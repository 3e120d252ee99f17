use std::path::Path;

use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePublicKey;
use ferrite_proto::ServiceRole::{Gateway, GitSvc, HookSvc, IssueSvc};

use super::*;
use crate::testing::ServiceKeys;

const NOW: u64 = 1_800_000_000;
const NOW_US: i64 = 1_800_000_000_000_000;

fn verifier(keys: &ServiceKeys, audience: ServiceRole) -> ServiceVerifier {
    ServiceVerifier::new(keys.public(), audience)
}

fn token(keys: &ServiceKeys, from: ServiceRole, to: ServiceRole) -> String {
    keys.token_source(from, &Clock::fixed(NOW_US)).token(to).to_string()
}

/// Signs claims that no source issues, with the key of a role.
fn forged(keys: &ServiceKeys, signer: ServiceRole, kid: Option<&str>, claims: &Claims) -> String {
    let header = Header { kid: kid.map(str::to_owned), ..Header::new(Algorithm::EdDSA) };
    let key = ServiceKey::read(&keys.private_file(signer)).unwrap();
    jsonwebtoken::encode(&header, claims, &key.0).unwrap()
}

fn claims(signer: &str, audience: &str, exp: u64) -> Claims {
    Claims { iss: signer.to_owned(), aud: audience.to_owned(), exp }
}

#[test]
fn a_token_proves_its_signer_to_one_role() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    for from in ServiceRole::ALL {
        for to in ServiceRole::ALL {
            let token = token(&keys, from, to);
            for audience in ServiceRole::ALL {
                let expected = (audience == to).then_some(from);
                let verifier = verifier(&keys, audience);
                // The second verification uses the cache.
                for _ in 0..2 {
                    assert_eq!(verifier.verify_at(&token, NOW), expected, "{from} to {to}, shown to {audience}");
                }
            }
        }
    }
}

#[test]
fn one_role_cannot_speak_for_another() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    let (gateway, issue, git) = ("ferrite/gateway", "ferrite/issue-svc", "ferrite/git-svc");
    let good = claims(issue, git, NOW + 60);
    let verifier = verifier(&keys, GitSvc);
    assert_eq!(verifier.verify_at(&forged(&keys, IssueSvc, Some("issue-svc"), &good), NOW), Some(IssueSvc));
    for (what, token) in [
        (
            "the name of another in the claims",
            forged(&keys, IssueSvc, Some("issue-svc"), &claims(gateway, git, NOW + 60)),
        ),
        ("the key id of another", forged(&keys, IssueSvc, Some("gateway"), &claims(gateway, git, NOW + 60))),
        ("the key id of another, own claims", forged(&keys, IssueSvc, Some("gateway"), &good)),
        ("no key id", forged(&keys, IssueSvc, None, &good)),
        ("an unknown role", forged(&keys, IssueSvc, Some("admin"), &claims("ferrite/admin", git, NOW + 60))),
        ("a path as key id", forged(&keys, IssueSvc, Some("../public/issue-svc"), &good)),
        ("for another role", forged(&keys, IssueSvc, Some("issue-svc"), &claims(issue, "ferrite/hook-svc", NOW + 60))),
        ("for an hour", forged(&keys, IssueSvc, Some("issue-svc"), &claims(issue, git, NOW + 3600))),
        ("expired", forged(&keys, IssueSvc, Some("issue-svc"), &claims(issue, git, NOW - 31))),
        ("too long", "a".repeat(MAX_TOKEN_BYTES + 1)),
        ("nothing", String::new()),
    ] {
        assert_eq!(verifier.verify_at(&token, NOW), None, "{what}");
    }
}

#[test]
fn a_token_that_was_checked_expires_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    let (verifier, token) = (verifier(&keys, GitSvc), token(&keys, Gateway, GitSvc));
    assert_eq!(verifier.verify_at(&token, NOW), Some(Gateway));
    assert_eq!(verifier.verify_at(&token, NOW + TOKEN_LIFETIME_SECS + MAX_CLOCK_SKEW_SECS - 1), Some(Gateway));
    assert_eq!(verifier.verify_at(&token, NOW + TOKEN_LIFETIME_SECS + MAX_CLOCK_SKEW_SECS), None);
    assert_eq!(verifier.verify_at(&token, NOW - MAX_CLOCK_SKEW_SECS - 1), None, "made in the future");
}

fn write_public(folder: &Path, name: &str, pair: &SigningKey) {
    let pem = pair.verifying_key().to_public_key_pem(Default::default()).unwrap();
    std::fs::write(folder.join(name), pem).unwrap();
}

#[test]
fn a_role_has_two_keys_while_its_key_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    let verifier = verifier(&keys, GitSvc);
    assert_eq!(verifier.verify_at(&token(&keys, HookSvc, GitSvc), NOW), Some(HookSvc));
    // The next key is added while the process runs.
    let elsewhere = tempfile::tempdir().unwrap();
    let next = ServiceKeys::write(elsewhere.path());
    assert_eq!(verifier.verify_at(&token(&next, HookSvc, GitSvc), NOW), None);
    let public = |keys: &ServiceKeys| keys.public_folder().join("hook-svc.pub.pem");
    std::fs::copy(public(&next), keys.public_folder().join("hook-svc.next.pub.pem")).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(verifier.verify_at(&token(&next, HookSvc, GitSvc), NOW), Some(HookSvc));
    let old_again = keys.token_source(HookSvc, &Clock::fixed(NOW_US + 1_000_000)).token(GitSvc);
    assert_eq!(verifier.verify_at(&old_again, NOW), Some(HookSvc), "the old one is valid beside it");
    assert_eq!(verifier.verify_at(&token(&next, IssueSvc, GitSvc), NOW), None, "only that role has another key");
}

#[test]
fn keys_that_cannot_be_used_are_refused_at_the_start_and_ignored_later() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    let kept = keys.public();
    std::fs::write(keys.public_folder().join("git-svc.pub.pem"), "damaged").unwrap();
    let error = ServicePublicKeys::open(&keys.public_folder()).unwrap_err().to_string();
    assert!(error.contains("git-svc.pub.pem") && error.contains("public key"), "{error}");
    assert!(ServicePublicKeys::open(&folder.path().join("missing")).is_err());
    std::thread::sleep(Duration::from_millis(1100));
    assert!(kept.reread(Gateway).is_some_and(|keys| keys.len() == 1), "the ones before stay");
    assert!(kept.reread(Gateway).is_none(), "forged tokens do not keep the disk busy");
    std::fs::write(keys.private_file(Gateway), "damaged").unwrap();
    let error = ServiceKey::read(&keys.private_file(Gateway)).unwrap_err().to_string();
    assert!(error.contains("gateway.pem") && error.contains("private key"), "{error}");
    assert!(ServiceKey::read(&folder.path().join("missing")).is_err());
}

#[test]
fn a_private_key_of_another_role_is_found_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    let source = |file: ServiceRole, role| {
        let key = ServiceKey::read(&keys.private_file(file)).unwrap();
        ServiceTokenSource::new(key, role, Clock::system())
    };
    let file = keys.private_file(HookSvc);
    source(HookSvc, HookSvc).check(&keys.public(), &file).unwrap();
    let error = source(HookSvc, IssueSvc).check(&keys.public(), &file).unwrap_err().to_string();
    assert!(error.contains("hook-svc.pem") && error.contains("issue-svc.pub.pem"), "{error}");
    // The public key of the role was replaced; the private key is that of the next key.
    write_public(&keys.public_folder(), "hook-svc.pub.pem", &SigningKey::from_bytes(&[1; 32]));
    assert!(source(HookSvc, HookSvc).check(&keys.public(), &file).is_err());
    assert_eq!(format!("{:?}", ServiceKey::read(&file).unwrap()), "ServiceKey([secret])");
}

#[test]
fn a_token_is_used_for_half_of_its_lifetime() {
    let folder = tempfile::tempdir().unwrap();
    let keys = ServiceKeys::write(folder.path());
    let clock = Clock::fixed(NOW_US);
    let source = keys.token_source(Gateway, &clock);
    let (first, other) = (source.token(GitSvc), source.token(IssueSvc));
    assert_ne!(first, other, "each role gets a token of its own");
    clock.advance(Duration::from_secs(29));
    assert_eq!(source.token(GitSvc), first);
    clock.advance(Duration::from_secs(2));
    assert_ne!(source.token(GitSvc), first);
    assert!(!format!("{source:?}").contains("eyJ"), "{source:?}");
}
