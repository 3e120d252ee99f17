//! Real databases and repositories for the tests of this crate.

use std::{
    future::Future,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ferrite_kit::{
    Clock, Secret,
    db::Db,
    grpc::channel,
    net::Address,
    outbox::{Relay, Subscribers},
};
use ferrite_proto::id::RepositoryId;
use git2::Oid;
use tokio::task::JoinSet;

use crate::{
    command::{Git, GitOptions},
    layout::Store,
    name::BranchName,
    pool::{Pool, PoolOptions},
    refs::Refs,
    store::{Repositories, migrations},
    work::Writer,
};

/// A store with one repository, and what it takes to write to it.
pub(crate) struct Bench {
    pub(crate) db: Db,
    pub(crate) store: Arc<Store>,
    pub(crate) refs: Refs,
    pub(crate) pool: Pool,
    pub(crate) id: RepositoryId,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new(db: Db) -> Self {
        migrations().run(&db).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path(), "s", Duration::ZERO).await.unwrap());
        let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap();
        let git = Arc::new(Git::find(GitOptions::default()).await.unwrap());
        let refs = Refs::new(Arc::clone(&store), pool.clone(), git);
        let id = RepositoryId(1);
        store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
        Repositories::new(db.clone()).place(id, "s", 1, 0).await.unwrap();
        Self { db, store, refs, pool, id, _folder: folder }
    }

    /// A writer as a process makes one when it starts: it knows what is on disk and nothing else.
    pub(crate) fn writer(&self) -> Writer {
        let nobody = channel(&Address::Unix("/nonexistent/socket".into()), None);
        let relay = Relay::new(self.db.clone(), Clock::system(), Subscribers::from([("repo-svc", nobody)]));
        let (store, pool) = (Arc::clone(&self.store), self.pool.clone());
        Writer::new(self.db.clone(), Clock::system(), relay, store, pool, self.refs.clone())
    }

    /// A commit that no ref points to.
    pub(crate) fn commit(&self, message: &str) -> Oid {
        let repo = git2::Repository::open_bare(self.store.path(self.id)).unwrap();
        let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
        let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(0, 0)).unwrap();
        repo.commit(None, &who, &who, message, &tree, &[]).unwrap()
    }
}

/// Runs `test` on SQLite, and on PostgreSQL when `FERRITE_TEST_POSTGRES_URL` names a server; in CI it must.
pub(crate) async fn on_each<F, T>(test: F)
where
    F: Fn(Db) -> T,
    T: Future<Output = ()> + Send + 'static,
{
    let folder = tempfile::tempdir().unwrap();
    test(sqlite(folder.path()).await).await;
    let Some(server) = postgres() else { return };
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("ferrite_git_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    statement(&server, &format!("CREATE DATABASE {name}")).await;
    let db = Db::open(&Secret::new(with_database(&server, &name)), 8).await.unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(test(db.clone()));
    let outcome = tasks.join_next().await.expect("there is one");
    db.close().await;
    statement(&server, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
    outcome.unwrap();
}

async fn sqlite(folder: &Path) -> Db {
    Db::open(&Secret::new(format!("sqlite://{}/test.db", folder.display())), 1).await.unwrap()
}

async fn statement(server: &str, sql: &str) {
    let pool = sqlx::PgPool::connect(server).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
    pool.close().await;
}

#[expect(clippy::disallowed_methods, reason = "settings of tests are no settings of a service")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn postgres() -> Option<String> {
    let url = setting("FERRITE_TEST_POSTGRES_URL");
    if url.is_none() {
        assert!(setting("CI").is_none_or(|ci| ci != "true"), "FERRITE_TEST_POSTGRES_URL must be set in CI");
        eprintln!("FERRITE_TEST_POSTGRES_URL is not set: PostgreSQL is not tested");
    }
    url
}

/// `server` with its database (the path) replaced.
fn with_database(server: &str, name: &str) -> String {
    let (address, options) =
        server.split_once('?').map_or((server, None), |(address, options)| (address, Some(options)));
    let authority = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
    options.map_or_else(|| format!("{authority}/{name}"), |options| format!("{authority}/{name}?{options}"))
}
