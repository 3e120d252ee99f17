//! Results compared with those of `git merge`, `git rebase` and `git revert` in a work tree.

mod conflicts;
mod limits;
mod random;
mod styles;
mod work_tree;

use std::collections::BTreeMap;

use git2::{Index, IndexEntry, IndexTime};

use super::*;
use crate::{
    disk::{loose_objects::write_objects, repositories::RepositoryStore},
    git::command::GitOptions,
    repo::pool::PoolOptions,
    types::name::BranchName,
};

const ID: RepositoryId = RepositoryId(1);
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_000;
const SUBMODULE: u32 = 0o160_000;

/// Mode and content, or the id of a submodule's commit, by path.
type Files = BTreeMap<String, (u32, Vec<u8>)>;

struct Fixture {
    folder: tempfile::TempDir,
    store: Arc<RepositoryStore>,
    pool: Pool,
    git: Git,
    repo: Repository,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(&folder.path().join("store"), "s", Duration::ZERO).await.unwrap());
        store.create(ID, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
        let options = PoolOptions { workers: 1, ..PoolOptions::default() };
        let pool = Pool::new(Arc::clone(&store), options).unwrap();
        let repo = Repository::open_bare(store.path(ID)).unwrap();
        Self { folder, store, pool, git: Git::find(GitOptions::default()).await.unwrap(), repo }
    }

    fn merger(&self) -> Merger<'_> {
        Merger::new(&self.git, &self.pool, ID)
    }

    fn path(&self) -> PathBuf {
        self.store.path(ID)
    }

    fn tree(&self, files: &Files) -> Oid {
        let mut index = Index::new().unwrap();
        for (path, (mode, content)) in files {
            let id = match *mode {
                SUBMODULE => Oid::from_str(std::str::from_utf8(content).unwrap()).unwrap(),
                _ => self.repo.blob(content).unwrap(),
            };
            let (time, path) = (IndexTime::new(0, 0), path.clone().into_bytes());
            let (dev, ino, uid, gid, file_size, flags, flags_extended) = (0, 0, 0, 0, 0, 0, 0);
            let (ctime, mtime, mode) = (time, time, *mode);
            index
                .add(&IndexEntry { ctime, mtime, dev, ino, mode, uid, gid, file_size, id, flags, flags_extended, path })
                .unwrap();
        }
        index.write_tree_to(&self.repo).unwrap()
    }

    fn commit(&self, files: &Files, parents: &[Oid], message: &str) -> Oid {
        self.commit_by("Ada", files, parents, message)
    }

    fn commit_by(&self, name: &str, files: &Files, parents: &[Oid], message: &str) -> Oid {
        let email = format!("{}@example.com", name.to_lowercase());
        let author = Author::new(name, &email, 1_700_000_000);
        let content = commits_content(self.tree(files), parents, &author, message);
        self.repo.odb().unwrap().write(git2::ObjectType::Commit, content.as_bytes()).unwrap()
    }

    /// Commits of a base, ours and theirs.
    fn three(&self, base: &Files, ours: &Files, theirs: &Files) -> (Oid, Oid) {
        let root = self.commit(base, &[], "base\n");
        (self.commit(ours, &[root], "ours\n"), self.commit(theirs, &[root], "theirs\n"))
    }

    /// Writes the objects of a result, as callers do, and returns the commit.
    fn apply(&self, outcome: MergeOutcome) -> Oid {
        let MergeOutcome::Ready(ready) = outcome else { panic!("{outcome:?}") };
        write_objects(&self.path().join("objects"), &ready.objects).unwrap();
        ready.commit
    }

    fn tree_of(&self, commit: Oid) -> Oid {
        objects::tree_id(&Repository::open_bare(self.path()).unwrap(), commit).unwrap()
    }

    fn left_behind(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("store/incoming")).unwrap().count()
    }
}

fn commits_content(tree: Oid, parents: &[Oid], author: &Author, message: &str) -> String {
    crate::repo::write::commit_content(tree, parents, (author, author), message)
}

fn merger_draft() -> MergeDraft {
    let author = Author::new("Max", "max@example.com", 1_700_000_500);
    MergeDraft { message: "m\n".to_owned(), author: author.clone(), committer: author }
}

fn files(list: &[(&str, &str)]) -> Files {
    list.iter().map(|(path, content)| ((*path).to_owned(), (FILE, content.as_bytes().to_vec()))).collect()
}

/// Numbered lines, with some replaced.
fn numbered(count: usize, replaced: &[(usize, &str)]) -> String {
    let line = |n: usize| match replaced.iter().find(|(at, _)| *at == n) {
        Some((_, text)) => (*text).to_owned(),
        None => format!("line {n}\n"),
    };
    (1..=count).map(line).collect()
}
