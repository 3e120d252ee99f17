//! The limit on file descriptors, and the number of public connections that fit into it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The default of `fs.nr_open` in Linux.
const MAX_DESCRIPTORS: u64 = 1 << 20;
/// Descriptors for everything but public connections: databases, files, listeners, and calls
/// between services.
const RESERVED_DESCRIPTORS: usize = 128;
/// Minimum number of connections of a listener, however low the limit is.
const MIN_CONNECTIONS: usize = 16;

/// Raises the file descriptor limit of the process as far as the system allows.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(MAX_DESCRIPTORS).min(MAX_DESCRIPTORS);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }) {
        tracing::warn!(%error, wanted, "cannot raise the file descriptor limit");
    }
}

/// Returns how many of `wanted` connections fit into `eighths` of the file descriptors. Logs a
/// warning if they do not all fit.
#[must_use]
pub fn fit_descriptors(listener: &'static str, wanted: usize, eighths: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let fitting = fitting(limit, eighths);
    if fitting < wanted {
        tracing::warn!(
            listener,
            descriptors = limit,
            connections = fitting,
            wanted,
            "the file descriptor limit allows fewer connections"
        );
    }
    wanted.min(fitting)
}

fn fitting(limit: usize, eighths: usize) -> usize {
    (limit.saturating_sub(RESERVED_DESCRIPTORS) / 8).saturating_mul(eighths).max(MIN_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_process() {
        assert_eq!(fitting(1024, 3), 336);
        assert_eq!(fitting(64, 3), MIN_CONNECTIONS);
        assert!(fitting(usize::MAX, 3) > 1 << 40);
    }

    #[test]
    fn the_limit_is_raised_to_the_one_of_the_system() {
        raise_descriptor_limit();
        let limit = getrlimit(Resource::Nofile);
        assert!(limit.current >= limit.maximum.map(|maximum| maximum.min(MAX_DESCRIPTORS)), "{limit:?}");
    }
}
