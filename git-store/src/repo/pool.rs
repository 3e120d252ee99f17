//! The threads that call libgit2: a fixed number of workers with a bounded queue, each keeping
//! repositories open.
//!
//! No other code calls libgit2, because calls block and a repository handle is not shared between
//! threads.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once},
    time::{Duration, Instant},
};

use ferrite_core::panic_text;
use ferrite_proto::id::RepositoryId;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{disk::repositories::RepositoryStore, types::error::GitError};

/// Sizes of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolOptions {
    /// Number of worker threads.
    pub workers: usize,
    /// Maximum length of the queue.
    pub queue: usize,
    /// Repositories that each worker keeps open.
    pub repos: usize,
    /// Idle time after which a repository is closed.
    pub idle: Duration,
}

/// Default number of open repositories of all workers: about 18 KiB each.
const MAX_OPEN_REPOSITORIES: usize = 2000;

impl Default for PoolOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let workers = 2 * cores;
        Self { workers, queue: 1024, repos: (MAX_OPEN_REPOSITORIES / workers).max(1), idle: Duration::from_secs(300) }
    }
}

/// A pool of worker threads. Clones share it; dropping the last one stops the threads.
#[derive(Clone)]
pub struct Pool {
    owner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<RepositoryStore>,
    options: PoolOptions,
    queue: Mutex<Queue>,
    wake: Condvar,
}

struct Queue {
    jobs: VecDeque<Job>,
    /// Per worker: repositories to close before the next job.
    forget: Vec<Vec<RepositoryId>>,
    /// Workers waiting for a job. Waking costs a system call even if none waits.
    waiting: usize,
    closed: bool,
}

type Job = Box<dyn FnOnce(&mut RepoCache) + Send>;

impl Pool {
    /// Starts the worker threads.
    pub fn new(store: Arc<RepositoryStore>, options: PoolOptions) -> Result<Self, GitError> {
        set_library_options();
        let workers = options.workers.max(1);
        let queue = Queue { jobs: VecDeque::new(), forget: vec![Vec::new(); workers], waiting: 0, closed: false };
        let shared = Arc::new(Shared { store, options, queue: Mutex::new(queue), wake: Condvar::new() });
        let owner = Arc::new(Owner { shared: Arc::clone(&shared) });
        for index in 0..workers {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name(format!("git-{index}"));
            thread.spawn(move || shared.work(index)).map_err(GitError::io("starting a worker"))?;
        }
        Ok(Self { owner })
    }

    /// Runs `job` on the repository. If an already open handle does not find an object, runs it
    /// again on a fresh one. Dropping the future cancels a queued job. A panic becomes
    /// [`GitError::Internal`].
    ///
    /// # Errors
    /// `Overloaded` if the queue is full, `RepositoryNotFound`, and those of the job.
    pub async fn run<T, F>(&self, id: RepositoryId, job: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: Fn(&git2::Repository) -> Result<T, GitError> + Send + 'static,
    {
        self.submit(move |repos| repos.run(id, &job)).await
    }

    /// Runs `job` on a separate handle that also sees a push's quarantined objects. `quarantine` is
    /// the name of their folder, next to the repository's objects. No other job sees them.
    pub async fn run_in_quarantine<T, F>(&self, id: RepositoryId, quarantine: String, job: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: FnOnce(&git2::Repository) -> Result<T, GitError> + Send + 'static,
    {
        let with_quarantine = move |store: &RepositoryStore| {
            store.check_exists(id)?;
            let repository = git2::Repository::open_bare(store.path(id))?;
            let objects = store.path(id).join("objects").join(quarantine);
            repository.odb()?.add_disk_alternate(&objects.to_string_lossy())?;
            job(&repository)
        };
        self.run_blocking(with_quarantine).await
    }

    /// Runs a blocking operation on the store on a worker thread.
    pub async fn run_blocking<T, F>(&self, job: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: FnOnce(&RepositoryStore) -> Result<T, GitError> + Send + 'static,
    {
        let contained = move |repos: &mut RepoCache| {
            catch_unwind(AssertUnwindSafe(|| job(&repos.shared.store))).unwrap_or_else(|panic| Err(panicked(&*panic)))
        };
        self.submit(contained).await
    }

    /// Closes the repository in every worker, after it was deleted or moved.
    pub fn forget(&self, id: RepositoryId) {
        let mut queue = self.owner.shared.queue.lock();
        for list in &mut queue.forget {
            list.push(id);
        }
        self.owner.shared.wake.notify_all();
    }

    async fn submit<T, F>(&self, job: F) -> Result<T, GitError>
    where
        T: Send + 'static,
        F: FnOnce(&mut RepoCache) -> Result<T, GitError> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let boxed: Job = Box::new(move |repos| {
            if !answer.is_closed() {
                // Fails if the caller dropped the future meanwhile.
                drop(answer.send(job(repos)));
            }
        });
        self.owner.shared.push(boxed)?;
        answered.await.map_err(|_| GitError::Internal("a job was dropped".to_owned()))?
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn push(&self, job: Job) -> Result<(), GitError> {
        let mut queue = self.queue.lock();
        if queue.jobs.len() >= self.options.queue {
            return Err(GitError::Overloaded);
        }
        queue.jobs.push_back(job);
        let has_waiting = queue.waiting > 0;
        // Unlock first: the woken worker takes the lock at once.
        drop(queue);
        if has_waiting {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Runs jobs until the queue is closed and empty, and closes idle repositories in between.
    fn work(self: Arc<Self>, index: usize) {
        let mut repos = RepoCache { shared: Arc::clone(&self), open: HashMap::new() };
        let poll_interval = self.options.idle.div_f32(4.0).max(Duration::from_millis(10));
        loop {
            let job = {
                let mut queue = self.queue.lock();
                if queue.jobs.is_empty() && queue.forget[index].is_empty() && !queue.closed {
                    queue.waiting += 1;
                    self.wake.wait_for(&mut queue, poll_interval);
                    queue.waiting -= 1;
                }
                for id in std::mem::take(&mut queue.forget[index]) {
                    repos.open.remove(&id);
                }
                let job = queue.jobs.pop_front();
                if job.is_none() && queue.closed {
                    return;
                }
                job
            };
            match job {
                Some(job) => job(&mut repos),
                None => repos.close_idle(),
            }
        }
    }
}

struct RepoCache {
    shared: Arc<Shared>,
    open: HashMap<RepositoryId, (git2::Repository, Instant)>,
}

impl RepoCache {
    fn run<T>(
        &mut self,
        id: RepositoryId,
        job: &dyn Fn(&git2::Repository) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let reused = self.open.contains_key(&id);
        let result = self.run_once(id, job);
        match result {
            Err(error) if reused && error.is_missing_object() => {
                self.open.remove(&id);
                self.run_once(id, job)
            }
            result => result,
        }
    }

    fn run_once<T>(
        &mut self,
        id: RepositoryId,
        job: &dyn Fn(&git2::Repository) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        if !self.shared.store.exists(id) {
            self.open.remove(&id);
            return Err(GitError::RepositoryNotFound);
        }
        // Taken out while the job runs, so that a handle is not reused after a panic.
        let (repository, _) = match self.open.remove(&id) {
            Some(handle) => handle,
            None => (git2::Repository::open_bare(self.shared.store.path(id))?, Instant::now()),
        };
        let result = catch_unwind(AssertUnwindSafe(|| job(&repository))).map_err(|panic| panicked(&*panic))?;
        self.evict_oldest();
        self.open.insert(id, (repository, Instant::now()));
        result
    }

    /// Closes the least recently used repository if the worker is at its limit.
    fn evict_oldest(&mut self) {
        if self.open.len() < self.shared.options.repos.max(1) {
            return;
        }
        let oldest = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(id, _)| *id);
        if let Some(oldest) = oldest {
            self.open.remove(&oldest);
        }
    }

    fn close_idle(&mut self) {
        let idle = self.shared.options.idle;
        self.open.retain(|_, (_, used)| used.elapsed() < idle);
    }
}

fn panicked(panic: &(dyn Any + Send)) -> GitError {
    GitError::Internal(format!("a job panicked: {}", panic_text(panic)))
}

/// Sets process-wide options of libgit2. Cache sizes need `unsafe`, so they stay at defaults.
fn set_library_options() {
    static ONCE: Once = Once::new();
    // Hashing on each read would detect bit rot. So does `git fsck`, outside of requests.
    ONCE.call_once(|| git2::opts::strict_hash_verification(false));
}

#[cfg(test)]
mod tests;
