//! The account that a request writes for, which the write limit (`WriteLimit` of `ferrite_rpc`) is
//! counted for.
//!
//! Every request runs in a scope ([`serve`]). Authentication sets its account ([`set_writer`])
//! unless the request is a read. Tasks started with
//! [`Lifecycle::spawn_for_request`](crate::Lifecycle::spawn_for_request) share the scope of their
//! request. Background work has no scope and no limit.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_proto::grant::Grant;
use ferrite_proto::id::UserId;
use futures_util::future::Either;
use parking_lot::Mutex;

use crate::version::VersionExchange;

tokio::task_local! {
    static SCOPE: Arc<Scope>;
}

/// The account that a request writes for, and the percentage of the hourly limits that applies to
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// A user. For pushes with a deploy key whose user is unknown: the organization that owns the
    /// repository.
    pub account: UserId,
    /// `None` for 100 percent, [`u32::MAX`] for no limit.
    pub rate_percent: Option<u32>,
}

impl Writer {
    /// Returns the writer of a grant. `None` if it names no account, as grants for deploy keys of
    /// an older repo-svc.
    #[must_use]
    pub fn of_grant(grant: &Grant) -> Option<Self> {
        Some(Self { account: grant.limited_account()?, rate_percent: grant.limits.rate_percent })
    }
}

/// State of one request: its writer, whether it counts as a write, and the version of its resource.
#[derive(Debug, Default)]
pub struct Scope {
    writer: Mutex<Option<Writer>>,
    /// True once the request counts as a write, and for requests that are never refused.
    is_counted: AtomicBool,
    /// True if an exceeded limit refuses the commits of the request, not its transactions.
    is_refused_at_commit: AtomicBool,
    versions: VersionExchange,
}

/// Runs a request in a new scope without a writer.
pub async fn serve<F: Future>(request: F) -> F::Output {
    SCOPE.scope(Arc::default(), request).await
}

/// Runs `work` for `writer` in a new scope: for work of a request that runs outside its scope.
pub async fn serve_for<F: Future>(writer: Writer, work: F) -> F::Output {
    let scope = Scope { writer: Mutex::new(Some(writer)), ..Scope::default() };
    SCOPE.scope(Arc::new(scope), work).await
}

/// Like [`serve_for`], for further work of a request that already counts as a write. Its bytes
/// count.
pub async fn serve_counted<F: Future>(writer: Writer, work: F) -> F::Output {
    let scope = Scope { writer: Mutex::new(Some(writer)), is_counted: AtomicBool::new(true), ..Scope::default() };
    SCOPE.scope(Arc::new(scope), work).await
}

/// Runs background work. Its bytes count for `account`, but it is never refused.
pub async fn count_for<F: Future>(account: UserId, work: F) -> F::Output {
    let writer = Mutex::new(Some(Writer { account, rate_percent: None }));
    SCOPE.scope(Arc::new(Scope { writer, is_counted: AtomicBool::new(true), ..Scope::default() }), work).await
}

/// Sets the account that the current request writes for. Does nothing outside a request.
pub fn set_writer(writer: Writer) {
    if let Some(scope) = Scope::current() {
        *scope.writer.lock() = Some(writer);
    }
}

/// Exempts the current request from the limit: for operations that take access away. Its bytes
/// count.
pub fn never_refuse() {
    if let Some(scope) = Scope::current() {
        scope.set_counted();
    }
}

/// Makes an exceeded limit refuse the commits of the current request instead of its transactions.
/// For requests of which only the transaction knows whether they just take access away: it then
/// calls [`never_refuse`]. The request counts like others.
pub fn refuse_at_commit() {
    if let Some(scope) = Scope::current() {
        scope.is_refused_at_commit.store(true, Ordering::Relaxed);
    }
}

/// Runs `task` in the scope of the current request, if any.
pub fn inherit<F: Future>(task: F) -> impl Future<Output = F::Output> {
    match Scope::current() {
        Some(scope) => Either::Left(SCOPE.scope(scope, task)),
        None => Either::Right(task),
    }
}

impl Scope {
    /// Returns the scope of the current request; `None` outside a request.
    pub fn current() -> Option<Arc<Self>> {
        SCOPE.try_with(Arc::clone).ok()
    }

    /// Returns the account that the request writes for.
    pub fn writer(&self) -> Option<Writer> {
        *self.writer.lock()
    }

    /// Returns the precondition and version of the request.
    pub fn versions(&self) -> &VersionExchange {
        &self.versions
    }

    /// Whether the request already counts as a write.
    pub fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// Whether an exceeded limit refuses the commits of the request, not its transactions.
    pub fn is_refused_at_commit(&self) -> bool {
        self.is_refused_at_commit.load(Ordering::Relaxed)
    }

    /// Marks the request as a write that was counted.
    pub fn set_counted(&self) {
        self.is_counted.store(true, Ordering::Relaxed);
    }
}
