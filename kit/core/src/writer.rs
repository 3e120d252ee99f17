//! The account that a request writes for: what the limit on writes (`WriteLimit` of `ferrite_rpc`) counts for.
//!
//! Every request is served in a scope ([`serve`]). Authentication names its account ([`set_writer`]), unless the request is a read. Tasks that
//! [`Lifecycle::spawn_for_request`](crate::Lifecycle::spawn_for_request) starts share the scope of their request. Work in the background has
//! none and is not limited.

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

/// The account that a request writes for, with the percentage of the limits per hour that applies to it; `None` for 100, [`u32::MAX`] for no
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The account: a user, or an organization for pushes with deploy keys of its repositories whose users are not known.
    pub account: UserId,
    /// The percentage.
    pub rate_percent: Option<u32>,
}

impl Writer {
    /// Returns the writer that a grant is for. `None` if it names no account: for a deploy key, in a grant of an older repo-svc.
    #[must_use]
    pub fn of_grant(grant: &Grant) -> Option<Self> {
        Some(Self { account: grant.limited_account()?, rate_percent: grant.limits.rate_percent })
    }
}

/// What is known of the writes of one request, and of the version of its resource.
#[derive(Debug, Default)]
pub struct Scope {
    writer: Mutex<Option<Writer>>,
    /// True once the request counts as a write, and for one that is never refused.
    is_counted: AtomicBool,
    /// True if a reached limit refuses the commits of the request, not its transactions.
    is_refused_at_commit: AtomicBool,
    versions: VersionExchange,
}

/// Serves a request in a scope of its own, which writes for nobody yet.
pub async fn serve<F: Future>(request: F) -> F::Output {
    SCOPE.scope(Arc::default(), request).await
}

/// Does `work`, which writes for `writer`, in a scope of its own: for work of a request that runs apart from it.
pub async fn serve_for<F: Future>(writer: Writer, work: F) -> F::Output {
    let scope = Scope { writer: Mutex::new(Some(writer)), ..Scope::default() };
    SCOPE.scope(Arc::new(scope), work).await
}

/// As [`serve_for`], for more work of a request that counts as a write already. Its bytes count.
pub async fn serve_counted<F: Future>(writer: Writer, work: F) -> F::Output {
    let scope = Scope { writer: Mutex::new(Some(writer)), is_counted: AtomicBool::new(true), ..Scope::default() };
    SCOPE.scope(Arc::new(scope), work).await
}

/// Does `work` in the background, whose bytes count for `account`. It is never refused.
pub async fn count_for<F: Future>(account: UserId, work: F) -> F::Output {
    let writer = Mutex::new(Some(Writer { account, rate_percent: None }));
    SCOPE.scope(Arc::new(Scope { writer, is_counted: AtomicBool::new(true), ..Scope::default() }), work).await
}

/// Names the account that the current request writes for. Does nothing outside of a request.
pub fn set_writer(writer: Writer) {
    if let Some(scope) = Scope::current() {
        *scope.writer.lock() = Some(writer);
    }
}

/// Has the current request done even if its account has written as much as it may: for what takes access away. Its bytes count.
pub fn never_refuse() {
    if let Some(scope) = Scope::current() {
        scope.set_counted();
    }
}

/// Has a reached limit refuse the commits of the current request, not its transactions: for a request of which only a transaction knows
/// whether it does nothing but take access away. If so, the transaction calls [`never_refuse`]. Until then the request can change nothing
/// beyond the limit, and it counts like others.
pub fn refuse_at_commit() {
    if let Some(scope) = Scope::current() {
        scope.is_refused_at_commit.store(true, Ordering::Relaxed);
    }
}

/// Runs `task` in the scope of the current request, if there is one.
pub fn inherit<F: Future>(task: F) -> impl Future<Output = F::Output> {
    match Scope::current() {
        Some(scope) => Either::Left(SCOPE.scope(scope, task)),
        None => Either::Right(task),
    }
}

impl Scope {
    /// Returns the scope of the current request; `None` for other work.
    pub fn current() -> Option<Arc<Self>> {
        SCOPE.try_with(Arc::clone).ok()
    }

    /// Returns the account that the request writes for.
    pub fn writer(&self) -> Option<Writer> {
        *self.writer.lock()
    }

    /// Returns what the request says about the version of its resource.
    pub fn versions(&self) -> &VersionExchange {
        &self.versions
    }

    /// Returns whether the request counts as a write already.
    pub fn is_counted(&self) -> bool {
        self.is_counted.load(Ordering::Relaxed)
    }

    /// Returns whether a reached limit refuses the commits of the request, not its transactions.
    pub fn is_refused_at_commit(&self) -> bool {
        self.is_refused_at_commit.load(Ordering::Relaxed)
    }

    /// Notes that the request counts as a write.
    pub fn set_counted(&self) {
        self.is_counted.store(true, Ordering::Relaxed);
    }
}
