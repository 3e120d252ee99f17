use std::{path::PathBuf, time::Duration};

use super::*;
use crate::{git::command::GitOptions, repo::pool::PoolOptions};

struct Fixture {
    _folder: tempfile::TempDir,
    refs: Refs,
    path: PathBuf,
    commits: Vec<Oid>,
}

const ID: RepositoryId = RepositoryId(1);

async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(RepositoryStore::open(folder.path(), "s", Duration::ZERO).await.unwrap());
    let mut commits = Vec::new();
    let made = store.create(ID, &BranchName::parse(b"main").unwrap(), |repo| {
        let tree = repo.find_tree(repo.treebuilder(None)?.write()?)?;
        for index in 0..10 {
            let who = git2::Signature::new("a", "a@b", &git2::Time::new(index, 0))?;
            commits.push(repo.commit(None, &who, &who, "m", &tree, &[])?);
        }
        Ok(Some(commits[0]))
    });
    assert!(made.unwrap().first_commit.is_some());
    let pool = Pool::new(Arc::clone(&store), PoolOptions { workers: 2, ..PoolOptions::default() }).unwrap();
    let git = Arc::new(Git::find(GitOptions::default()).await.unwrap());
    let path = store.path(ID);
    Fixture { _folder: folder, refs: Refs::new(store, pool, git), path, commits }
}

fn name(text: &str) -> RefName {
    RefName::parse(text.as_bytes()).unwrap()
}

fn edit(text: &str, old: Option<Oid>, new: Option<Oid>) -> RefEdit {
    RefEdit { name: name(text), old, new }
}

fn git(path: &Path, arguments: &[&str]) {
    let output = std::process::Command::new("git").arg("-C").arg(path).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn refs_are_made_moved_and_deleted() {
    let f = fixture().await;
    let (one, two) = (f.commits[0], f.commits[1]);
    f.refs
        .transact(ID, &[edit("refs/heads/a/b", None, Some(one)), edit("refs/tags/v1", None, Some(one))])
        .await
        .unwrap();
    f.refs.transact(ID, &[edit("refs/heads/a/b", Some(one), Some(two))]).await.unwrap();
    assert_eq!(f.refs.resolve(ID, name("refs/heads/a/b")).await.unwrap(), Some(two));
    git(&f.path, &["pack-refs", "--all"]);
    assert_eq!(f.refs.resolve(ID, name("refs/heads/a/b")).await.unwrap(), Some(two));
    f.refs.transact(ID, &[edit("refs/heads/a/b", Some(two), None)]).await.unwrap();
    assert_eq!(f.refs.resolve(ID, name("refs/heads/a/b")).await.unwrap(), None);
    assert_eq!(f.refs.resolve(ID, name("refs/heads/a")).await.unwrap(), None);
    f.refs.transact(ID, &[edit("refs/heads/a", None, Some(one))]).await.unwrap();
    git(&f.path, &["fsck", "--strict"]);
}

#[tokio::test]
async fn prefixes_and_extensions_of_refs_do_not_exist() {
    let f = fixture().await;
    f.refs.transact(ID, &[edit("refs/heads/a/b", None, Some(f.commits[0]))]).await.unwrap();
    for text in ["refs/heads/a", "refs/heads/a/b/c", "refs/heads/main/x", "refs/heads/nope", "refs/heads"] {
        assert_eq!(f.refs.resolve(ID, name(text)).await.unwrap(), None, "{text}");
    }
    let long = format!("refs/heads/{}", "a/".repeat(490) + "a");
    assert_eq!(f.refs.resolve(ID, name(&long)).await.unwrap(), None);
}

#[tokio::test]
async fn one_refusal_undoes_all() {
    let f = fixture().await;
    let (one, two) = (f.commits[0], f.commits[1]);
    let edits = [edit("refs/heads/x", None, Some(one)), edit("refs/heads/main", Some(two), Some(one))];
    let error = f.refs.transact(ID, &edits).await.unwrap_err();
    assert!(matches!(&error, GitError::RefConflict { name } if name == "refs/heads/main"), "{error:?}");
    assert_eq!(f.refs.resolve(ID, name("refs/heads/x")).await.unwrap(), None);
}

#[tokio::test]
async fn refusals_are_typed() {
    let f = fixture().await;
    let one = f.commits[0];
    let cases = [
        (edit("refs/heads/main", None, Some(one)), "conflict"),
        (edit("refs/heads/gone", Some(one), Some(one)), "conflict"),
        (edit("refs/heads/gone", Some(one), None), "conflict"),
        (edit("refs/heads/main/x", None, Some(one)), "clash"),
        (edit("refs/heads/y", None, Some(Oid::from_str(&"12".repeat(20)).unwrap())), "target"),
        (edit("refs/heads/y", None, None), "target"),
    ];
    for (edit, expected) in cases {
        let error = f.refs.transact(ID, std::slice::from_ref(&edit)).await.unwrap_err();
        let kind = match &error {
            GitError::RefConflict { .. } => "conflict",
            GitError::RefNameClash { .. } => "clash",
            GitError::RefTarget { .. } => "target",
            _ => "other",
        };
        assert_eq!(kind, expected, "{edit:?}: {error:?}");
    }
    let twice = [edit("refs/heads/z", None, Some(one)), edit("refs/heads/z", None, Some(one))];
    assert!(matches!(f.refs.transact(ID, &twice).await, Err(GitError::RefNameClash { .. })));
    let gone = f.refs.transact(RepositoryId(404), &[edit("refs/heads/z", None, Some(one))]).await;
    assert!(matches!(gone, Err(GitError::RepositoryNotFound)));
    f.refs.transact(ID, &[]).await.unwrap();
}

#[tokio::test]
async fn of_racing_writers_one_wins_each_round() {
    let f = fixture().await;
    for round in 0..5 {
        let (old, new) = (f.commits[round], f.commits[round + 1]);
        let writers = (0..8).map(|_| {
            let refs = f.refs.clone();
            async move { refs.transact(ID, &[edit("refs/heads/main", Some(old), Some(new))]).await }
        });
        let results = futures_util::future::join_all(writers).await;
        let won = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(won, 1, "{results:?}");
        assert!(
            results.iter().all(|result| matches!(result, Ok(()) | Err(GitError::RefConflict { .. }))),
            "{results:?}"
        );
        assert_eq!(f.refs.resolve(ID, name("refs/heads/main")).await.unwrap(), Some(new));
    }
}

#[tokio::test]
async fn a_fresh_lock_is_a_conflict_and_a_stale_one_is_removed() {
    let f = fixture().await;
    let lock = f.path.join("refs/heads/main.lock");
    let file = fs::File::create(&lock).unwrap();
    let edits = [edit("refs/heads/main", Some(f.commits[0]), Some(f.commits[1]))];
    assert!(matches!(f.refs.transact(ID, &edits).await, Err(GitError::RefConflict { .. })));
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
    f.refs.transact(ID, &edits).await.unwrap();
}

#[tokio::test]
async fn lists_are_sorted_paged_and_hide_ours() {
    let f = fixture().await;
    let one = Some(f.commits[0]);
    let names = ["refs/heads/b", "refs/heads/a", "refs/heads/a-b", "refs/ferrite/x", "refs/pull/1/head", "refs/tags/t"];
    let edits: Vec<RefEdit> = names.iter().map(|name| edit(name, None, one)).collect();
    f.refs.transact(ID, &edits).await.unwrap();
    let page = f.refs.list(ID, "refs/heads/", Page { number: 2, size: 2 }).await.unwrap();
    assert_eq!((page.total, page.entries.len()), (4, 2));
    assert_eq!(page.entries[0].name, name("refs/heads/b"));
    let all = f.refs.list(ID, "refs/", Page { number: 1, size: 100 }).await.unwrap();
    assert_eq!(all.total, 5);
    let beyond = f.refs.list(ID, "refs/", Page { number: usize::MAX, size: 100 }).await.unwrap();
    assert!(beyond.entries.is_empty());
}

#[tokio::test]
async fn what_a_killed_process_left_of_packed_refs_is_removed_once_it_is_stale() {
    let f = fixture().await;
    let tip = f.commits[0];
    f.refs.transact(ID, &[edit("refs/tags/v1", None, Some(tip))]).await.unwrap();
    let packed =
        std::process::Command::new("git").arg("-C").arg(&f.path).args(["pack-refs", "--all"]).status().unwrap();
    assert!(packed.success());
    let left = f.path.join("packed-refs.new");
    let file = fs::File::create(&left).unwrap();
    let delete = [edit("refs/tags/v1", Some(tip), None)];
    assert!(f.refs.transact(ID, &delete).await.is_err(), "it may be a process that runs");
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
    f.refs.transact(ID, &delete).await.unwrap();
    assert!(!left.exists());
}

/// Files next to the refs that are not refs: locks and prepared values.
fn leftovers(f: &Fixture) -> Vec<String> {
    let folders = [f.path.join("refs/heads"), f.refs.store.root().join("incoming")];
    let names = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).filter(|name| name != "main").collect()
}

#[tokio::test]
async fn a_prepared_move_changes_and_locks_nothing_until_its_commit() {
    let f = fixture().await;
    let (one, two, three) = (f.commits[0], f.commits[1], f.commits[2]);
    let edits = [edit("refs/heads/main", Some(one), Some(two))];
    let prepared = f.refs.prepare(ID, &edits).await.unwrap().unwrap();
    assert_eq!((leftovers(&f).len(), f.path.join("refs/heads/main.lock").exists()), (1, false));
    // If the process is killed here, other writers can continue.
    git(&f.path, &["update-ref", "refs/heads/main", &three.to_string(), &one.to_string()]);
    git(&f.path, &["update-ref", "refs/heads/main", &one.to_string(), &three.to_string()]);
    drop(prepared);
    assert_eq!(f.refs.resolve(ID, name("refs/heads/main")).await.unwrap(), Some(one));
    assert_eq!(leftovers(&f), [""; 0], "given up");

    let prepared = f.refs.prepare(ID, &edits).await.unwrap();
    let (head, usage) = f.refs.commit(ID, &edits, prepared).await.unwrap().unwrap();
    assert_eq!((head.tip, usage), (Some(two), f.refs.store.measure(ID).unwrap()));
    assert_eq!(leftovers(&f), [""; 0], "committed");

    let prepared = f.refs.prepare(ID, &edits).await.unwrap();
    let error = f.refs.commit(ID, &edits, prepared).await.unwrap_err();
    assert!(matches!(error, GitError::RefConflict { .. }), "{error:?}");
    assert_eq!(leftovers(&f), [""; 0], "refused");

    let edits = [edit("refs/heads/main", Some(two), Some(three))];
    fs::write(f.path.join("refs/heads/main.lock"), "").unwrap();
    let prepared = f.refs.prepare(ID, &edits).await.unwrap();
    let error = f.refs.commit(ID, &edits, prepared).await.unwrap_err();
    assert!(matches!(error, GitError::RefConflict { .. }), "{error:?}");
    assert_eq!(leftovers(&f), ["main.lock"], "the lock of another process stays");
    assert_eq!(f.refs.resolve(ID, name("refs/heads/main")).await.unwrap(), Some(two));
    assert!(f.refs.prepare(ID, &[edit("refs/heads/x", None, Some(one))]).await.unwrap().is_none(), "left to git");
    assert!(matches!(f.refs.prepare(RepositoryId(404), &edits).await, Err(GitError::RepositoryNotFound)));
}

#[tokio::test]
async fn names_that_are_no_text_work() {
    let f = fixture().await;
    let odd = RefName::parse(b"refs/heads/odd-\xff").unwrap();
    f.refs.transact(ID, &[RefEdit { name: odd.clone(), old: None, new: Some(f.commits[0]) }]).await.unwrap();
    assert_eq!(f.refs.resolve(ID, odd).await.unwrap(), Some(f.commits[0]));
}

#[tokio::test]
async fn head_follows_set_head() {
    let f = fixture().await;
    assert_eq!(f.refs.head(ID).await.unwrap().tip, Some(f.commits[0]));
    assert!(!f.refs.is_empty(ID).await.unwrap());
    let other = BranchName::parse(b"other").unwrap();
    f.refs.set_head(ID, other.clone()).await.unwrap();
    assert_eq!(f.refs.head(ID).await.unwrap(), HeadState { branch: other, tip: None });
    assert!(!f.refs.is_empty(ID).await.unwrap());
}

#[tokio::test]
async fn a_packed_ref_moves_and_only_from_where_it_is() {
    let f = fixture().await;
    let (one, two, three) = (f.commits[0], f.commits[1], f.commits[2]);
    git(&f.path, &["pack-refs", "--all", "--prune"]);
    f.refs.transact(ID, &[edit("refs/heads/main", Some(one), Some(two))]).await.unwrap();
    let stale = f.refs.transact(ID, &[edit("refs/heads/main", Some(one), Some(three))]).await;
    assert!(matches!(stale, Err(GitError::RefConflict { name }) if name == "refs/heads/main"));
    let tree = f.refs.pool.run(ID, move |repo| Ok(repo.find_commit(two)?.tree_id())).await.unwrap();
    let no_commit = f.refs.transact(ID, &[edit("refs/heads/main", Some(two), Some(tree))]).await;
    assert!(matches!(no_commit, Err(GitError::RefTarget { .. })));
    assert_eq!(f.refs.resolve(ID, name("refs/heads/main")).await.unwrap(), Some(two));
    assert!(!f.path.join("refs/heads/main.lock").exists());
    let output = std::process::Command::new("git").arg("-C").arg(&f.path).args(["rev-parse", "main"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), two.to_string());
    git(&f.path, &["fsck", "--strict"]);
}

#[tokio::test]
async fn a_symbolic_ref_stays_one() {
    let f = fixture().await;
    let (one, two) = (f.commits[0], f.commits[1]);
    git(&f.path, &["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    // git changes the symbolic ref itself, not its target, so this edit must be left to git.
    drop(f.refs.transact(ID, &[edit("refs/heads/alias", Some(one), Some(two))]).await);
    assert_eq!(f.refs.resolve(ID, name("refs/heads/main")).await.unwrap(), Some(one));
}

#[tokio::test]
async fn locks_left_by_a_crash_are_removed() {
    let f = fixture().await;
    let lock = f.path.join("refs/heads/main.lock");
    std::fs::write(&lock, "").unwrap();
    remove_locks(&f.path, &[name("refs/heads/main"), name("refs/heads/other")]);
    assert!(!lock.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_sees_its_own_change_at_once() {
    let f = fixture().await;
    // With the cache, and without it, so that every call loads the table.
    for cache_bytes in [DEFAULT_CACHE_BYTES, 0] {
        let refs = f.refs.clone().with_cache_bytes(cache_bytes);
        let lock = tokio::sync::Mutex::new(());
        let writer = async |task: usize| {
            let name = format!("refs/heads/w{cache_bytes}-{task}");
            let mut old = None;
            for round in 0..15 {
                let new = (round % 5 < 4)
                    .then(|| f.commits[(task + round) % f.commits.len()])
                    .filter(|new| old != Some(*new));
                let guard = lock.lock().await;
                if old != new {
                    refs.transact(ID, &[edit(&name, old, new)]).await.unwrap();
                    old = new;
                }
                drop(guard);
                let table = refs.table(ID).await.unwrap();
                assert_eq!(table.find(&self::name(&name)).map(|entry| entry.target), old, "{name} {round}");
            }
        };
        let packer = async {
            for round in 0..8 {
                let guard = lock.lock().await;
                if round % 2 == 0 {
                    git(&f.path, &["pack-refs", "--all"]);
                } else {
                    refs.forget(ID);
                }
                drop(guard);
                refs.table(ID).await.unwrap();
            }
        };
        tokio::join!(writer(0), writer(1), writer(2), packer);
        let read = f.refs.pool.run(ID, load).await.unwrap();
        let table = refs.table(ID).await.unwrap();
        assert!(table.rows(0..table.len()).eq(read.rows(0..read.len())));
    }
}

#[tokio::test]
async fn a_list_shows_changes_by_transaction_and_by_hand_at_once() {
    let f = fixture().await;
    let count = async || f.refs.list(ID, "refs/", Page { number: 1, size: 100 }).await.unwrap().total;
    assert_eq!(count().await, 1);
    let (one, two) = (f.commits[0], f.commits[1]);
    f.refs.transact(ID, &[edit("refs/tags/a", None, Some(one)), edit("refs/heads/b", None, Some(two))]).await.unwrap();
    assert_eq!(count().await, 3);
    git(&f.path, &["pack-refs", "--all"]);
    assert_eq!(count().await, 3);
    // A manual change, but of `packed-refs`.
    git(&f.path, &["update-ref", "-d", "refs/tags/a"]);
    assert_eq!(count().await, 2);
    let refused = f.refs.transact(ID, &[edit("refs/heads/b/c", None, Some(one))]).await;
    assert!(matches!(refused, Err(GitError::RefNameClash { .. })));
    assert_eq!(count().await, 2);
    fs::rename(&f.path, f.path.with_extension("gone")).unwrap();
    let gone = f.refs.list(ID, "refs/", Page { number: 1, size: 1 }).await;
    assert!(matches!(gone, Err(GitError::RepositoryNotFound)));
}
