//! Sealed columns of webhooks: URLs and secrets, which the database alone does not open.
//!
//! Not here: how a value is sealed (`ferrite_kit::sealing`), which columns are sealed (`store`), and signatures of deliveries.

use std::path::Path;

use ferrite_kit::Secret;
pub(crate) use ferrite_kit::sealing::SealError;
use ferrite_kit::startup::StartError;

/// The service in whose name the key is derived. Stored values depend on it.
const SERVICE: &str = "hook-svc";

/// The kind of a sealed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealedColumn {
    /// The URL of a webhook.
    Url,
    /// The present or the previous secret of a webhook: a present one becomes the previous one as it is.
    Secret,
}

impl SealedColumn {
    fn place(self) -> &'static [u8] {
        match self {
            Self::Url => b"hooks.url",
            Self::Secret => b"hooks.secret",
        }
    }
}

/// Seals and opens values. Clones share the key.
#[derive(Clone, Debug)]
pub(crate) struct Sealer(ferrite_kit::sealing::Sealer);

impl Sealer {
    /// Returns a sealer with this key.
    #[cfg(test)]
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(ferrite_kit::sealing::Sealer::new(key, SERVICE))
    }

    /// Reads the key from a file of 64 hexadecimal digits, with or without white space around them.
    ///
    /// # Errors
    /// When the file cannot be read or holds anything else.
    pub(crate) fn read(path: &Path) -> Result<Self, StartError> {
        ferrite_kit::sealing::Sealer::read(path, SERVICE).map(Self)
    }

    /// Seals a text for a column. Equal texts give different values.
    ///
    /// # Errors
    /// [`SealError::NoRandomNumbers`].
    pub(crate) fn seal(&self, column: SealedColumn, text: &str) -> Result<Vec<u8>, SealError> {
        self.0.seal(column.place(), text)
    }

    /// Opens a value of a column.
    ///
    /// # Errors
    /// [`SealError::Unopenable`].
    pub(crate) fn open(&self, column: SealedColumn, sealed: &[u8]) -> Result<Secret, SealError> {
        self.0.open(column.place(), sealed)
    }

    /// Returns a digest of a text that tells equal texts from different ones, and nothing to those without the key.
    pub(crate) fn fingerprint(&self, text: &str) -> String {
        self.0.fingerprint(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_for_its_column_only() {
        let sealer = Sealer::new(&[1; 32]);
        let sealed = sealer.seal(SealedColumn::Secret, "hunter2").unwrap();
        assert_eq!(sealer.open(SealedColumn::Secret, &sealed).unwrap().expose(), "hunter2");
        assert_eq!(sealer.open(SealedColumn::Url, &sealed), Err(SealError::Unopenable));
    }

    #[test]
    fn values_of_earlier_versions_open() {
        // Sealed before the keys were derived by `ferrite_kit::sealing`.
        let sealer = Sealer::new(&[1; 32]);
        assert_eq!(sealer.fingerprint("hunter2"), EARLIER_FINGERPRINT);
    }

    /// HMAC-SHA256 of `hunter2`, by the key that HMAC-SHA256 of `ferrite hook-svc fingerprint 1` gives for the key of 32 ones.
    const EARLIER_FINGERPRINT: &str = "4f8ebdcb3005d669879b17186e499d775ada9726b4160eadaf57e6c4f0be4ed4";
}
