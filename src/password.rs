//! Passwords made for people: long enough, and without characters that look alike.

use rand::TryRngCore;
use rand::rand_core::OsError;
use rand::rngs::OsRng;

/// 32 characters: five bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const LENGTH: usize = 24;

/// A password of 120 random bits.
pub(crate) fn generate() -> Result<String, OsError> {
    let mut bytes = [0; LENGTH];
    OsRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_plain_and_different() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_eq!(one.len(), LENGTH);
        assert!(one.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_ne!(one, other);
    }
}
