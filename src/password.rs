//! Generated passwords: 120 random bits, without characters that look alike.

use rand::TryRngCore;
use rand::rand_core::OsError;
use rand::rngs::OsRng;

/// The 32 characters of generated passwords, five bits each.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const LENGTH_CHARS: usize = 24;

pub(crate) fn generate() -> Result<String, OsError> {
    let mut bytes = [0; LENGTH_CHARS];
    OsRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_plain_and_different() {
        let (one, other) = (generate().unwrap(), generate().unwrap());
        assert_eq!(one.len(), LENGTH_CHARS);
        assert!(one.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_ne!(one, other);
    }
}
