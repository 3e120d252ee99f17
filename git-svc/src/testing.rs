//! Real databases and repositories for the unit tests of this crate.

use std::{future::Future, sync::Arc, time::Duration};

use ferrite_core::{Clock, net::Address};
use ferrite_db::{Db, testing::on_each_schema};
use ferrite_events::{Relay, Subscribers};
use ferrite_proto::id::RepositoryId;
use ferrite_rpc::grpc::channel;
use git_store::{
    disk::{loose_objects::NewObject, repositories::RepositoryStore},
    git::command::{Git, GitOptions},
    repo::{
        pool::{Pool, PoolOptions},
        refs::Refs,
    },
    types::{
        limits::{PackLimits, PushLimits},
        name::BranchName,
    },
};
use git2::Oid;

use crate::{
    admission::backlog::Backlogs,
    config::packs::PackArgs,
    db::{RepositoryTable, migrations},
    ref_updates::{HOOK_SVC, ISSUE_SVC, REPO_SVC, RefUpdater},
    transfer::push::{HookSessions, HookSocket},
};

/// A store with one empty repository, and what writes to it.
pub(crate) struct TestRepo {
    pub(crate) db: Db,
    pub(crate) store: Arc<RepositoryStore>,
    pub(crate) refs: Refs,
    pub(crate) pool: Pool,
    pub(crate) git: Arc<Git>,
    /// Without limits, unless a test sets some.
    pub(crate) backlogs: Backlogs,
    pub(crate) id: RepositoryId,
    _folder: tempfile::TempDir,
}

impl TestRepo {
    pub(crate) async fn new(db: Db) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::ZERO).await.unwrap());
        let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap();
        let git = Arc::new(Git::find(GitOptions::default()).await.unwrap());
        let refs = Refs::new(Arc::clone(&store), pool.clone(), Arc::clone(&git));
        let id = RepositoryId(1);
        store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
        RepositoryTable::new(db.clone()).place(id, "s", 1, false, 0).await.unwrap();
        Self { db, store, refs, pool, git, backlogs: Backlogs::default(), id, _folder: folder }
    }

    pub(crate) fn with_backlogs(self, backlogs: Backlogs) -> Self {
        Self { backlogs, ..self }
    }

    /// Creates an updater with no state but what is on disk, as after a restart.
    pub(crate) fn updater(&self) -> RefUpdater {
        let subscriber = channel(Address::Unix("/nonexistent/socket".into()), None);
        let subscribers = Subscribers::from([REPO_SVC, ISSUE_SVC, HOOK_SVC].map(|name| (name, subscriber.clone())));
        let relay = Relay::new(self.db.clone(), Clock::system(), subscribers);
        let (store, pool) = (Arc::clone(&self.store), self.pool.clone());
        RefUpdater::new(self.db.clone(), Clock::system(), relay, store, pool, self.refs.clone(), self.backlogs.clone())
    }

    /// No running pushes, so hooks cannot call.
    pub(crate) fn sessions(&self) -> HookSessions {
        HookSocket::bind(self.store.root()).unwrap().sessions(10)
    }

    /// Writes a commit that no ref points to.
    pub(crate) fn commit(&self, message: &str) -> Oid {
        let repo = git2::Repository::open_bare(self.store.path(self.id)).unwrap();
        let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
        repo.commit(None, &who, &who, message, &tree, &[]).unwrap()
    }

    /// Reads objects of the repository in the form in which they are written.
    pub(crate) fn objects(&self, ids: &[Oid]) -> Vec<NewObject> {
        let repo = git2::Repository::open_bare(self.store.path(self.id)).unwrap();
        let odb = repo.odb().unwrap();
        let object = |id: &Oid| odb.read(*id).unwrap();
        ids.iter().map(|id| NewObject::new(object(id).kind(), object(id).data().to_vec()).unwrap()).collect()
    }
}

/// Runs `test` on SQLite and on PostgreSQL, with the schema in place.
pub(crate) async fn on_each<T>(test: impl Fn(Db) -> T)
where
    T: Future<Output = ()> + Send + 'static,
{
    on_each_schema(&migrations(), test).await;
}

pub(crate) fn pack_limits() -> PackLimits {
    PackArgs::default().limits()
}

pub(crate) fn push_limits(objects: u64) -> PushLimits {
    PushLimits { bytes: 1 << 20, objects, refs: 10, pack: pack_limits() }
}
