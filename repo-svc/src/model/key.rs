//! SSH public keys as users paste them: an OpenSSH line, its base64 alone, or an RFC 4716 block.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ferrite_core::text::is_control_or_direction;
use ferrite_proto::error::FieldViolation;
use ssh_key::public::KeyData;
use ssh_key::{HashAlg, PublicKey};

use super::name::Title;
use super::violations::Violations;
use crate::error::RepoError;

const MAX_KEY_BYTES: usize = 16 * 1024;
const MIN_RSA_BITS: usize = 2048;
const MAX_RSA_BITS: usize = 16 * 1024;
const BLOCK_BEGIN: &str = "---- BEGIN SSH2 PUBLIC KEY ----";
const BLOCK_END: &str = "---- END SSH2 PUBLIC KEY ----";
/// Every key starts with this in base64: its first bytes are the 32-bit length of the type name
/// (RFC 4253, section 6.6), which is below 2^8.
const BASE64_PREFIX: &str = "AAAA";
/// First byte of an uncompressed point on an elliptic curve (SEC 1, section 2.3.3), the only form that OpenSSH accepts.
const UNCOMPRESSED_POINT_TAG: u8 = 4;

/// A public key that Ferrite accepts: Ed25519, ECDSA on the three NIST curves, or RSA of 2048 to 16384 bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SshKey {
    line: String,
    fingerprint: String,
}

impl SshKey {
    /// Rejects options before the type, as in `authorized_keys`, because they would have no effect.
    pub(crate) fn parse(text: &str, field: &str) -> Result<Self, FieldViolation> {
        let refuse = |message: String| FieldViolation::new(field, "invalid", message);
        if text.len() > MAX_KEY_BYTES {
            let message = format!("must have at most {MAX_KEY_BYTES} bytes");
            return Err(FieldViolation::new(field, "too_long", message));
        }
        let text = text.trim();
        if text.is_empty() {
            return Err(FieldViolation::new(field, "required", "is required"));
        }
        let parts = if text.starts_with("----") { Parts::of_block(text) } else { Parts::of_line(text) };
        let parts = parts.map_err(|message| refuse(message.to_owned()))?;
        let blob = STANDARD.decode(&parts.base64).map_err(|_| refuse("is not valid base64".into()))?;
        let key = PublicKey::from_bytes(&blob).map_err(|_| refuse("is not an SSH public key".into()))?;
        check(key.key_data()).map_err(refuse)?;
        let name = key.algorithm().as_str().to_owned();
        if parts.name.is_some_and(|given| given != name) {
            return Err(refuse("does not match its declared key type".into()));
        }
        // Only the canonical encoding is accepted. Otherwise one key could have two fingerprints.
        if key.to_bytes().ok().as_deref() != Some(blob.as_slice()) {
            return Err(refuse("is not an SSH public key".into()));
        }
        let mut line = format!("{name} {}", parts.base64);
        if !parts.comment.is_empty() {
            line.push(' ');
            line.push_str(&parts.comment);
        }
        Ok(Self { line, fingerprint: key.fingerprint(HashAlg::Sha256).to_string() })
    }

    /// Returns type, base64 and comment on one line.
    pub(crate) fn as_str(&self) -> &str {
        &self.line
    }

    /// Returns the fingerprint as OpenSSH prints it: `SHA256:` and base64 without padding. It does
    /// not cover the comment.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}

pub(crate) fn parse_titled_key(title: &str, key: &str) -> Result<(Title, SshKey), RepoError> {
    let mut violations = Violations::default();
    let title = violations.take(Title::parse(title, "title"));
    let key = violations.take(SshKey::parse(key, "key"));
    title.zip(key).ok_or_else(|| violations.into_error())
}

/// The parts of a key's text, not validated yet.
#[derive(Debug, Default)]
struct Parts<'a> {
    /// `None` if the text is base64 only.
    name: Option<&'a str>,
    base64: String,
    comment: String,
}

impl<'a> Parts<'a> {
    fn of_line(text: &'a str) -> Result<Self, &'static str> {
        if text.contains(['\n', '\r']) {
            return Err("must be a single key on one line");
        }
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (name, base64) = if first.starts_with(BASE64_PREFIX) {
            (None, first)
        } else {
            let next = words.next().ok_or("must be a key type followed by the key in base64")?;
            (Some(first), next)
        };
        // The second word starts like this, unless the first one begins options, which may contain
        // spaces.
        if !base64.starts_with(BASE64_PREFIX) {
            return Err("must begin with the key type, without options");
        }
        let comment = words.collect::<Vec<_>>().join(" ");
        Ok(Self { name, base64: base64.to_owned(), comment: check_comment(comment)? })
    }

    fn of_block(text: &'a str) -> Result<Self, &'static str> {
        let mut lines = text.lines().map(str::trim);
        if lines.next() != Some(BLOCK_BEGIN) {
            return Err("must be an SSH public key");
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
                Some(_) => return Err("must not contain headers after the key"),
                None => parts.base64.push_str(line),
            }
        }
        if !is_ended {
            return Err("must end with `---- END SSH2 PUBLIC KEY ----`");
        }
        if lines.any(|line| !line.is_empty()) {
            return Err("must be a single key");
        }
        parts.comment = check_comment(parts.comment)?;
        Ok(parts)
    }
}

fn check_comment(comment: String) -> Result<String, &'static str> {
    if comment.chars().any(is_control_or_direction) {
        return Err("must not contain control or bidirectional characters");
    }
    Ok(comment)
}

fn check(key: &KeyData) -> Result<(), String> {
    match key {
        KeyData::Ed25519(_) => Ok(()),
        KeyData::Ecdsa(key) if key.as_sec1_bytes().first() == Some(&UNCOMPRESSED_POINT_TAG) => Ok(()),
        KeyData::Rsa(key) => {
            let (Some(modulus), Some(exponent)) = (key.n().as_positive_bytes(), key.e().as_positive_bytes()) else {
                return Err("is not an SSH public key".into());
            };
            let bits = bits(modulus);
            if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&bits) {
                return Err(format!("has {bits} bits; RSA keys must have {MIN_RSA_BITS} to {MAX_RSA_BITS}"));
            }
            let is_valid = is_odd(modulus) && is_odd(exponent) && exponent != [1];
            if is_valid { Ok(()) } else { Err("is not an SSH public key".into()) }
        }
        _ => Err("has an unsupported key type; use Ed25519, ECDSA or RSA".into()),
    }
}

/// Returns the bit length of a positive number.
fn bits(number: &[u8]) -> usize {
    let first = number.first().map_or(0, |byte| byte.leading_zeros() as usize);
    (number.len() * 8).saturating_sub(first)
}

fn is_odd(number: &[u8]) -> bool {
    number.last().is_some_and(|byte| byte & 1 == 1)
}

#[cfg(test)]
mod tests;
