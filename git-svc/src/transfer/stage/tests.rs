//! Copies of commits made by real git: what they contain, and what a failure leaves.

use std::{fs, path::PathBuf, process::Command};

use git_store::{
    git::command::GitOptions,
    repo::pool::PoolOptions,
    types::{limits::PackLimits, name::BranchName},
};

use super::*;
use crate::testing::{pack_limits, push_limits};

const TARGET: RepositoryId = RepositoryId(1);
const SOURCE: RepositoryId = RepositoryId(2);
const UNRELATED: RepositoryId = RepositoryId(3);

struct Fixture {
    folder: tempfile::TempDir,
    store: Arc<RepositoryStore>,
    life: Lifecycle,
    stages: StageService,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(PushLimits { bytes: 1 << 24, ..push_limits(1000) }).await
    }

    /// Three repositories: the second has the `main` of the first, the last is empty.
    async fn with(limits: PushLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::ZERO).await.unwrap());
        let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap();
        let git = Arc::new(Git::find(GitOptions::default()).await.unwrap());
        let refs = Refs::new(Arc::clone(&store), pool.clone(), Arc::clone(&git));
        let (life, limiter) = (Lifecycle::new(Duration::from_secs(5)), Arc::new(Limiter::new("copy", 4, 4)));
        for id in [TARGET, SOURCE, UNRELATED] {
            store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
        }
        let stages = StageService { git, store: Arc::clone(&store), pool, refs, limiter, limits, life: life.clone() };
        let f = Self { folder, store, life, stages };
        let first = f.commit(TARGET, "one", &[]);
        f.point(TARGET, "refs/heads/main", first);
        let same = f.commit(SOURCE, "one", &[]);
        assert_eq!(first, same, "the same commit in both");
        f.point(SOURCE, "refs/heads/main", same);
        f
    }

    fn path(&self, id: RepositoryId) -> PathBuf {
        self.store.path(id)
    }

    fn open(&self, id: RepositoryId) -> Repository {
        Repository::open_bare(self.path(id)).unwrap()
    }

    /// Writes a commit with one file, without a ref.
    fn commit(&self, id: RepositoryId, text: &str, parents: &[Oid]) -> Oid {
        let repo = self.open(id);
        let mut tree = repo.treebuilder(None).unwrap();
        tree.insert("file", repo.blob(text.as_bytes()).unwrap(), 0o100_644).unwrap();
        let tree = repo.find_tree(tree.write().unwrap()).unwrap();
        let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(1_000, 0)).unwrap();
        let parents: Vec<_> = parents.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
        repo.commit(None, &who, &who, text, &tree, &parents.iter().collect::<Vec<_>>()).unwrap()
    }

    fn point(&self, id: RepositoryId, name: &str, commit: Oid) {
        self.open(id).reference(name, commit, true, "").unwrap();
        self.stages.refs.forget(id);
    }

    async fn copy(&self, commit: Oid, left_bytes: Option<u64>) -> Result<(), GitError> {
        self.stages.copy(StagedCommit { source: SOURCE, target: TARGET, commit, left_bytes }).await
    }

    fn packs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path(TARGET).join("objects/pack")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "pack")).collect()
    }

    fn is_incoming_empty(&self) -> bool {
        fs::read_dir(self.folder.path().join("incoming")).unwrap().next().is_none()
    }

    /// Checks all objects of the target that a new ref reaches.
    fn check(&self, commit: Oid) {
        self.point(TARGET, "refs/pull/1/head", commit);
        let args = ["fsck", "--full", "--strict", "--no-dangling"];
        let output = Command::new("git").arg("-C").arg(self.path(TARGET)).args(args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[tokio::test]
async fn a_copy_has_what_the_commit_reaches_and_nothing_else() {
    let f = Fixture::new().await;
    let main = f.open(SOURCE).refname_to_id("refs/heads/main").unwrap();
    let (head, secret) = (f.commit(SOURCE, "head", &[main]), f.commit(SOURCE, "secret", &[main]));
    f.point(SOURCE, "refs/heads/topic", head);
    f.point(SOURCE, "refs/heads/secret", secret);
    f.copy(head, None).await.unwrap();
    assert!(f.stages.has_commit(TARGET, head).await.unwrap());
    assert!(!f.stages.has_commit(TARGET, secret).await.unwrap());
    assert!(f.open(TARGET).find_blob(Oid::hash_object(ObjectType::Blob, b"secret").unwrap()).is_err());
    let sizes = f.store.pack_sizes(&f.path(TARGET).join("objects")).unwrap();
    assert_eq!(sizes.objects, 3, "a commit, a tree and a file");
    f.check(head);
    // Again, and the next commit: only that one comes.
    let packs = f.packs();
    f.copy(head, Some(0)).await.unwrap();
    assert_eq!(f.packs(), packs);
    let next = f.commit(SOURCE, "next", &[head]);
    f.copy(next, None).await.unwrap();
    assert_eq!(f.store.pack_sizes(&f.path(TARGET).join("objects")).unwrap().objects, 6);
    f.check(next);
    assert!(f.is_incoming_empty() && !f.path(TARGET).join("objects/info/alternates").exists());
}

#[tokio::test]
async fn copies_of_one_commit_at_the_same_time_are_one() {
    let f = Fixture::new().await;
    let head = f.commit(SOURCE, "head", &[]);
    let done = tokio::join!(f.copy(head, None), f.copy(head, None), f.copy(head, None));
    assert!(done.0.is_ok() && done.1.is_ok() && done.2.is_ok(), "{done:?}");
    assert_eq!(f.packs().len(), 1);
    f.check(head);
    assert!(f.is_incoming_empty());
}

#[tokio::test]
async fn what_is_too_large_leaves_nothing() {
    let f = Fixture::new().await;
    let head = f.commit(SOURCE, &"0123456789".repeat(100), &[]);
    let error = f.copy(head, Some(100)).await.unwrap_err();
    assert!(matches!(error, GitError::NoRoomLeft { left: 100 }), "{error:?}");
    assert!(f.packs().is_empty() && f.is_incoming_empty());
    f.copy(head, Some(1 << 20)).await.unwrap();
    let large = PackLimits { object_bytes: 500, ..pack_limits() };
    for limits in
        [push_limits(2), PushLimits { bytes: 1, ..push_limits(9) }, PushLimits { pack: large, ..push_limits(9) }]
    {
        let f = Fixture::with(limits).await;
        let head = f.commit(SOURCE, &"0123456789".repeat(100), &[]);
        let error = f.copy(head, None).await.unwrap_err();
        assert!(matches!(error, GitError::TooLarge { .. }), "{error:?}");
        assert!(f.packs().is_empty() && f.is_incoming_empty());
    }
}

#[tokio::test]
async fn a_damaged_source_or_a_process_that_stops_leaves_nothing() {
    let f = Fixture::new().await;
    let head = f.commit(SOURCE, "head", &[]);
    let missing = Oid::from_str(&"12".repeat(20)).unwrap();
    assert!(matches!(f.copy(missing, None).await, Err(GitError::Command { .. })));
    f.life.stop();
    assert!(matches!(f.copy(head, None).await, Err(GitError::Overloaded)));
    assert!(f.packs().is_empty() && f.is_incoming_empty());
}

#[tokio::test]
async fn a_merge_base_is_found_before_anything_is_copied() {
    let f = Fixture::new().await;
    let main = f.open(SOURCE).refname_to_id("refs/heads/main").unwrap();
    let (base, head) = (f.commit(TARGET, "base", &[main]), f.commit(SOURCE, "head", &[main]));
    let found = f.stages.merge_base((TARGET, base), (SOURCE, head)).await.unwrap();
    assert_eq!(found, Some(main));
    let other = f.commit(UNRELATED, "other", &[]);
    assert_eq!(f.stages.merge_base((TARGET, base), (UNRELATED, other)).await.unwrap(), None);
    // Several candidates: git itself says which comes first.
    let (left, right) = (f.commit(SOURCE, "left", &[main]), f.commit(SOURCE, "right", &[main]));
    let crossed = [f.commit(SOURCE, "a", &[left, right]), f.commit(SOURCE, "b", &[right, left])];
    f.copy(crossed[0], None).await.unwrap();
    let found = f.stages.merge_base((TARGET, crossed[0]), (SOURCE, crossed[1])).await.unwrap();
    assert!(found == Some(left) || found == Some(right), "{found:?}");
    assert!(!f.stages.has_commit(TARGET, head).await.unwrap());
}
