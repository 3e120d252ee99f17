//! libgit2 takes the parents of commits from the commit-graph that maintenance writes.

use git_store::repo::{read, read::Deadline, refs::Page};

use super::*;

/// Unpacks all objects into loose files, so that one of them can be removed.
fn unpack(path: &Path) {
    let aside = path.join("aside");
    fs::rename(path.join("objects/pack"), &aside).unwrap();
    fs::create_dir(path.join("objects/pack")).unwrap();
    for entry in fs::read_dir(&aside).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "pack") {
            let mut unpack = Command::new("git");
            unpack.arg("-C").arg(path).args(["unpack-objects", "-q"]).stdin(fs::File::open(entry).unwrap());
            assert!(unpack.status().unwrap().success());
        }
    }
}

/// Walks history: the total count of a long log's last page, and whether `first` is an ancestor of
/// `tip`. `None` if a walk fails.
fn walks(path: &Path, tip: Oid, first: Oid) -> (Option<usize>, Option<bool>) {
    let repo = git2::Repository::open_bare(path).unwrap();
    let (deadline, _waiting) = Deadline::start(Duration::from_secs(60));
    let page = Page { number: 5, size: 1 };
    let log = read::log::long_log(&repo, tip, page, &deadline);
    let is_ahead = repo.graph_descendant_of(tip, first);
    (log.ok().and_then(|log| log.total), is_ahead.ok())
}

#[tokio::test]
async fn walks_through_history_take_parents_from_the_commit_graph() {
    on_each(async |db| {
        let test_repo = TestRepo::new(db).await;
        let maintenance = maintenance(&test_repo, MaintenanceOptions { updates: 5, ..options() });
        let first = updates(&test_repo, None, 1).await;
        let middle = updates(&test_repo, Some(first), 2).await;
        let tip = updates(&test_repo, Some(middle), 2).await;
        assert!(round(&maintenance).await);
        let path = path(&test_repo);
        unpack(&path);
        assert_eq!(walks(&path, tip, first), (Some(5), Some(true)));
        let id = middle.to_string();
        fs::remove_file(path.join("objects").join(&id[..2]).join(&id[2..])).unwrap();
        assert_eq!(walks(&path, tip, first), (Some(5), Some(true)), "the graph knows the parents of what is gone");
        fs::remove_file(path.join("objects/info/commit-graph")).unwrap();
        assert_eq!(walks(&path, tip, first), (None, None), "without the graph the commit is needed");
    })
    .await;
}
