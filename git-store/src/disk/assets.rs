//! Release files, in the folder `assets` of their repository, deleted with it. An upload writes a
//! temporary file and renames it once it is synced, so a file with its final name is complete.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use ferrite_proto::id::RepositoryId;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;

use super::{ignore_missing, repositories::RepositoryStore};
use crate::types::error::GitError;

const FOLDER: &str = "assets";
const TEMPORARY_PREFIX: &str = "tmp-";
const ID_DIGITS: usize = 32;

/// The id of a release file on the store: 32 lower-case hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetFileId(String);

impl AssetFileId {
    /// Parses an id; `None` if malformed.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        let is_id = text.len() == ID_DIGITS && text.iter().all(is_digit);
        is_id.then(|| String::from_utf8_lossy(text).into_owned()).map(Self)
    }

    fn temporary(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{TEMPORARY_PREFIX}{}", self.0))
    }
}

/// A temporary file, removed on drop. Once renamed, there is nothing to remove.
#[derive(Debug)]
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

/// A file being uploaded. Dropped before [`AssetUpload::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct AssetUpload {
    folder: PathBuf,
    id: AssetFileId,
    temporary: TemporaryFile,
    file: tokio::fs::File,
    hash: Sha256,
    size: u64,
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAsset {
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content, 64 hex digits.
    pub sha256: String,
}

impl AssetUpload {
    /// Starts an upload. Fails with `Io` if the id is already used.
    pub async fn begin(store: &RepositoryStore, repository: RepositoryId, id: AssetFileId) -> Result<Self, GitError> {
        let repository = store.path(repository);
        let folder = repository.join(FOLDER);
        // Not its parents: a repository deleted meanwhile must not come back.
        match tokio::fs::create_dir(&folder).await {
            Ok(()) => sync_folder(&repository).await?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(or_missing_repository("creating the folder of release files")(error)),
        }
        let temporary = id.temporary(&folder);
        let file = tokio::fs::File::options().write(true).create_new(true).open(&temporary).await;
        let file = file.map_err(or_missing_repository("creating a release file"))?;
        Ok(Self { folder, id, temporary: TemporaryFile(temporary), file, hash: Sha256::new(), size: 0 })
    }

    /// Appends bytes. An error may concern bytes of an earlier call.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        self.file.write_all(bytes).await.map_err(GitError::io("writing a release file"))
    }

    /// Syncs the file and gives it its final name.
    pub async fn finish(mut self) -> Result<StoredAsset, GitError> {
        // Only a flush reports errors of earlier writes.
        self.file.flush().await.map_err(GitError::io("writing a release file"))?;
        self.file.sync_all().await.map_err(GitError::io("syncing a release file"))?;
        let renamed = tokio::fs::rename(&self.temporary.0, self.folder.join(&self.id.0)).await;
        renamed.map_err(or_missing_repository("renaming a release file"))?;
        sync_folder(&self.folder).await?;
        Ok(StoredAsset { size: self.size, sha256: hex::encode(self.hash.finalize()) })
    }
}

/// Opens a stored file and returns it with its size in bytes; `PathNotFound` if it does not exist.
pub async fn open_asset(
    store: &RepositoryStore,
    repository: RepositoryId,
    id: &AssetFileId,
) -> Result<(tokio::fs::File, u64), GitError> {
    let path = store.path(repository).join(FOLDER).join(&id.0);
    let opened = async {
        let file = tokio::fs::File::open(&path).await?;
        let size = file.metadata().await?.len();
        Ok((file, size))
    };
    opened.await.map_err(|error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => GitError::PathNotFound,
        _ => GitError::io("opening a release file")(error),
    })
}

/// Removes stored files and leftovers of killed uploads, if they exist. Blocking.
pub fn delete_assets(store: &RepositoryStore, repository: RepositoryId, ids: &[AssetFileId]) -> Result<(), GitError> {
    let folder = store.path(repository).join(FOLDER);
    for path in ids.iter().flat_map(|id| [folder.join(&id.0), id.temporary(&folder)]) {
        ignore_missing(fs::remove_file(&path)).map_err(GitError::io("removing a release file"))?;
    }
    Ok(())
}

async fn sync_folder(folder: &Path) -> Result<(), GitError> {
    let synced = async { tokio::fs::File::open(folder).await?.sync_all().await };
    synced.await.map_err(or_missing_repository("syncing the folder of release files"))
}

/// Returns a function for `map_err`: if something is missing, the repository was deleted.
fn or_missing_repository(what: &'static str) -> impl FnOnce(io::Error) -> GitError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => GitError::RepositoryNotFound,
        _ => GitError::io(what)(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::types::name::BranchName;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    async fn store(folder: &Path) -> (RepositoryStore, RepositoryId) {
        let (store, id) = (RepositoryStore::open(folder, "s", Duration::ZERO).await.unwrap(), RepositoryId(1));
        store.create(id, &BranchName::parse(b"main").unwrap(), |_| Ok(None)).unwrap();
        (store, id)
    }

    fn file_id() -> AssetFileId {
        AssetFileId::parse(ID.as_bytes()).unwrap()
    }

    fn names(store: &RepositoryStore, id: RepositoryId) -> Vec<String> {
        let entries = fs::read_dir(store.path(id).join(FOLDER)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn ids_are_no_paths() {
        assert!(AssetFileId::parse(ID.as_bytes()).is_some());
        let upper = ID.to_uppercase();
        for wrong in
            ["", "..", "../../../../../../../../../../etc", &ID[1..], "tmp-456789abcdef0123456789abcdef", &upper]
        {
            assert!(AssetFileId::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_file_has_its_name_when_it_is_whole_and_goes_when_it_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store(folder.path()).await;
        let mut upload = AssetUpload::begin(&store, id, file_id()).await.unwrap();
        upload.write(b"ab").await.unwrap();
        assert!(matches!(open_asset(&store, id, &file_id()).await, Err(GitError::PathNotFound)));
        upload.write(b"c").await.unwrap();
        let stored = upload.finish().await.unwrap();
        assert_eq!((stored.size, &stored.sha256[..8]), (3, "ba7816bf"));
        assert_eq!((open_asset(&store, id, &file_id()).await.unwrap().1, names(&store, id)), (3, vec![ID.to_owned()]));
        for _ in 0..2 {
            delete_assets(&store, id, &[file_id()]).unwrap();
            assert!(names(&store, id).is_empty());
        }
    }

    #[tokio::test]
    async fn an_upload_that_is_dropped_or_killed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store(folder.path()).await;
        let mut upload = AssetUpload::begin(&store, id, file_id()).await.unwrap();
        upload.write(b"abc").await.unwrap();
        assert_eq!(names(&store, id).len(), 1);
        drop(upload);
        assert!(names(&store, id).is_empty());
        let upload = AssetUpload::begin(&store, id, file_id()).await.unwrap();
        std::mem::forget(upload);
        assert_eq!(names(&store, id).len(), 1);
        delete_assets(&store, id, &[file_id()]).unwrap();
        assert!(names(&store, id).is_empty());
    }

    #[tokio::test]
    async fn an_upload_does_not_bring_a_deleted_repository_back() {
        let folder = tempfile::tempdir().unwrap();
        let (store, id) = store(folder.path()).await;
        let mut upload = AssetUpload::begin(&store, id, file_id()).await.unwrap();
        store.delete(id).unwrap();
        upload.write(b"abc").await.unwrap();
        assert!(matches!(upload.finish().await, Err(GitError::RepositoryNotFound)));
        assert!(matches!(AssetUpload::begin(&store, id, file_id()).await, Err(GitError::RepositoryNotFound)));
        assert!(!store.path(id).exists());
        delete_assets(&store, id, &[file_id()]).unwrap();
    }
}
