//! Loads all refs of a repository into a table. As in git, loose refs are read before
//! `packed-refs`, so a ref packed meanwhile is found in one of them.

use std::{
    fs,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::Path,
};

use git2::{ErrorCode, ObjectType, Odb, Oid, Repository};

use super::{
    edit::RefEdit,
    table::{FileStamp, RefEntry, RefTable, Stamp, TableChange},
};
use crate::{
    disk::repositories::ref_path,
    repo::objects::{MAX_TAG_DEPTH, full_id, tag_target},
    types::{error::GitError, name::RefName},
};

const MAX_REF_FILE_BYTES: u64 = 4096;

struct RawRef {
    name: RefName,
    /// The object id; `None` for symbolic and broken refs, which still hide a packed ref.
    target: Option<Oid>,
    /// The peeled object in `packed-refs`: `Some(None)` if it is not a tag, `None` if unknown.
    peeled: Option<Option<Oid>>,
}

/// Refs read so far. `is_plain` is false once one is found that git may treat differently.
struct RefScan {
    found: Vec<RawRef>,
    is_plain: bool,
}

/// Loads all refs except hidden, broken and symbolic ones.
pub fn load(repo: &Repository) -> Result<RefTable, GitError> {
    let path = repo.path();
    let mut scan = RefScan { found: Vec::new(), is_plain: true };
    scan.loose(path)?;
    let packed = scan.packed(path)?;
    let RefScan { mut found, mut is_plain } = scan;
    // The sort is stable, so a loose ref stays before a packed one of the same name, and wins.
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|later, first| later.name == first.name);
    let (odb, mut entries) = (repo.odb()?, Vec::with_capacity(found.len()));
    for found in found {
        let Some(target) = found.target else { continue };
        match complete(repo, &odb, found.name, target, found.peeled)? {
            Some(entry) => {
                is_plain &= entry.kind != ObjectType::Any;
                entries.push(entry);
            }
            None => is_plain = false,
        }
    }
    let (head, head_stamp) = read_head(path)?;
    let is_head_plain = head.as_ref().is_some_and(|head| {
        let is_there = entries.binary_search_by(|entry| entry.name.cmp(head)).is_ok();
        is_there || !ref_path(path, head).is_file()
    });
    let stamp = Stamp { head: Some(head_stamp), packed };
    Ok(RefTable::new(entries, head, is_plain && is_head_plain, stamp))
}

/// Returns the entries of refs about to be written, in order; `None` if an object is missing.
pub fn describe(repo: &Repository, refs: &[(RefName, Oid)]) -> Result<Vec<Option<RefEntry>>, GitError> {
    let odb = repo.odb()?;
    refs.iter().map(|(name, target)| complete(repo, &odb, name.clone(), *target, None)).collect()
}

pub(super) fn changes(repo: &Repository, edits: &[RefEdit]) -> Result<Vec<TableChange>, GitError> {
    let odb = repo.odb()?;
    let change = |edit: &RefEdit| {
        let name = edit.name.clone();
        let Some(target) = edit.new else { return Ok(TableChange::Removed(name)) };
        // git lets branches point only to commits.
        let known = name.as_bytes().starts_with(b"refs/heads/").then_some(None);
        let entry = complete(repo, &odb, name, target, known)?;
        entry
            .map(TableChange::Set)
            .ok_or_else(|| GitError::Internal(format!("the target of `{}` is missing", edit.name)))
    };
    edits.iter().filter(|edit| !edit.name.is_hidden()).map(change).collect()
}

impl RefScan {
    fn loose(&mut self, repository: &Path) -> Result<(), GitError> {
        let mut folders = vec![(repository.join("refs"), b"refs".to_vec())];
        while let Some((folder, prefix)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                // The last ref in the folder was just deleted or packed.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(GitError::io("listing refs")(error)),
            };
            for entry in entries {
                let entry = entry.map_err(GitError::io("listing refs"))?;
                let file_name = entry.file_name();
                let part = file_name.as_bytes();
                if part.starts_with(b".") || part.ends_with(b".lock") {
                    continue;
                }
                let name = [prefix.as_slice(), b"/", part].concat();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push((entry.path(), name));
                } else {
                    self.file(&entry.path(), &name)?;
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: &[u8]) -> Result<(), GitError> {
        let Ok(name) = RefName::parse(name) else {
            self.is_plain = false;
            return Ok(());
        };
        if name.is_hidden() {
            return Ok(());
        }
        let is_file = match fs::symlink_metadata(path) {
            Ok(data) => data.is_file(),
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) => return Err(GitError::io(format!("reading `{name}`"))(error)),
        };
        let target = match is_file.then(|| read_ref_file(path)) {
            Some(Err(error)) if is_gone(&error) => return Ok(()),
            Some(Ok(bytes)) => bytes.strip_suffix(b"\n").and_then(object_id),
            // An unreadable ref must not hide the others.
            Some(Err(_)) | None => None,
        };
        self.is_plain &= target.is_some();
        self.found.push(RawRef { name, target, peeled: None });
        Ok(())
    }

    /// Reads `packed-refs` and returns its stamp.
    fn packed(&mut self, repository: &Path) -> Result<Option<FileStamp>, GitError> {
        let failed = GitError::io("reading `packed-refs`");
        let mut file = match fs::File::open(repository.join("packed-refs")) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut bytes = Vec::new();
        let stamp = file.metadata().and_then(|data| file.read_to_end(&mut bytes).map(|_| FileStamp::new(&data)));
        let stamp = stamp.map_err(failed)?;
        self.packed_lines(&bytes);
        Ok(Some(stamp))
    }

    fn packed_lines(&mut self, bytes: &[u8]) {
        let (mut is_fully_peeled, mut is_open) = (false, false);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or_else(|| {
                self.is_plain = false;
                line
            });
            if let Some(traits) = line.strip_prefix(b"# pack-refs with:") {
                is_fully_peeled = traits.split(|byte| *byte == b' ').any(|word| word == b"fully-peeled");
            } else if let Some(peeled) = line.strip_prefix(b"^") {
                let last = self.found.last_mut().filter(|_| std::mem::take(&mut is_open));
                match (last, object_id(peeled)) {
                    (Some(last), Some(peeled)) => last.peeled = Some(Some(peeled)),
                    _ => self.is_plain = false,
                }
            } else {
                let (id, name) = line.split_at_checked(40).unwrap_or_default();
                let name = name.strip_prefix(b" ").and_then(|name| RefName::parse(name).ok());
                is_open = false;
                match (object_id(id), name) {
                    (Some(target), Some(name)) => {
                        is_open = true;
                        let peeled = is_fully_peeled.then_some(None);
                        self.found.push(RawRef { name, target: Some(target), peeled });
                    }
                    _ => self.is_plain = false,
                }
            }
        }
        self.found.retain(|found| !found.name.is_hidden());
    }
}

/// Returns the branch of HEAD, if any, and the stamp of the file.
fn read_head(repository: &Path) -> Result<(Option<RefName>, FileStamp), GitError> {
    let path = repository.join("HEAD");
    let read = fs::File::open(&path).and_then(|file| {
        let (data, mut bytes) = (file.metadata()?, Vec::new());
        file.take(MAX_REF_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok((bytes, FileStamp::new(&data)))
    });
    let (bytes, stamp) = read.map_err(GitError::io("reading HEAD"))?;
    let name = bytes.strip_prefix(b"ref: ").and_then(|name| name.strip_suffix(b"\n"));
    let name = name.and_then(|name| RefName::parse(name).ok());
    Ok((name.filter(|name| name.as_bytes().starts_with(b"refs/heads/")), stamp))
}

/// Adds the peeled object and its type; `None` if an object is missing.
fn complete(
    repo: &Repository,
    odb: &Odb<'_>,
    name: RefName,
    target: Oid,
    known: Option<Option<Oid>>,
) -> Result<Option<RefEntry>, GitError> {
    let is_branch = name.as_bytes().starts_with(b"refs/heads/");
    let (peeled, kind) = match known {
        Some(None) if is_branch => (None, odb.exists(target).then_some(ObjectType::Commit)),
        Some(None) => (None, kind_of(odb, target)?),
        Some(Some(peeled)) => (Some(peeled), kind_of(odb, target)?.and(kind_of(odb, peeled)?)),
        None => match kind_of(odb, target)? {
            Some(ObjectType::Tag) => {
                let (peeled, kind) = follow(repo, odb, target)?.unzip();
                (peeled, Some(kind.unwrap_or(ObjectType::Any)))
            }
            kind => (None, kind),
        },
    };
    Ok(kind.map(|kind| RefEntry { name, target, peeled, kind }))
}

fn kind_of(odb: &Odb<'_>, id: Oid) -> Result<Option<ObjectType>, GitError> {
    match odb.read_header(id) {
        Ok((_, kind)) => Ok(Some(kind)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Peels a tag object; `None` if a tag or the final object cannot be read.
fn follow(repo: &Repository, odb: &Odb<'_>, tag: Oid) -> Result<Option<(Oid, ObjectType)>, GitError> {
    let mut id = tag;
    for _ in 0..MAX_TAG_DEPTH {
        let Ok(target) = tag_target(repo, id) else { return Ok(None) };
        id = target;
        match kind_of(odb, id)? {
            Some(ObjectType::Tag) => {}
            kind => return Ok(kind.map(|kind| (id, kind))),
        }
    }
    Ok(None)
}

/// Parses 40 lower-case hex digits that are not all zero.
fn object_id(text: &[u8]) -> Option<Oid> {
    full_id(text).filter(|id| !id.is_zero() && !text.iter().any(u8::is_ascii_uppercase))
}

fn read_ref_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_REF_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a file or folder is gone, or has become the other.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory)
}
