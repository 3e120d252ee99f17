//! Packs that a long job reads, and the lock under which packs are listed, moved into place and
//! removed. Consolidations leave reserved packs alone, so that both can work on a repository at
//! once.

use std::{collections::HashSet, sync::Arc};

use ferrite_proto::id::RepositoryId;
use git_store::{disk::packs::Pack, types::weak_map::WeakMap};
use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// Reservations by repository. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct PackReservations(Arc<WeakMap<RepositoryId, RepositoryPacks>>);

#[derive(Debug, Default)]
pub(super) struct RepositoryPacks {
    lock: Arc<AsyncMutex<()>>,
    /// `None` while no long job runs.
    reserved: Mutex<Option<HashSet<String>>>,
}

/// The packs reserved by one long job, until dropped.
#[derive(Debug)]
pub(super) struct Reservation(Arc<RepositoryPacks>);

impl PackReservations {
    /// Returns the entry of a repository, which exists while it is used.
    pub(super) fn of(&self, id: RepositoryId) -> Arc<RepositoryPacks> {
        self.0.get_or_insert_with(id, RepositoryPacks::default)
    }
}

impl RepositoryPacks {
    /// Waits for the lock on the packs.
    pub(super) async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.lock).lock_owned().await
    }

    /// Returns whether a long job of this process is running.
    pub(super) fn has_reservation(&self) -> bool {
        self.reserved.lock().is_some()
    }

    /// Returns whether a long job has reserved the pack.
    pub(super) fn is_reserved(&self, name: &str) -> bool {
        self.reserved.lock().as_ref().is_some_and(|names| names.contains(name))
    }
}

impl Reservation {
    /// Starts a long job without reserved packs. The caller must hold the lock on the packs and be
    /// the only long job of the repository.
    pub(super) fn begin(packs: Arc<RepositoryPacks>) -> Self {
        *packs.reserved.lock() = Some(HashSet::new());
        Self(packs)
    }

    /// Waits for the lock on the packs.
    pub(super) async fn lock(&self) -> OwnedMutexGuard<()> {
        self.0.lock().await
    }

    /// Reserves exactly these packs. The caller must hold the lock on the packs.
    pub(super) fn reserve(&self, packs: &[Pack]) {
        *self.0.reserved.lock() = Some(packs.iter().map(|pack| pack.name.clone()).collect());
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *self.0.reserved.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use git_store::disk::packs::PackRole;

    use super::*;

    #[tokio::test]
    async fn packs_are_reserved_until_the_job_ends() {
        let reservations = PackReservations::default();
        let pack = |name: &str| Pack { name: name.to_owned(), objects: 1, role: PackRole::Recent };
        let packs = reservations.of(RepositoryId(1));
        assert!(!packs.has_reservation() && !packs.is_reserved("a"));
        let job = Reservation::begin(reservations.of(RepositoryId(1)));
        job.reserve(&[pack("a"), pack("b")]);
        assert!(packs.is_reserved("a") && packs.is_reserved("b") && packs.has_reservation());
        assert!(!reservations.of(RepositoryId(2)).is_reserved("a"));
        job.reserve(&[pack("c")]);
        assert!(!packs.is_reserved("a") && packs.is_reserved("c"));
        let lock = packs.lock().await;
        assert!(tokio::time::timeout(std::time::Duration::from_millis(10), job.lock()).await.is_err());
        drop((lock, job));
        assert!(!packs.has_reservation());
    }
}
