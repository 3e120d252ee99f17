//! Saves packs that `git repack` may remove although a push has started to use them.
//!
//! A failed push leaves its pack, whose objects no ref reaches. If the same push is repeated, it
//! brings a pack of the same name, and git keeps the existing one. A repack that started in between
//! removes that pack by its list, but does not copy the objects of a pack that a push has marked
//! with `.keep`: the push would then move a ref to missing objects. So packs are hard-linked to a
//! directory before a full repack, and restored if refs changed meanwhile. If the service is
//! killed, the next job restores them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use git_store::{
    disk::{
        durable::sync,
        ignore_missing,
        packs::{Pack, PackRole, pack_folder},
    },
    types::error::GitError,
};

/// Extensions of pack files that git needs and cannot quickly rebuild, in the order of restoring.
const SAVED_FILES: [&str; 3] = ["pack", "rev", "idx"];

/// Links the packs of writes to a directory that git ignores. Does nothing on file systems without
/// hard links. Blocking.
pub(super) fn save(repository: &Path, packs: &[Pack]) -> Result<(), GitError> {
    let (from, to) = (pack_folder(repository), folder(repository));
    discard(repository)?;
    fs::create_dir(&to).map_err(GitError::io("creating a directory for packs"))?;
    for pack in packs.iter().filter(|pack| matches!(pack.role, PackRole::Recent | PackRole::Kept)) {
        for file in SAVED_FILES.map(|ending| format!("{}.{ending}", pack.name)) {
            match fs::hard_link(from.join(&file), to.join(&file)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => {
                    return Ok(());
                }
                linked => linked.map_err(GitError::io("linking a pack"))?,
            }
        }
    }
    // Must be on disk before git removes a pack, in case the machine fails.
    sync(&to)?;
    sync(&repository.join("objects"))
}

/// Restores missing packs and removes the directory, if it exists. After an error the packs stay
/// saved. Blocking.
pub(super) fn restore(repository: &Path) -> Result<(), GitError> {
    let (from, to) = (folder(repository), pack_folder(repository));
    let entries = match fs::read_dir(&from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(GitError::io("listing saved packs"))?,
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    // git finds a pack by its index, so the index is moved last.
    for ending in SAVED_FILES {
        for path in names.iter().filter(|path| path.extension().is_some_and(|found| found == ending)) {
            let place = to.join(path.file_name().unwrap_or_default());
            if !place.exists() {
                fs::rename(path, place).map_err(GitError::io("restoring a pack"))?;
            }
        }
    }
    sync(&to)?;
    discard(repository)
}

/// Blocking.
pub(super) fn discard(repository: &Path) -> Result<(), GitError> {
    ignore_missing(fs::remove_dir_all(folder(repository))).map_err(GitError::io("removing saved packs"))
}

fn folder(repository: &Path) -> PathBuf {
    repository.join("objects/saved_packs")
}

#[cfg(test)]
mod tests {
    use git_store::disk::packs::{list_packs, remove_pack};

    use std::process::Command;

    use super::*;

    /// Returns a repository with one pack, which has one blob.
    fn repository() -> (tempfile::TempDir, git2::Oid, Vec<Pack>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let blob = git2::Repository::init_bare(path).unwrap().blob(b"text").unwrap();
        let script = format!("echo {blob} | git pack-objects -q objects/pack/pack && git prune-packed -q");
        assert!(Command::new("sh").arg("-c").arg(script).current_dir(path).status().unwrap().success());
        let packs = list_packs(path).unwrap();
        assert_eq!(packs.len(), 1);
        (folder, blob, packs)
    }

    #[test]
    fn a_pack_that_was_removed_is_put_back_and_another_stays() {
        for is_removed in [true, false] {
            let (folder, blob, packs) = repository();
            let path = folder.path();
            save(path, &packs).unwrap();
            if is_removed {
                remove_pack(path, &packs[0].name).unwrap();
            }
            restore(path).unwrap();
            assert_eq!(list_packs(path).unwrap(), packs);
            assert!(git2::Repository::open_bare(path).unwrap().odb().unwrap().exists(blob));
            assert!(!super::folder(path).exists());
            restore(path).unwrap();
        }
    }

    #[test]
    fn packs_that_are_not_wanted_any_more_go() {
        let (folder, _, packs) = repository();
        let path = folder.path();
        save(path, &packs).unwrap();
        // Replaces what an earlier job left.
        save(path, &packs).unwrap();
        remove_pack(path, &packs[0].name).unwrap();
        discard(path).unwrap();
        restore(path).unwrap();
        assert_eq!(list_packs(path).unwrap(), []);
    }
}
