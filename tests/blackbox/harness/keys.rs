//! SSH public keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Keys of every accepted type except Ed25519, written by `ssh-keygen`.
pub(crate) const GOOD: [&str; 5] = [
    include_str!("../keys/ecdsa-256.pub"),
    include_str!("../keys/ecdsa-384.pub"),
    include_str!("../keys/ecdsa-521.pub"),
    include_str!("../keys/rsa-2048.pub"),
    include_str!("../keys/rsa-3072.rfc4716"),
];

/// The last of [`GOOD`] as one line.
pub(crate) const RFC_4716_AS_LINE: &str = include_str!("../keys/rsa-3072.pub");

pub(crate) const WEAK: &str = include_str!("../keys/rsa-1024.pub");

fn string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

pub(crate) fn ed25519_blob() -> String {
    let key = ed25519_dalek::SigningKey::from_bytes(&rand::random()).verifying_key();
    STANDARD.encode([string(b"ssh-ed25519"), string(key.as_bytes())].concat())
}

/// A new Ed25519 key in the format of `ssh-keygen`.
pub(crate) fn ed25519(comment: &str) -> String {
    format!("ssh-ed25519 {} {comment}", ed25519_blob()).trim_end().to_owned()
}

pub(crate) fn bad() -> Vec<(&'static str, String)> {
    let good = ed25519_blob();
    let dsa = [string(b"ssh-dss"), string(&[0x55; 128]), string(&[0x55; 20]), string(&[5; 128]), string(&[7; 128])];
    vec![
        ("words", "no key at all".to_owned()),
        ("broken base64", "ssh-ed25519 AAAA*** x".to_owned()),
        ("cut off", format!("ssh-ed25519 {} x", &good[..40])),
        ("another type", format!("ssh-rsa {good} x")),
        ("options", format!("command=\"sh\" ssh-ed25519 {good} x")),
        ("two keys", format!("{}\n{}", ed25519("a"), ed25519("b"))),
        ("too long", format!("ssh-ed25519 {good} {}", "x".repeat(20_000))),
        ("DSA", format!("ssh-dss {} x", STANDARD.encode(dsa.concat()))),
        ("a short RSA key", WEAK.to_owned()),
        (
            "a private key",
            "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk=\n-----END OPENSSH PRIVATE KEY-----".to_owned(),
        ),
    ]
}
