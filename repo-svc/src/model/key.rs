//! SSH public keys, as somebody pasted them: one OpenSSH line, its base64 alone, or an RFC 4716 block.
//!
//! Not here: whether a key is in use, and private keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferrite_proto::error::FieldViolation;
use ssh_key::public::KeyData;
use ssh_key::{HashAlg, PublicKey};

const TITLE_MAX: usize = 255;
const KEY_MAX_BYTES: usize = 16 * 1024;
const RSA_MIN_BITS: usize = 2048;
const RSA_MAX_BITS: usize = 16 * 1024;
const BLOCK_BEGIN: &str = "---- BEGIN SSH2 PUBLIC KEY ----";
const BLOCK_END: &str = "---- END SSH2 PUBLIC KEY ----";
/// How every key begins in base64: with the length of its type's name, which is less than 2^24 bytes.
const BASE64_BEGIN: &str = "AAAA";
/// The first byte of a point of an elliptic curve that is written out in full, the only form that SSH allows.
const WHOLE_POINT: u8 = 4;

/// What a key is called by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyTitle(String);

impl KeyTitle {
    /// Reads a title.
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        if text.trim().is_empty() {
            return Err(FieldViolation::new(field, "required", "is required"));
        }
        if text.chars().count() > TITLE_MAX {
            return Err(FieldViolation::new(field, "too_long", format!("must have at most {TITLE_MAX} characters")));
        }
        if text.chars().any(char::is_control) {
            return Err(FieldViolation::new(field, "invalid", "must not hold control characters"));
        }
        Ok(Self(text.to_owned()))
    }

    /// As it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// What it is compared by.
    pub(crate) fn key(&self) -> String {
        self.0.to_lowercase()
    }
}

/// A public key that Ferrite accepts: Ed25519, ECDSA on the three NIST curves, or RSA of 2048 to 16384 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshKey {
    line: String,
    fingerprint: String,
}

impl SshKey {
    /// Reads a key. What stands before the type, as in `authorized_keys`, is refused: it would be lost.
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        let refuse = |message: String| FieldViolation::new(field, "invalid", message);
        if text.len() > KEY_MAX_BYTES {
            let message = format!("must have at most {KEY_MAX_BYTES} bytes");
            return Err(FieldViolation::new(field, "too_long", message));
        }
        let text = text.trim();
        if text.is_empty() {
            return Err(FieldViolation::new(field, "required", "is required"));
        }
        let parts = if text.starts_with("----") { Parts::of_block(text) } else { Parts::of_line(text) };
        let parts = parts.map_err(|message| refuse(message.to_owned()))?;
        let blob = STANDARD.decode(&parts.base64).map_err(|_| refuse("is not valid base64".into()))?;
        let key = PublicKey::from_bytes(&blob).map_err(|_| refuse("is not a public SSH key".into()))?;
        check(key.key_data()).map_err(refuse)?;
        let name = key.algorithm().as_str().to_owned();
        if parts.name.is_some_and(|said| said != name) {
            return Err(refuse("is of another type than it says".into()));
        }
        // The same key written in two ways would have two fingerprints.
        if key.to_bytes().ok().as_deref() != Some(blob.as_slice()) {
            return Err(refuse("is not a public SSH key".into()));
        }
        let mut line = format!("{name} {}", parts.base64);
        if !parts.comment.is_empty() {
            line.push(' ');
            line.push_str(&parts.comment);
        }
        Ok(Self { line, fingerprint: key.fingerprint(HashAlg::Sha256).to_string() })
    }

    /// Type, base64 and comment, on one line.
    pub(crate) fn as_str(&self) -> &str {
        &self.line
    }

    /// `SHA256:` and base64 without padding, as OpenSSH shows it. It tells keys apart, whatever their comments say.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

/// The parts of a key's text.
#[derive(Debug, Default)]
struct Parts<'a> {
    /// The type, when it was written.
    name: Option<&'a str>,
    base64: String,
    comment: String,
}

impl<'a> Parts<'a> {
    fn of_line(text: &'a str) -> Result<Self, &'static str> {
        if text.contains(['\n', '\r']) {
            return Err("must be one key, on one line");
        }
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (name, base64) = if first.starts_with(BASE64_BEGIN) {
            (None, first)
        } else {
            let next = words.next().ok_or("must be a type and a key in base64")?;
            (Some(first), next)
        };
        // Options may hold spaces, and a certificate or a private key has other beginnings: none of them is a key of its type.
        if !base64.starts_with(BASE64_BEGIN) {
            return Err("must begin with the type of the key, without options");
        }
        let comment = words.collect::<Vec<_>>().join(" ");
        Ok(Self { name, base64: base64.to_owned(), comment: checked(comment)? })
    }

    fn of_block(text: &'a str) -> Result<Self, &'static str> {
        let mut lines = text.lines().map(str::trim);
        if lines.next() != Some(BLOCK_BEGIN) {
            return Err("must be a public SSH key");
        }
        let mut parts = Self::default();
        let mut is_ended = false;
        while let Some(line) = lines.next() {
            if line == BLOCK_END {
                is_ended = true;
                break;
            }
            match line.split_once(':') {
                Some((tag, value)) if parts.base64.is_empty() => {
                    let mut value = value.trim().to_owned();
                    while value.ends_with('\\') {
                        value.pop();
                        value.push_str(lines.next().unwrap_or_default());
                    }
                    if tag.trim().eq_ignore_ascii_case("comment") {
                        let bare = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&value);
                        parts.comment = bare.split_whitespace().collect::<Vec<_>>().join(" ");
                    }
                }
                Some(_) => return Err("must not have headers after the key"),
                None => parts.base64.push_str(line),
            }
        }
        if !is_ended {
            return Err("must end with the end of its block");
        }
        if lines.any(|line| !line.is_empty()) {
            return Err("must be one key");
        }
        parts.comment = checked(parts.comment)?;
        Ok(parts)
    }
}

/// A comment that can stand at the end of a line.
fn checked(comment: String) -> Result<String, &'static str> {
    if comment.chars().any(char::is_control) { Err("must not hold control characters") } else { Ok(comment) }
}

/// Whether keys like this are accepted.
fn check(key: &KeyData) -> Result<(), String> {
    match key {
        KeyData::Ed25519(_) => Ok(()),
        KeyData::Ecdsa(key) if key.as_sec1_bytes().first() == Some(&WHOLE_POINT) => Ok(()),
        KeyData::Rsa(key) => {
            let (Some(modulus), Some(exponent)) = (key.n().as_positive_bytes(), key.e().as_positive_bytes()) else {
                return Err("is not a public SSH key".into());
            };
            let bits = bits(modulus);
            if !(RSA_MIN_BITS..=RSA_MAX_BITS).contains(&bits) {
                return Err(format!("has {bits} bits; RSA keys must have {RSA_MIN_BITS} to {RSA_MAX_BITS}"));
            }
            let is_sound = is_odd(modulus) && is_odd(exponent) && exponent != [1];
            if is_sound { Ok(()) } else { Err("is not a public SSH key".into()) }
        }
        _ => Err("is of a type that is not accepted; use Ed25519, ECDSA or RSA".into()),
    }
}

/// How long a positive number is.
fn bits(number: &[u8]) -> usize {
    let first = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    (number.len() * 8).saturating_sub(first)
}

fn is_odd(number: &[u8]) -> bool {
    number.last().is_some_and(|byte| byte & 1 == 1)
}

#[cfg(test)]
mod tests;
