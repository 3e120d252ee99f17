//! Hashes passwords with Argon2id on blocking threads, at most one per core at a time: each hash
//! takes 19 MiB and about 20 ms.

use std::collections::HashMap;
use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use ferrite_core::Secret;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::RepoError;
use crate::model::Password;

/// Callers that can wait for a permit; more fail with [`RepoError::Busy`].
const MAX_WAITING: usize = 256;
/// Share of one client address, so that one client cannot fill the queue.
const MAX_WAITING_PER_ADDRESS: usize = 64;
/// A separate queue for sign-ins from known addresses, so that password guessing does not lock them
/// out.
const MAX_WAITING_KNOWN: usize = 64;
/// 255 characters of 4 bytes in UTF-8. Longer passwords are rejected without hashing.
const MAX_PASSWORD_BYTES: usize = 255 * 4;
/// Hash of no known password. Verified for accounts that do not exist, so that both cases take the
/// same time.
const DUMMY_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$ZmVycml0ZS1kdW1teS0wMA$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

/// Hashes and verifies passwords. Clones share one limit.
#[derive(Clone, Debug)]
pub(crate) struct Passwords {
    queue: Arc<Semaphore>,
    known: Arc<Semaphore>,
    cores: Arc<Semaphore>,
    /// Waiting callers per client address.
    waiting: Arc<Mutex<HashMap<String, usize>>>,
}

impl Passwords {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        Self {
            queue: semaphore(MAX_WAITING),
            known: semaphore(MAX_WAITING_KNOWN),
            cores: semaphore(cores),
            waiting: Arc::default(),
        }
    }

    /// Waits for a permit to hash once. Fails with [`RepoError::Busy`] if too many callers are
    /// waiting.
    pub(crate) async fn acquire(&self) -> Result<HashPermit, RepoError> {
        self.wait_in(&self.queue).await
    }

    /// Like [`Self::acquire`], but also limits how many callers of `address` wait.
    pub(crate) async fn acquire_for(&self, address: &str) -> Result<HashPermit, RepoError> {
        let _slot = WaitingSlot::acquire(&self.waiting, address).ok_or(RepoError::Busy)?;
        self.acquire().await
    }

    /// Like [`Self::acquire`], in the queue for known addresses.
    pub(crate) async fn acquire_known(&self) -> Result<HashPermit, RepoError> {
        self.wait_in(&self.known).await
    }

    async fn wait_in(&self, queue: &Semaphore) -> Result<HashPermit, RepoError> {
        let _waiting = queue.try_acquire().map_err(|_| RepoError::Busy)?;
        let permit = Arc::clone(&self.cores).acquire_owned().await.map_err(|_| RepoError::Busy)?;
        Ok(HashPermit(permit))
    }

    pub(crate) async fn hash(&self, password: &Password) -> Result<String, RepoError> {
        let secret = password.secret().clone();
        let permit = self.acquire().await?;
        permit
            .run(move || {
                let hash: PasswordHash = Argon2::default()
                    .hash_password(secret.expose().as_bytes())
                    .map_err(|error| RepoError::Hashing(error.to_string()))?;
                Ok(hash.to_string())
            })
            .await
    }
}

/// Counts one waiting caller of an address until it is dropped.
struct WaitingSlot<'a> {
    waiting: &'a Mutex<HashMap<String, usize>>,
    address: &'a str,
}

impl<'a> WaitingSlot<'a> {
    /// `None` if too many callers of the address are waiting.
    fn acquire(waiting: &'a Mutex<HashMap<String, usize>>, address: &'a str) -> Option<Self> {
        let mut counts = waiting.lock();
        let count = counts.entry(address.to_owned()).or_default();
        if *count >= MAX_WAITING_PER_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Self { waiting, address })
    }
}

impl Drop for WaitingSlot<'_> {
    fn drop(&mut self) {
        let mut counts = self.waiting.lock();
        if let Some(count) = counts.get_mut(self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(self.address);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct HashPermit(OwnedSemaphorePermit);

impl HashPermit {
    /// Returns whether `hash` belongs to `password`. Without a hash, returns `false` after the same
    /// time.
    pub(crate) async fn verify(self, password: &Secret, hash: Option<String>) -> Result<bool, RepoError> {
        let password = password.clone();
        self.run(move || {
            let is_possible = hash.is_some() && password.expose().len() <= MAX_PASSWORD_BYTES;
            let bytes = if is_possible { password.expose().as_bytes() } else { b"" };
            let text = hash.filter(|_| is_possible).unwrap_or_else(|| DUMMY_HASH.to_owned());
            let parsed = PasswordHash::new(&text).map_err(|error| RepoError::Hashing(error.to_string()))?;
            Ok(Argon2::default().verify_password(bytes, &parsed).is_ok() && is_possible)
        })
        .await
    }

    async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T, RepoError> + Send + 'static,
    ) -> Result<T, RepoError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "bounded by the semaphore, whose permit the task holds until it ends"
        )]
        let task = tokio::task::spawn_blocking(move || {
            let outcome = work();
            drop(self.0);
            outcome
        });
        task.await.map_err(|error| RepoError::Hashing(error.to_string()))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_recognised_by_its_hash_alone() {
        let passwords = Passwords::new();
        let secret = Secret::new("correct horse");
        let hash = passwords.hash(&Password::parse(&secret, "password").unwrap()).await.unwrap();
        assert!(passwords.acquire().await.unwrap().verify(&secret, Some(hash.clone())).await.unwrap());
        assert!(
            !passwords
                .acquire()
                .await
                .unwrap()
                .verify(&Secret::new("Correct horse"), Some(hash.clone()))
                .await
                .unwrap()
        );
        assert!(
            !passwords.acquire().await.unwrap().verify(&Secret::new("x".repeat(100_000)), Some(hash)).await.unwrap()
        );
        assert!(!passwords.acquire().await.unwrap().verify(&secret, None).await.unwrap());
    }

    #[tokio::test]
    async fn one_address_does_not_fill_the_queue_and_a_full_one_lets_known_addresses_in() {
        let passwords = Passwords::new();
        let cores = u32::try_from(passwords.cores.available_permits()).unwrap();
        let busy = Arc::clone(&passwords.cores).acquire_many_owned(cores).await.unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        let wait_for = |waiting: &mut tokio::task::JoinSet<bool>, address: String| {
            let passwords = passwords.clone();
            waiting.spawn(async move { passwords.acquire_for(&address).await.is_ok() });
        };
        for _ in 0..MAX_WAITING_PER_ADDRESS + 10 {
            wait_for(&mut waiting, "192.0.2.1".to_owned());
        }
        // Callers above the limit of the address are rejected at once.
        for _ in 0..10 {
            assert!(!waiting.join_next().await.unwrap().unwrap());
        }
        for number in 0..MAX_WAITING {
            wait_for(&mut waiting, format!("198.51.100.{number}"));
        }
        for _ in 0..MAX_WAITING_PER_ADDRESS {
            assert!(!waiting.join_next().await.unwrap().unwrap(), "the queue is full");
        }
        assert!(matches!(passwords.acquire().await, Err(RepoError::Busy)));
        let (known, ()) = tokio::join!(passwords.acquire_known(), async { drop(busy) });
        known.unwrap();
        assert!(waiting.join_all().await.into_iter().all(|is_served| is_served));
        assert!(passwords.waiting.lock().is_empty());
    }

    #[tokio::test]
    async fn an_unknown_account_takes_as_long_as_a_known_one() {
        let secret = Secret::new("correct horse");
        let real = Passwords::new().hash(&Password::parse(&secret, "password").unwrap()).await.unwrap();
        let (real, dummy) = (PasswordHash::new(&real).unwrap(), PasswordHash::new(DUMMY_HASH).unwrap());
        assert_eq!((real.algorithm, real.version, real.params), (dummy.algorithm, dummy.version, dummy.params));
        assert!(dummy.salt.is_some() && dummy.hash.is_some());
    }
}
