use sha2::{Digest, Sha256};

/// SHA-256 of an access token. Tokens are stored and compared in this form only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Returns the hash of a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Returns the hash as 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex::encode(self.0)
    }
}
