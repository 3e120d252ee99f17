//! The folder with the public keys of all roles: `<role>.pub.pem`, and while the key of a role is being changed `<role>.next.pub.pem`.
//!
//! The files are read again when they are old and a token comes whose signature was not checked yet, so a key that was added is known at
//! once, and one that was removed is forgotten within [`MAX_AGE`]; tokens that were checked before stay valid for their minute.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_proto::{ServiceRole, jwt};
use jsonwebtoken::DecodingKey;
use parking_lot::Mutex;

use super::ServiceKeyError;

/// Age at which keys are read again before they are used.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Shortest time between two readings for tokens that fit no key. Forged ones must not keep the disk busy.
const MIN_REREAD_INTERVAL: Duration = Duration::from_secs(1);
/// Ends of the names of a role's files.
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
    /// The newest keys, and the time of the last reading, successful or not.
    current: Mutex<(KeyTable, Instant)>,
}

impl ServicePublicKeys {
    /// Reads the keys in `folder`. The key of a role may be missing; the role is refused until it is there.
    ///
    /// # Errors
    /// [`ServiceKeyError::Read`] when the folder or a file cannot be read, [`ServiceKeyError::Malformed`] when a file holds no public key.
    pub fn open(folder: &Path) -> Result<Self, ServiceKeyError> {
        // Missing files are no error, so a missing folder would be none.
        std::fs::read_dir(folder).map_err(|error| ServiceKeyError::Read(folder.display().to_string(), error))?;
        let table = read_all(folder)?;
        Ok(Self(Arc::new(Inner { folder: folder.to_owned(), current: Mutex::new((table, Instant::now())) })))
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Returns the keys of a role, no older than [`MAX_AGE`] if the files can be read.
    pub(super) fn of(&self, role: ServiceRole) -> Keys {
        self.refresh(MAX_AGE);
        self.get(role)
    }

    /// Returns the keys of a role after another reading; `None` if the last one was a moment ago.
    pub(super) fn reread(&self, role: ServiceRole) -> Option<Keys> {
        self.refresh(MIN_REREAD_INTERVAL).then(|| self.get(role))
    }

    fn get(&self, role: ServiceRole) -> Keys {
        let current = self.0.current.lock();
        let found = ServiceRole::ALL.iter().zip(&current.0).find(|(other, _)| **other == role);
        found.map(|(_, keys)| Arc::clone(keys)).unwrap_or_default()
    }

    /// Reads the files if the last reading is at least `age` ago, and returns whether it did. One caller reads; the others go on with what
    /// there is. The files are few and small, so they are read on the thread of the request.
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
                tracing::warn!(error, "cannot read the public keys of services again: the ones before stay");
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
