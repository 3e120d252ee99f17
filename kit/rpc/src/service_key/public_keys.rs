//! The folder with the public keys of all roles: `<role>.pub.pem`, and during a key rotation
//! `<role>.next.pub.pem`.
//!
//! The files are read again if they are old and a token with an unchecked signature arrives. So a
//! new key works at once, and a removed one stops working within [`MAX_AGE`]; tokens that were
//! verified before stay valid for their minute.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_proto::{ServiceRole, jwt};
use jsonwebtoken::DecodingKey;
use parking_lot::Mutex;

use super::ServiceKeyError;

/// Age at which keys are read again before use.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Minimum interval between reads for tokens that match no key. Forged tokens must not keep the
/// disk busy.
const MIN_REREAD_INTERVAL: Duration = Duration::from_secs(1);
const SUFFIXES: [&str; 2] = ["pub.pem", "next.pub.pem"];

type Keys = Arc<[DecodingKey]>;
/// The keys of each role, in the order of [`ServiceRole::ALL`].
type KeyTable = [Keys; ServiceRole::ALL.len()];

/// The public keys of all roles. Clones share them.
#[derive(Clone, Debug)]
pub struct ServicePublicKeys(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// The newest keys, and when the files were last read, successfully or not.
    current: Mutex<(KeyTable, Instant)>,
}

impl ServicePublicKeys {
    /// Reads the keys in `folder`. The key of a role may be missing; the role is rejected until it
    /// is there.
    ///
    /// # Errors
    /// [`ServiceKeyError::Read`] if the folder or a file is unreadable,
    /// [`ServiceKeyError::Malformed`] if a file has no public key.
    pub fn open(folder: &Path) -> Result<Self, ServiceKeyError> {
        // Missing files are allowed, so a missing folder would go unnoticed.
        std::fs::read_dir(folder).map_err(|error| ServiceKeyError::Read(folder.display().to_string(), error))?;
        let table = read_all(folder)?;
        Ok(Self(Arc::new(Inner { folder: folder.to_owned(), current: Mutex::new((table, Instant::now())) })))
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Returns the keys of a role, no older than [`MAX_AGE`] if the files are readable.
    pub(super) fn of(&self, role: ServiceRole) -> Keys {
        self.refresh(MAX_AGE);
        self.get(role)
    }

    /// Reads the files again and returns the keys of a role; `None` if they were read a moment ago.
    pub(super) fn reread(&self, role: ServiceRole) -> Option<Keys> {
        self.refresh(MIN_REREAD_INTERVAL).then(|| self.get(role))
    }

    fn get(&self, role: ServiceRole) -> Keys {
        let current = self.0.current.lock();
        let found = ServiceRole::ALL.iter().zip(&current.0).find(|(other, _)| **other == role);
        found.map(|(_, keys)| Arc::clone(keys)).unwrap_or_default()
    }

    /// Reads the files if the last read is at least `age` ago. Returns whether it did. One caller
    /// reads; the others use the current keys. The files are few and small, so they are read on the
    /// request's thread.
    fn refresh(&self, age: Duration) -> bool {
        {
            let mut current = self.0.current.lock();
            if current.1.elapsed() < age {
                return false;
            }
            current.1 = Instant::now();
        }
        match read_all(&self.0.folder) {
            Ok(table) => self.0.current.lock().0 = table,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot reload the public keys of services; keeping the old ones");
            }
        }
        true
    }
}

fn read_all(folder: &Path) -> Result<KeyTable, ServiceKeyError> {
    let mut table = ServiceRole::ALL.map(|_| Keys::default());
    for (role, keys) in ServiceRole::ALL.into_iter().zip(&mut table) {
        let mut found = Vec::new();
        for suffix in SUFFIXES {
            let path = folder.join(format!("{role}.{suffix}"));
            let name = || path.display().to_string();
            match std::fs::read(&path) {
                Ok(pem) => {
                    let key = jwt::ed25519_public_key(&pem);
                    found.push(key.map_err(|_| ServiceKeyError::Malformed(name(), "public"))?);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(ServiceKeyError::Read(name(), error)),
            }
        }
        *keys = found.into();
    }
    Ok(table)
}
