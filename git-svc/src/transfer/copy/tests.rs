//! Copies made by real git: what they contain, and what a failure leaves.

use std::{fs, path::PathBuf, process::Command};

use ferrite_proto::id::RepositoryId;
use git_store::{
    git::command::GitOptions,
    repo::pool::PoolOptions,
    types::name::{BranchName, RefName},
};

use super::*;

const SOURCE: RepositoryId = RepositoryId(1);
const COPY: RepositoryId = RepositoryId(2);

struct Fixture {
    folder: tempfile::TempDir,
    store: Arc<RepositoryStore>,
    refs: Refs,
    life: Lifecycle,
    copies: CopyService,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::ZERO).await.unwrap());
        let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap();
        let git = Arc::new(Git::find(GitOptions::default()).await.unwrap());
        let refs = Refs::new(Arc::clone(&store), pool.clone(), Arc::clone(&git));
        let (life, limiter) = (Lifecycle::new(Duration::from_secs(5)), Arc::new(Limiter::new("copy", 1, 1)));
        store.create(SOURCE, &BranchName::parse(b"trunk").unwrap(), |_| Ok(None)).unwrap();
        let (own, life_of_copies) = (Arc::clone(&store), life.clone());
        let copies = CopyService { git, store: own, pool, refs: refs.clone(), limiter, life: life_of_copies };
        Self { folder, store, refs, life, copies }
    }

    fn path(&self, id: RepositoryId) -> PathBuf {
        self.store.path(id)
    }

    /// Runs git in a repository. Returns its output without the last line break.
    fn git(&self, id: RepositoryId, args: &[&str]) -> String {
        let who = [("NAME", "Ada"), ("EMAIL", "ada@example.com")];
        let who = who
            .into_iter()
            .flat_map(|(key, value)| ["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_{key}"), value)));
        let output = Command::new("git").arg("-C").arg(self.path(id)).args(args).envs(who).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Writes a commit with a new file, without a ref.
    fn commit(&self, text: &str, parent: Option<&str>) -> String {
        let file = self.folder.path().join("file");
        fs::write(&file, text).unwrap();
        let blob = self.git(SOURCE, &["hash-object", "-w", file.to_str().unwrap()]);
        let index = self.folder.path().join("list");
        fs::write(&index, format!("100644 blob {blob}\tfile\n")).unwrap();
        let mut mktree = Command::new("git");
        mktree.arg("-C").arg(self.path(SOURCE)).arg("mktree").stdin(fs::File::open(&index).unwrap());
        let tree = String::from_utf8(mktree.output().unwrap().stdout).unwrap().trim().to_owned();
        let parent = parent.map(|parent| ["-p", parent]);
        let args = [&["commit-tree", "-m", text, tree.as_str()][..], parent.as_ref().map_or(&[][..], |args| args)];
        self.git(SOURCE, &args.concat())
    }

    /// Fills the source: two branches, tags of both kinds, a hidden ref and an object without a
    /// ref. Returns the last two.
    fn fill(&self) -> [String; 2] {
        let first = self.commit("one", None);
        let second = self.commit("two", Some(&first));
        let (hidden, lost) = (self.commit("hidden", Some(&first)), self.commit("lost", Some(&first)));
        self.git(SOURCE, &["update-ref", "refs/heads/trunk", &second]);
        self.git(SOURCE, &["update-ref", "refs/heads/topic/a", &first]);
        self.git(SOURCE, &["tag", "light", &first]);
        self.git(SOURCE, &["tag", "-a", "-m", "note", "heavy", &second]);
        self.git(SOURCE, &["update-ref", "refs/ferrite/x", &hidden]);
        self.git(SOURCE, &["update-ref", "refs/pull/1/head", &hidden]);
        [hidden, lost]
    }

    async fn copy(&self) -> Result<(), GitError> {
        self.copies.copy(COPY, SOURCE, &ClientKey::User(1)).await
    }

    fn is_incoming_empty(&self) -> bool {
        fs::read_dir(self.folder.path().join("incoming")).unwrap().next().is_none()
    }
}

#[tokio::test]
async fn a_copy_has_what_branches_and_tags_reach_and_nothing_else() {
    for repack in [None, Some(["repack", "-a", "-d", "-q", "--write-bitmap-index"])] {
        let f = Fixture::new().await;
        let unwanted = f.fill();
        if let Some(args) = repack {
            f.git(SOURCE, &args);
        }
        f.copy().await.unwrap();
        let format = "--format=%(refname) %(objectname) %(*objectname)";
        let expected = f.git(SOURCE, &["for-each-ref", format, "refs/heads", "refs/tags"]);
        assert_eq!(f.git(COPY, &["for-each-ref", format]), expected);
        assert_eq!(expected.lines().count(), 4);
        assert_eq!(f.git(COPY, &["symbolic-ref", "HEAD"]), "refs/heads/trunk");
        f.git(COPY, &["fsck", "--full", "--strict"]);
        for id in unwanted {
            let found = Command::new("git").arg("-C").arg(f.path(COPY)).args(["cat-file", "-e", &id]).output().unwrap();
            assert!(!found.status.success(), "{id}");
        }
        let table = f.refs.table(COPY).await.unwrap();
        assert!(table.is_plain() && table.len() == 4);
        let tag = table.find(&RefName::parse(b"refs/tags/heavy").unwrap()).unwrap();
        assert_eq!(tag.peeled.unwrap().to_string(), f.git(COPY, &["rev-parse", "trunk"]));
        assert!(!f.path(COPY).join("objects/info/alternates").exists());
        assert!(f.is_incoming_empty());
        // A second copy changes nothing.
        f.git(COPY, &["update-ref", "-d", "refs/tags/light"]);
        f.copy().await.unwrap();
        assert_eq!(f.git(COPY, &["tag"]), "heavy");
    }
}

#[tokio::test]
async fn an_empty_repository_has_an_empty_copy() {
    let f = Fixture::new().await;
    f.copy().await.unwrap();
    assert_eq!(f.git(COPY, &["symbolic-ref", "HEAD"]), "refs/heads/trunk");
    assert_eq!(f.git(COPY, &["for-each-ref"]), "");
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing() {
    let f = Fixture::new().await;
    f.fill();
    let blob = f.git(SOURCE, &["rev-parse", "trunk:file"]);
    let (folder, rest) = blob.split_at(2);
    let file = f.path(SOURCE).join("objects").join(folder).join(rest);
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let error = f.copy().await.unwrap_err();
    assert!(matches!(error, GitError::Command { .. }), "{error:?}");
    assert!(f.is_incoming_empty() && !f.store.exists(COPY));
    fs::write(&file, content).unwrap();
    f.copy().await.unwrap();

    f.store.delete(SOURCE).unwrap();
    let error = f.copies.copy(RepositoryId(3), SOURCE, &ClientKey::User(1)).await.unwrap_err();
    assert!(matches!(error, GitError::RepositoryNotFound), "{error:?}");
}

#[tokio::test]
async fn a_process_that_stops_ends_its_copies() {
    let f = Fixture::new().await;
    f.fill();
    f.life.stop();
    assert!(matches!(f.copy().await.unwrap_err(), GitError::Overloaded));
    assert!(f.is_incoming_empty() && !f.store.exists(COPY));
}

#[tokio::test]
async fn a_store_whose_path_has_odd_characters_can_copy() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a:b \"c\\d");
    let store = Arc::new(RepositoryStore::open(&root, "s", Duration::ZERO).await.unwrap());
    let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 1, ..PoolOptions::default() }).unwrap();
    let git = Arc::new(Git::find(GitOptions::default()).await.unwrap());
    let refs = Refs::new(Arc::clone(&store), pool.clone(), Arc::clone(&git));
    let made = store.create(SOURCE, &BranchName::parse(b"main").unwrap(), |repo| {
        let tree = repo.find_tree(repo.treebuilder(None)?.write()?)?;
        let who = git2::Signature::new("a", "a@b", &git2::Time::new(1, 0))?;
        Ok(Some(repo.commit(None, &who, &who, "m", &tree, &[])?))
    });
    let limiter = Arc::new(Limiter::new("copy", 1, 1));
    let life = Lifecycle::new(Duration::ZERO);
    let copies = CopyService { git, store, pool, refs: refs.clone(), limiter, life };
    copies.copy(COPY, SOURCE, &ClientKey::Unknown).await.unwrap();
    assert_eq!(refs.head(COPY).await.unwrap().tip, made.unwrap().first_commit);
}
