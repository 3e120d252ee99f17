use super::*;

/// Opens a store. The lock may be held briefly after a close: a process forked by another test
/// inherits the locked file until it executes its program.
async fn store(folder: &Path) -> RepositoryStore {
    RepositoryStore::open(folder, "s1", Duration::from_secs(10)).await.unwrap()
}

#[tokio::test]
async fn one_process_holds_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let first = store(folder.path()).await;
    let second = RepositoryStore::open(folder.path(), "s1", Duration::from_millis(80)).await;
    assert!(matches!(second, Err(GitError::StoreHeld(_))), "{second:?}");
    let waiting = RepositoryStore::open(folder.path(), "s1", Duration::from_secs(10));
    let (_, second) = tokio::join!(async move { drop(first) }, waiting);
    drop(second.unwrap());
    let other = RepositoryStore::open(folder.path(), "s2", Duration::from_secs(10)).await;
    assert!(matches!(other, Err(GitError::StoreIdentity { .. })), "{other:?}");
}

#[tokio::test]
async fn creating_twice_leaves_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let id = RepositoryId(7);
    let main = BranchName::parse(b"trunk").unwrap();
    assert!(!store.create(id, &main, |_| Ok(None)).unwrap().existed);
    assert!(store.create(id, &BranchName::parse(b"x").unwrap(), |_| Ok(None)).unwrap().existed);
    assert_eq!(fs::read_to_string(store.path(id).join("HEAD")).unwrap(), "ref: refs/heads/trunk\n");
    assert_eq!(store.size(id).unwrap(), 0);
    let fsck =
        std::process::Command::new("git").arg("-C").arg(store.path(id)).args(["fsck", "--strict"]).output().unwrap();
    assert!(fsck.status.success(), "{fsck:?}");
}

#[tokio::test]
async fn a_failed_creation_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let main = BranchName::parse(b"main").unwrap();
    store.create(RepositoryId(1), &main, |_| Err(GitError::Overloaded)).unwrap_err();
    assert!(!store.exists(RepositoryId(1)));
    assert_eq!(list_dir(&store.root.join("incoming")).unwrap().len(), 0);
}

#[tokio::test]
async fn deleted_repositories_stay_for_a_week() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let id = RepositoryId(1);
    store.delete(id).unwrap();
    store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
    store.delete(id).unwrap();
    assert!(!store.exists(id));
    fs::create_dir_all(store.root.join("incoming/half-made/objects")).unwrap();
    store.sweep(SystemTime::now()).unwrap();
    assert_eq!(list_dir(&store.root.join("incoming")).unwrap().len(), 0);
    assert_eq!(list_dir(&store.root.join("trash")).unwrap().len(), 1);
    store.sweep(SystemTime::now() + TRASH_RETENTION + Duration::from_secs(60)).unwrap();
    assert_eq!(list_dir(&store.root.join("trash")).unwrap().len(), 0);
}

#[tokio::test]
async fn abandoned_files_are_removed_when_old() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let id = RepositoryId(1);
    store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
    let path = store.path(id);
    fs::create_dir_all(path.join("objects/tmp_objdir-incoming-x/pack")).unwrap();
    fs::create_dir_all(path.join("refs/heads/a")).unwrap();
    let left = [
        "packed-refs.lock",
        "refs/heads/a/b.lock",
        "objects/pack/tmp_pack_x",
        "objects/pack/.tmp-1-pack-x.pack",
        "objects/pack/multi-pack-index.lock",
        "objects/pack/pack-x.keep",
        "objects/pack/pack-y.pack",
        "objects/pack/pack-y.rev",
        "objects/tmp_objdir-incoming-x",
    ];
    let stays = [
        "config",
        "refs/heads/tmp_branch",
        "objects/pack/pack-z.pack",
        "objects/pack/pack-z.idx",
        "objects/pack/pack-z.mtimes",
        "objects/pack/multi-pack-index",
    ];
    for file in left[..left.len() - 1].iter().chain(&stays[1..]) {
        fs::write(path.join(file), b"").unwrap();
    }
    store.remove_abandoned_files(id, Duration::from_secs(3600));
    assert!(left.iter().all(|file| path.join(file).exists()));
    store.remove_abandoned_files(id, Duration::ZERO);
    assert!(!left.iter().any(|file| path.join(file).exists()));
    assert!(store.exists(id) && stays.iter().all(|file| path.join(file).exists()));
}

#[tokio::test]
async fn quarantines_of_ended_pushes_are_removed_and_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let id = RepositoryId(1);
    store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
    let objects = store.path(id).join("objects");
    let quarantine = objects.join("tmp_objdir-incoming-x");
    fs::create_dir_all(quarantine.join("pack")).unwrap();
    let begun = SystemTime::now();
    store.remove_quarantines(id, begun - Duration::from_secs(1)).unwrap();
    assert!(quarantine.exists(), "a push that began before it was made may still use it");
    store.remove_quarantines(id, begun + Duration::from_secs(1)).unwrap();
    assert!(!quarantine.exists() && objects.join("pack").exists() && objects.join("info").exists());
}

#[tokio::test]
async fn paths_are_made_from_ids_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let path = store.path(RepositoryId(1));
    let inside = path.strip_prefix(store.root()).unwrap();
    assert_eq!(inside, Path::new("repos/6b/86/1.git"));
}

#[tokio::test]
async fn no_other_user_may_enter_the_folders_of_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("new/store");
    drop(store(&root).await);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for folder in FOLDERS {
        assert_eq!(mode(&root.join(folder)), 0o700, "{folder}");
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o755)).unwrap();
    }
    drop(store(&root).await);
    assert!(FOLDERS.iter().all(|folder| mode(&root.join(folder)) == 0o700), "those of an earlier version are closed");
}

#[tokio::test]
async fn a_repository_has_attributes_that_win() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let id = RepositoryId(1);
    store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
    let file = store.path(id).join("info/attributes");
    for _ in 0..2 {
        store.write_attributes(id).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "* -export-subst\n");
    }
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().filter(Result::is_ok).count(), 1);
}
