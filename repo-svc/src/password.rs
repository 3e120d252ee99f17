//! Password hashing (argon2id), off the runtime's threads and bounded: it costs 19 MiB and some 20 ms each time.

use std::sync::Arc;

use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use ferrite_kit::Secret;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::RepoError;
use crate::model::Password;

/// Sign-ins that may wait for their turn; more are told to come back.
const WAITING: usize = 256;
/// No password of ours is longer, in bytes.
const MAX_BYTES: usize = 255 * 4;
/// Checked for accounts that do not exist, so that they take as long as those that do. Of no known password.
const DUMMY: &str = "$argon2id$v=19$m=19456,t=2,p=1$ZmVycml0ZS1kdW1teS0wMA$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

/// Hashes and checks passwords.
#[derive(Clone, Debug)]
pub(crate) struct Passwords {
    queue: Arc<Semaphore>,
    cores: Arc<Semaphore>,
}

impl Passwords {
    /// As many at once as there are cores.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self { queue: Arc::new(Semaphore::new(WAITING)), cores: Arc::new(Semaphore::new(cores)) }
    }

    /// Waits for a turn to hash once.
    pub(crate) async fn turn(&self) -> Result<Turn, RepoError> {
        let _waiting = self.queue.try_acquire().map_err(|_| RepoError::Busy)?;
        let core = Arc::clone(&self.cores).acquire_owned().await.map_err(|_| RepoError::Busy)?;
        Ok(Turn(core))
    }

    /// The hash to keep of a new password.
    pub(crate) async fn hash(&self, password: &Password) -> Result<String, RepoError> {
        let secret = password.secret().clone();
        let turn = self.turn().await?;
        turn.run(move || {
            let hash: PasswordHash = Argon2::default()
                .hash_password(secret.expose().as_bytes())
                .map_err(|error| RepoError::Hashing(error.to_string()))?;
            Ok(hash.to_string())
        })
        .await
    }
}

/// The right to hash once.
#[derive(Debug)]
pub(crate) struct Turn(OwnedSemaphorePermit);

impl Turn {
    /// Whether `password` is the one that was hashed. Without a hash it is not, after the same time.
    pub(crate) async fn verify(self, password: &Secret, hash: Option<String>) -> Result<bool, RepoError> {
        let password = password.clone();
        self.run(move || {
            let is_possible = hash.is_some() && password.expose().len() <= MAX_BYTES;
            let bytes = if is_possible { password.expose().as_bytes() } else { b"" };
            let text = hash.filter(|_| is_possible).unwrap_or_else(|| DUMMY.to_owned());
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
            reason = "bounded by the semaphore, whose permit the task holds to its end"
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
        assert!(passwords.turn().await.unwrap().verify(&secret, Some(hash.clone())).await.unwrap());
        assert!(
            !passwords.turn().await.unwrap().verify(&Secret::new("Correct horse"), Some(hash.clone())).await.unwrap()
        );
        assert!(!passwords.turn().await.unwrap().verify(&Secret::new("x".repeat(100_000)), Some(hash)).await.unwrap());
        assert!(!passwords.turn().await.unwrap().verify(&secret, None).await.unwrap());
    }

    #[tokio::test]
    async fn an_unknown_account_costs_what_a_known_one_costs() {
        let secret = Secret::new("correct horse");
        let real = Passwords::new().hash(&Password::parse(&secret, "password").unwrap()).await.unwrap();
        let (real, dummy) = (PasswordHash::new(&real).unwrap(), PasswordHash::new(DUMMY).unwrap());
        assert_eq!((real.algorithm, real.version, real.params), (dummy.algorithm, dummy.version, dummy.params));
        assert!(dummy.salt.is_some() && dummy.hash.is_some());
    }
}
