//! The inspector of a push, shared by the tasks of its transfer. Long pieces of a pack are read on
//! a blocking thread: they may inflate to a thousand times their size, and other requests must not
//! wait for that.

use std::sync::Arc;

use git_store::types::limits::CpuAllowance;
use parking_lot::Mutex;

use super::{inspect::PushInspector, status_report::StatusReport};

/// Longest piece to read on the caller's thread. It inflates to at most 4 MiB.
const MAX_INLINE_BYTES: usize = 4 << 10;
/// Bytes to read before others get to use the inspector.
const BYTES_PER_TURN: usize = 16 << 10;

pub(crate) struct PushInspection {
    inspector: Arc<Mutex<PushInspector>>,
    /// CPU time of the git processes that receive the push.
    pub(crate) cpu: CpuAllowance,
}

impl PushInspection {
    pub(crate) fn new(inspector: PushInspector) -> Self {
        let cpu = inspector.limits().pack.cpu;
        Self { inspector: Arc::new(Mutex::new(inspector)), cpu }
    }

    pub(crate) async fn inspect(&self, bytes: &[u8], received: u64) -> Option<Vec<u8>> {
        if bytes.len() <= MAX_INLINE_BYTES {
            return self.inspector.lock().inspect(bytes, received);
        }
        let (inspector, bytes) = (Arc::clone(&self.inspector), bytes.to_vec());
        let work = move || bytes.chunks(BYTES_PER_TURN).find_map(|piece| inspector.lock().inspect(piece, received));
        #[expect(clippy::disallowed_methods, reason = "one at a time per push, and pushes are limited")]
        let inspected = tokio::task::spawn_blocking(work).await;
        inspected.unwrap_or_else(|error| {
            tracing::error!(%error, "a pack could not be inspected");
            Some(self.rejection_report("internal error").unwrap_or_default())
        })
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.inspector.lock().is_complete()
    }

    pub(crate) fn rejection_report(&self, reason: &str) -> Option<Vec<u8>> {
        self.inspector.lock().rejection_report(reason)
    }

    pub(crate) fn status_report(&self) -> StatusReport {
        self.inspector.lock().status_report()
    }
}
