//! Registry of running pushes and fetches, by the secret id that their hooks know.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use ferrite_core::telemetry;
use ferrite_proto::id::RepositoryId;
use git_store::{disk::ignore_missing, types::error::GitError};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tracing::Span;
use uuid::Uuid;

use super::{credential::RemoteLogins, hook, push::Push};
use crate::transfer::fetch::Fetch;

/// Limit on the socket's path; the address of a Unix socket has room for 108 bytes.
const MAX_SOCKET_PATH_BYTES: usize = 100;

#[derive(Clone, Debug)]
pub(crate) enum HookKind {
    Push(Push),
    Fetch(Fetch),
    /// A fetch by git-svc itself from a remote.
    RemoteFetch(RemoteLogins),
}

/// A running push or fetch, and the span of its request, to which its hooks belong.
#[derive(Debug)]
struct Served {
    kind: HookKind,
    span: Span,
}

/// Registry of running pushes and fetches. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct HookSessions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    socket: PathBuf,
    /// Limit on the refs of one push.
    max_refs: usize,
    served: Mutex<HashMap<String, Served>>,
    /// Repositories in which an aborted push may have left files, with the time of the last abort.
    aborted: Mutex<HashMap<RepositoryId, SystemTime>>,
}

/// Socket for hooks. Its file is deleted on drop.
#[derive(Debug)]
pub(crate) struct HookSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// Temporary directory of the socket, if the path in the store is too long.
    folder: Option<PathBuf>,
}

/// Registration of a running push or fetch, until dropped.
#[derive(Debug)]
pub(crate) struct HookSession {
    id: String,
    repository: RepositoryId,
    sessions: HookSessions,
}

impl HookSocket {
    /// Listens in the store's directory or, if that path is too long, in a new subdirectory of the
    /// system's temporary directory.
    pub(crate) fn bind(store: &Path) -> Result<Self, GitError> {
        let mut path = store.join("hook.sock");
        let mut folder = None;
        if path.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
            let own = std::env::temp_dir().join(format!("ferrite-{}", Uuid::new_v4()));
            let made = fs::DirBuilder::new().mode(0o700).create(&own);
            made.map_err(GitError::io(format!("creating `{}`", own.display())))?;
            path = own.join("hook.sock");
            folder = Some(own);
        }
        let listener = listen(&path).map_err(GitError::io(format!("listening on `{}`", path.display())))?;
        Ok(Self { listener, path, folder })
    }

    /// Returns the registry for hooks that connect to this socket. A push may change up to
    /// `max_refs` refs.
    pub(crate) fn sessions(&self, max_refs: usize) -> HookSessions {
        let (served, aborted) = (Mutex::default(), Mutex::default());
        HookSessions(Arc::new(Inner { socket: self.path.clone(), max_refs, served, aborted }))
    }
}

/// Listens on `path`, replacing an existing file: the store's lock excludes other listeners, so the
/// file belongs to a dead process.
fn listen(path: &Path) -> io::Result<UnixListener> {
    ignore_missing(fs::remove_file(path))?;
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Drop for HookSocket {
    fn drop(&mut self) {
        // A file that cannot be removed is replaced by the next process.
        drop(fs::remove_file(&self.path));
        if let Some(folder) = &self.folder {
            drop(fs::remove_dir(folder));
        }
    }
}

impl HookSessions {
    /// Registers a push until the returned session is dropped.
    pub(crate) fn open(&self, push: Push) -> HookSession {
        self.remember(push.repository, HookKind::Push(push))
    }

    /// Registers a fetch until the returned session is dropped.
    pub(crate) fn open_fetch(&self, fetch: Fetch) -> HookSession {
        self.remember(fetch.repository, HookKind::Fetch(fetch))
    }

    /// Registers a fetch from a remote until the returned session is dropped. git may ask for
    /// `logins` until then.
    pub(crate) fn open_remote_fetch(&self, repository: RepositoryId, logins: RemoteLogins) -> HookSession {
        self.remember(repository, HookKind::RemoteFetch(logins))
    }

    fn remember(&self, repository: RepositoryId, kind: HookKind) -> HookSession {
        let id = Uuid::new_v4().simple().to_string();
        self.0.served.lock().insert(id.clone(), Served { kind, span: Span::current() });
        HookSession { id, repository, sessions: self.clone() }
    }

    /// Returns the push or fetch with this secret id.
    pub(crate) fn find(&self, id: &[u8]) -> Option<HookKind> {
        self.0.served.lock().get(std::str::from_utf8(id).ok()?).map(|served| served.kind.clone())
    }

    /// Returns the span for a hook of the push or fetch with this secret id: a new one if the trace
    /// is exported, else that of the request.
    pub(super) fn hook_span(&self, id: &[u8]) -> Span {
        let span = std::str::from_utf8(id).ok().and_then(|id| Some(self.0.served.lock().get(id)?.span.clone()));
        let span = span.unwrap_or_else(Span::none);
        if span.in_scope(telemetry::is_sampled) {
            tracing::info_span!(parent: &span, "hook", otel.name = "git hook", otel.kind = "internal")
        } else {
            span
        }
    }

    /// Returns the start time of the oldest running push to a repository; now if there is none.
    /// Older temporary files belong to no running push.
    pub(crate) fn oldest(&self, repository: RepositoryId) -> SystemTime {
        // Read before taking the lock: a push that starts meanwhile is not older.
        let now = SystemTime::now();
        let served = self.0.served.lock();
        let begun = served.values().filter_map(|served| match &served.kind {
            HookKind::Push(push) => (push.repository == repository).then_some(push.begun),
            HookKind::Fetch(_) | HookKind::RemoteFetch(_) => None,
        });
        begun.min().map_or(now, |begun| begun.min(now))
    }

    pub(crate) fn mark_aborted(&self, repository: RepositoryId) {
        self.0.aborted.lock().insert(repository, SystemTime::now());
    }

    /// Returns the time before which temporary files of pushes belong to no running push and may be
    /// deleted; `None` if no push was aborted. While an older push runs, the record of the abort
    /// stays, so that the end of that push triggers another removal.
    pub(crate) fn aborted_before(&self, repository: RepositoryId) -> Option<SystemTime> {
        let mut aborted = self.0.aborted.lock();
        let last = *aborted.get(&repository)?;
        let before = self.oldest(repository);
        if last < before {
            aborted.remove(&repository);
        }
        Some(before)
    }

    /// Returns whether no push and no fetch is running.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.served.lock().is_empty()
    }
}

impl HookSession {
    pub(crate) fn repository(&self) -> RepositoryId {
        self.repository
    }

    /// Returns the environment variables of the hook.
    pub(crate) fn env(&self) -> Vec<(&'static str, OsString)> {
        let Inner { socket, max_refs, .. } = &*self.sessions.0;
        vec![
            (hook::SOCKET, socket.clone().into()),
            (hook::SESSION, self.id.clone().into()),
            (hook::MAX_REFS, max_refs.to_string().into()),
        ]
    }
}

impl Drop for HookSession {
    fn drop(&mut self) {
        self.sessions.0.served.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use ferrite_proto::{Permission, grant::IssueReach};
    use git_store::types::protection::Actor;

    use super::*;

    fn writer() -> Actor {
        Actor { user: 4, permission: Permission::Write, issue_reach: IssueReach::None }
    }

    #[tokio::test]
    async fn a_session_ends_with_its_push() {
        let folder = tempfile::tempdir().unwrap();
        let socket = HookSocket::bind(folder.path()).unwrap();
        let sessions = socket.sessions(10);
        let actor = writer();
        let session = sessions.open(Push::new(RepositoryId(3), actor));
        let id = session.id.clone();
        let found = sessions.find(id.as_bytes());
        assert!(matches!(found, Some(HookKind::Push(push)) if push.repository == RepositoryId(3)));
        assert!(sessions.find(b"").is_none() && sessions.find(&[0xff]).is_none());
        let (before, begun) = (SystemTime::UNIX_EPOCH, SystemTime::now());
        assert!(
            (before..=begun).contains(&sessions.oldest(RepositoryId(3))) && sessions.oldest(RepositoryId(4)) >= begun
        );
        drop(session);
        assert!(sessions.find(id.as_bytes()).is_none() && sessions.oldest(RepositoryId(3)) >= begun);
    }

    #[tokio::test]
    async fn the_last_of_several_pushes_sweeps_for_all() {
        let folder = tempfile::tempdir().unwrap();
        let sessions = HookSocket::bind(folder.path()).unwrap().sessions(10);
        let actor = writer();
        let id = RepositoryId(3);
        let (long, short) = (sessions.open(Push::new(id, actor)), sessions.open(Push::new(id, actor)));
        assert!(sessions.aborted_before(id).is_none());
        drop(short);
        sessions.mark_aborted(id);
        let left = SystemTime::now();
        assert!(sessions.aborted_before(id).unwrap() < left, "what the other push has is left alone");
        drop(long);
        assert!(sessions.aborted_before(id).unwrap() >= left);
        assert!(sessions.aborted_before(id).is_none());
    }

    #[tokio::test]
    async fn a_socket_finds_a_place_when_the_store_is_deep_down() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(120));
        fs::create_dir(&deep).unwrap();
        let socket = HookSocket::bind(&deep).unwrap();
        let (path, own) = (socket.path.clone(), socket.folder.clone().unwrap());
        assert!(path.exists());
        assert_eq!(fs::metadata(&own).unwrap().permissions().mode() & 0o777, 0o700);
        drop(socket);
        assert!(!own.exists());
    }
}
