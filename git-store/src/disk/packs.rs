//! The packs of a repository: names, sizes, roles, installation and removal.

use std::{
    collections::HashSet,
    fs, io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use super::ignore_missing;
use crate::types::error::GitError;

/// Size of a version 2 pack index (gitformat-pack(5)): header, fan-out table and two checksums,
/// plus id, CRC and offset per object.
pub(super) const INDEX_BASE: u64 = 8 + 256 * 4 + 40;
pub(super) const INDEX_OBJECT: u64 = 28;
/// File extensions of a pack in order of removal: git ignores a pack without its index.
const PACK_FILES: [&str; 6] = ["idx", "rev", "bitmap", "mtimes", "promisor", "pack"];
/// File extensions that `pack-objects` writes, in the order of installation.
const WRITTEN_FILES: [&str; 3] = ["pack", "rev", "idx"];
/// Sizes of the header of a multi-pack index and of a chunk table entry (gitformat-pack(5)).
const MIDX_HEADER_BYTES: usize = 12;
const MIDX_CHUNK_BYTES: usize = 12;
const MAX_MIDX_NAMES_BYTES: u64 = 1 << 20;

/// The role of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackRole {
    /// Covered by a bitmap: listed in the multi-pack index, or with its own bitmap.
    Base,
    /// Written since the base.
    Recent,
    /// Unreachable objects with their times.
    Cruft,
    /// Protected by a push in progress.
    Kept,
}

/// One pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pack {
    /// File name without extension: `pack-` and a hash.
    pub name: String,
    /// Number of its objects.
    pub objects: u64,
    /// The role.
    pub role: PackRole,
}

/// Lists the finished packs of a repository, smallest first. Blocking.
pub fn list_packs(repository: &Path) -> Result<Vec<Pack>, GitError> {
    let folder = pack_folder(repository);
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).map_err(GitError::io("listing packs"))? {
        let entry = entry.map_err(GitError::io("listing packs"))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let bytes = if name.ends_with(".idx") { entry.metadata().map_or(0, |data| data.len()) } else { 0 };
        files.push((name, bytes));
    }
    Ok(packs_among(&folder, &files))
}

/// Finds the packs in a listing of the pack folder (names and sizes), smallest first.
pub(super) fn packs_among(folder: &Path, files: &[(String, u64)]) -> Vec<Pack> {
    let with = |ending: &'static str| -> HashSet<&str> {
        files.iter().filter_map(|(name, _)| name.strip_suffix(ending)).collect()
    };
    let (kept, cruft, bitmaps) = (with(".keep"), with(".mtimes"), with(".bitmap"));
    let indexed = if files.iter().any(|(name, _)| name == "multi-pack-index") {
        indexed_packs(folder).unwrap_or_default()
    } else {
        HashSet::new()
    };
    let role = |name: &str| {
        if cruft.contains(name) {
            PackRole::Cruft
        } else if kept.contains(name) {
            PackRole::Kept
        } else if bitmaps.contains(name) || indexed.contains(name) {
            PackRole::Base
        } else {
            PackRole::Recent
        }
    };
    let mut packs = Vec::new();
    for (name, bytes) in files {
        if let Some(name) = name.strip_suffix(".idx").filter(|name| name.starts_with("pack-")) {
            let objects = bytes.saturating_sub(INDEX_BASE) / INDEX_OBJECT;
            packs.push(Pack { name: name.to_owned(), objects, role: role(name) });
        }
    }
    packs.sort_unstable_by(|one, two| one.objects.cmp(&two.objects).then_with(|| one.name.cmp(&two.name)));
    packs
}

/// Returns the packs in the multi-pack index, without extension. Blocking.
fn indexed_packs(folder: &Path) -> io::Result<HashSet<String>> {
    let file = fs::File::open(folder.join("multi-pack-index"))?;
    let mut header = [0; MIDX_HEADER_BYTES];
    file.read_exact_at(&mut header, 0)?;
    if !header.starts_with(b"MIDX") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut table = vec![0; (usize::from(header[6]) + 1) * MIDX_CHUNK_BYTES];
    file.read_exact_at(&mut table, MIDX_HEADER_BYTES as u64)?;
    let (chunks, _) = table.as_chunks::<MIDX_CHUNK_BYTES>();
    let offset = |chunk: &[u8; MIDX_CHUNK_BYTES]| {
        let [_, _, _, _, offset @ ..] = *chunk;
        u64::from_be_bytes(offset)
    };
    let found = chunks.windows(2).find(|pair| pair[0].starts_with(b"PNAM"));
    let Some([names, next]) = found else { return Err(io::ErrorKind::InvalidData.into()) };
    let length = offset(next).saturating_sub(offset(names)).min(MAX_MIDX_NAMES_BYTES);
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| io::ErrorKind::InvalidData)?];
    file.read_exact_at(&mut bytes, offset(names))?;
    let names = bytes.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    Ok(names.filter_map(|name| name.strip_suffix(".idx")).map(str::to_owned).collect())
}

/// Moves the packs that `pack-objects` wrote to `from` into the repository, and syncs the pack
/// folder. Returns their names. On an error, git ignores packs whose index was not moved. Blocking.
pub fn install_packs(from: &Path, repository: &Path) -> Result<Vec<String>, GitError> {
    let folder = pack_folder(repository);
    let mut names = Vec::new();
    for entry in fs::read_dir(from).map_err(GitError::io("listing new packs"))?.flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        if let Some(name) = name.strip_suffix(".idx").filter(|name| name.starts_with("pack-")) {
            names.push(name.to_owned());
        }
    }
    for name in &names {
        for ending in WRITTEN_FILES {
            let file = format!("{name}.{ending}");
            match fs::rename(from.join(&file), folder.join(&file)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && ending == "rev" => {}
                moved => moved.map_err(GitError::io("moving a new pack"))?,
            }
        }
    }
    super::durable::sync(&folder)?;
    Ok(names)
}

/// Removes a pack, if it exists. Blocking.
pub fn remove_pack(repository: &Path, name: &str) -> Result<(), GitError> {
    let folder = pack_folder(repository);
    for ending in PACK_FILES {
        let removed = fs::remove_file(folder.join(format!("{name}.{ending}")));
        ignore_missing(removed).map_err(GitError::io("removing a pack"))?;
    }
    Ok(())
}

/// Removes the loose objects listed by `git prune-packed --dry-run` (`rm -f <path>` lines). Keeps
/// their folders: a write that just found one would fail. Blocking.
pub fn remove_loose(repository: &Path, listed: &[u8]) {
    for line in listed.split(|byte| *byte == b'\n') {
        let Some((folder, file)) = std::str::from_utf8(line).ok().and_then(loose_name) else { continue };
        // A leftover is listed again next time.
        drop(fs::remove_file(repository.join("objects").join(folder).join(file)));
    }
}

/// Returns the folder and file name of a loose object at the end of a line.
fn loose_name(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.rsplit('/');
    let (file, folder) = (parts.next()?, parts.next()?);
    let is_hex = |text: &str, length: usize| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hex(folder, 2) && is_hex(file, 38)).then_some((folder, file))
}

/// Returns the pack folder of a repository.
pub fn pack_folder(repository: &Path) -> PathBuf {
    repository.join("objects/pack")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn git(path: &Path, args: &[&str]) {
        let done = Command::new("git").arg("-C").arg(path).args(args).env("GIT_CONFIG_GLOBAL", "/dev/null").status();
        assert!(done.unwrap().success(), "{args:?}");
    }

    fn blob(path: &Path, text: &str) {
        git2::Repository::open_bare(path).unwrap().blob(text.as_bytes()).unwrap();
    }

    #[test]
    fn packs_of_an_index_or_with_a_bitmap_are_the_base() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        git2::Repository::init_bare(path).unwrap();
        assert_eq!(list_packs(path).unwrap(), []);
        for index in 0..3 {
            (0..=index).for_each(|number| blob(path, &format!("{index}.{number}")));
            git(path, &["repack", "--geometric=2", "-q"]);
            // Otherwise objects that are in a pack stay loose and are packed again.
            git(path, &["prune-packed", "-q"]);
            if index == 1 {
                git(path, &["multi-pack-index", "write", "--no-progress"]);
            }
        }
        let roles = |path: &Path| -> Vec<_> {
            list_packs(path).unwrap().into_iter().map(|pack| (pack.objects, pack.role)).collect()
        };
        let base = PackRole::Base;
        assert_eq!(roles(path), [(1, base), (2, base), (3, PackRole::Recent)]);
        let recent = list_packs(path).unwrap().pop().unwrap().name;
        let packs = path.join("objects/pack");
        for (ending, role) in [("bitmap", base), ("keep", PackRole::Kept), ("mtimes", PackRole::Cruft)] {
            let file = packs.join(format!("{recent}.{ending}"));
            fs::write(&file, "").unwrap();
            assert_eq!(roles(path)[2], (3, role));
            fs::remove_file(file).unwrap();
        }
        fs::write(packs.join("tmp_pack_x.idx"), "").unwrap();
        fs::write(packs.join("multi-pack-index"), "MIDX").unwrap();
        assert_eq!(roles(path), [(1, PackRole::Recent), (2, PackRole::Recent), (3, PackRole::Recent)]);
        remove_pack(path, &recent).unwrap();
        assert_eq!(roles(path).len(), 2);
        remove_pack(path, &recent).unwrap();
    }

    #[test]
    fn only_loose_objects_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, rest) = (folder.path().join("objects"), "0".repeat(38));
        fs::create_dir_all(objects.join("ab")).unwrap();
        fs::write(objects.join("ab").join(&rest), "").unwrap();
        fs::write(folder.path().join("HEAD"), "").unwrap();
        let listed = format!("rm -f /else/where/ab/{rest}\nrm -f ../HEAD\nrm -f objects/../HEAD\n\n");
        remove_loose(folder.path(), listed.as_bytes());
        assert!(!objects.join("ab").join(&rest).exists() && objects.join("ab").exists());
        assert!(folder.path().join("HEAD").exists());
    }
}
