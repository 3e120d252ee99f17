//! Encrypts ("seals") secrets that a service keeps in its database.
//!
//! A sealed value is a version byte, a random nonce, and the ciphertext of ChaCha20-Poly1305. Its
//! place, such as `table.column`, is the associated data, so a value that was moved
//! elsewhere does not open. Each service derives its own keys from those in its file: the first one
//! seals, the others only open values that were sealed before a key rotation.

use std::path::Path;
use std::sync::Arc;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::secret::Secret;
use crate::startup::StartError;

const KEY_BYTES: usize = 32;
const MAX_KEYS: usize = 16;
const VERSION: u8 = 1;
/// Version and nonce.
const HEADER_BYTES: usize = 1 + NONCE_LEN;

/// Why a value cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The value was sealed with another key, for another place or by a later version, or it is
    /// damaged.
    #[error("a sealed value cannot be opened with these keys")]
    Unopenable,
    /// The system returned no random bytes.
    #[error("cannot get random bytes from the system")]
    NoRandomNumbers,
}

/// Seals and opens values of one service. Clones share the keys.
#[derive(Clone)]
pub struct Sealer(Arc<Keys>);

struct Keys {
    seal: LessSafeKey,
    /// Keys from before the rotation, which only open.
    former: Vec<LessSafeKey>,
    /// Keys of fingerprints, the current one first.
    fingerprint: Vec<hmac::Key>,
    random: SystemRandom,
}

impl Sealer {
    /// Returns a sealer of `service`. The `former` keys only open values.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES], former: &[[u8; KEY_BYTES]], service: &str) -> Self {
        let fingerprint = [key].into_iter().chain(former).map(|key| fingerprint_key(key, service)).collect();
        let former = former.iter().map(|key| seal_key(key, service)).collect();
        Self(Arc::new(Keys { seal: seal_key(key, service), former, fingerprint, random: SystemRandom::new() }))
    }

    /// Reads the keys from a file: 64 hexadecimal digits per line, with optional white space, first
    /// the key that seals, then former keys.
    ///
    /// # Errors
    /// If the file is unreadable or malformed, or has more than 16 keys.
    pub fn read(path: &Path, service: &str) -> Result<Self, StartError> {
        let failed = |reason: String| StartError::Other(format!("secret key file `{}`: {reason}", path.display()));
        let text = Secret::read(path).map_err(|error| failed(error.to_string()))?;
        let mut keys = Vec::new();
        for line in text.expose().split_ascii_whitespace() {
            let mut key = [0; KEY_BYTES];
            hex::decode_to_slice(line, &mut key)
                .map_err(|_| failed("must have 64 hexadecimal digits per line".to_owned()))?;
            keys.push(key);
        }
        match keys.split_first() {
            Some((key, former)) if former.len() < MAX_KEYS => Ok(Self::new(key, former, service)),
            _ => Err(failed(format!("must have 1 to {MAX_KEYS} keys"))),
        }
    }

    /// Seals a text for a place. Sealing the same text twice gives different values.
    ///
    /// # Errors
    /// [`SealError::NoRandomNumbers`].
    pub fn seal(&self, place: &[u8], text: &str) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_LEN];
        self.0.random.fill(&mut nonce).map_err(|_| SealError::NoRandomNumbers)?;
        let mut body = text.as_bytes().to_vec();
        let key_nonce = Nonce::assume_unique_for_key(nonce);
        self.0
            .seal
            .seal_in_place_append_tag(key_nonce, Aad::from(place), &mut body)
            .map_err(|_| SealError::NoRandomNumbers)?;
        let mut sealed = Vec::with_capacity(HEADER_BYTES + body.len());
        sealed.push(VERSION);
        sealed.extend_from_slice(&nonce);
        sealed.append(&mut body);
        Ok(sealed)
    }

    /// Opens a value that was sealed for `place`.
    ///
    /// # Errors
    /// [`SealError::Unopenable`].
    pub fn open(&self, place: &[u8], sealed: &[u8]) -> Result<Secret, SealError> {
        let (header, body) = sealed.split_at_checked(HEADER_BYTES).ok_or(SealError::Unopenable)?;
        if header[0] != VERSION {
            return Err(SealError::Unopenable);
        }
        let opened = [&self.0.seal].into_iter().chain(&self.0.former).find_map(|key| {
            let nonce = Nonce::try_assume_unique_for_key(&header[1..]).ok()?;
            let mut body = body.to_vec();
            let length = key.open_in_place(nonce, Aad::from(place), &mut body).ok()?.len();
            body.truncate(length);
            Some(body)
        });
        let text = opened.and_then(|text| String::from_utf8(text).ok()).ok_or(SealError::Unopenable)?;
        Ok(Secret::new(text))
    }

    /// Returns one keyed digest function per key, the current key first. Equal texts have equal
    /// digests; without the key, a digest reveals nothing.
    pub fn fingerprints(&self) -> impl Iterator<Item = impl Fn(&str) -> String> {
        self.0.fingerprint.iter().map(|key| move |text: &str| hex::encode(hmac::sign(key, text.as_bytes())))
    }
}

/// Derives a key for one purpose. The key of the file is used for nothing else.
fn derive(key: &[u8; KEY_BYTES], service: &str, purpose: &str) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, format!("ferrite {service} {purpose} 1").as_bytes())
}

fn fingerprint_key(key: &[u8; KEY_BYTES], service: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, derive(key, service, "fingerprint").as_ref())
}

fn seal_key(key: &[u8; KEY_BYTES], service: &str) -> LessSafeKey {
    let key = UnboundKey::new(&CHACHA20_POLY1305, derive(key, service, "seal").as_ref());
    LessSafeKey::new(key.expect("a digest of SHA-256 has the length of a key"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_for_its_place_service_and_key_only() {
        let sealer = Sealer::new(&[1; 32], &[], "one-svc");
        for text in ["", "hunter2", "h\u{fc}nter"] {
            let sealed = sealer.seal(b"table.column", text).unwrap();
            assert_eq!(sealer.open(b"table.column", &sealed).unwrap().expose(), text);
            assert_eq!(sealer.open(b"table.other", &sealed), Err(SealError::Unopenable));
            for other in [Sealer::new(&[2; 32], &[], "one-svc"), Sealer::new(&[1; 32], &[], "two-svc")] {
                assert_eq!(other.open(b"table.column", &sealed), Err(SealError::Unopenable));
            }
        }
    }

    #[test]
    fn a_changed_or_cut_value_does_not_open() {
        let sealer = Sealer::new(&[1; 32], &[], "one-svc");
        let sealed = sealer.seal(b"place", "http://example.com/").unwrap();
        for index in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[index] ^= 1;
            assert_eq!(sealer.open(b"place", &changed), Err(SealError::Unopenable), "byte {index}");
            assert_eq!(sealer.open(b"place", &sealed[..index]), Err(SealError::Unopenable), "cut at {index}");
        }
    }

    #[test]
    fn what_a_replaced_key_sealed_opens_and_it_seals_no_more() {
        let former = Sealer::new(&[1; 32], &[], "one-svc");
        let sealed = former.seal(b"place", "hunter2").unwrap();
        let sealer = Sealer::new(&[2; 32], &[[3; 32], [1; 32]], "one-svc");
        assert_eq!(sealer.open(b"place", &sealed).unwrap().expose(), "hunter2");
        assert_eq!(sealer.open(b"other", &sealed), Err(SealError::Unopenable));
        let sealed = sealer.seal(b"place", "hunter2").unwrap();
        assert_eq!(Sealer::new(&[2; 32], &[], "one-svc").open(b"place", &sealed).unwrap().expose(), "hunter2");
        assert_eq!(former.open(b"place", &sealed), Err(SealError::Unopenable));
    }

    #[test]
    fn equal_texts_have_different_values_and_one_fingerprint() {
        let sealer = Sealer::new(&[1; 32], &[], "one-svc");
        let seal = || sealer.seal(b"place", "hunter2").unwrap();
        assert_ne!(seal(), seal());
        assert!(!seal().windows(7).any(|part| part == b"hunter2"));
        let fingerprints = |sealer: &Sealer, text: &str| sealer.fingerprints().map(|of| of(text)).collect::<Vec<_>>();
        let of_one = fingerprints(&sealer, "hunter2");
        assert_eq!(of_one, fingerprints(&sealer, "hunter2"));
        assert_ne!(of_one, fingerprints(&sealer, "hunter3"));
        let of_two = fingerprints(&Sealer::new(&[2; 32], &[], "one-svc"), "hunter2");
        assert_ne!(of_one, of_two);
        let of_both = fingerprints(&Sealer::new(&[2; 32], &[[1; 32]], "one-svc"), "hunter2");
        assert_eq!(of_both, [of_two, of_one].concat());
    }

    #[test]
    fn a_key_file_has_64_hexadecimal_digits_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        assert!(Sealer::read(&path, "one-svc").is_err());
        let line = format!("{}\n", "AB".repeat(32));
        for (text, is_key) in [("ab".repeat(32), true), (line.clone(), true), (line.repeat(16), true)]
            .into_iter()
            .chain(["", "ab", "x"].map(|text| (text.repeat(64), false)))
            .chain([(format!("{line}ab\n"), false), (line.repeat(17), false)])
        {
            std::fs::write(&path, &text).unwrap();
            assert_eq!(Sealer::read(&path, "one-svc").is_ok(), is_key, "{text:?}");
        }
    }
}
