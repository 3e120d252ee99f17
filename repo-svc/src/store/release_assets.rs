//! Files of releases, and files on the store that no release uses.
//!
//! A file is reserved before it is uploaded: it has a row in `unclaimed_files` until a release uses
//! it, and again once it is removed from the release. So a crash never leaves a file on the store
//! without a row.

use ferrite_db::args;
use ferrite_db::{DbError, Query, Tx};
use ferrite_proto::id::{RepositoryId, UserId};

use super::releases::{Release, ReleaseTable};
use super::sql::or_taken;
use crate::error::RepoError;
use crate::model::{AssetName, NewAsset};

/// Per release.
const MAX_ASSETS: i64 = 100;
/// How long a reserved file waits for its release.
const RESERVATION_US: i64 = 24 * 3600 * 1_000_000;
/// Files removed at once.
const FILES_PER_SWEEP: i64 = 500;
/// Counts per SQLite transaction. Other writers wait meanwhile.
const COUNTS_PER_TRANSACTION: usize = 500;

const SELECT: &str = "SELECT id, release_id, file_id, name, content_type, size_bytes, sha256, download_count, created_us FROM release_assets";
const NAME_HOLDER: &str = "SELECT id FROM release_assets WHERE release_id = $1 AND name = $2";
const COUNT: &str = "SELECT COUNT(*) FROM release_assets WHERE release_id = $1";
const INSERT: &str = "INSERT INTO release_assets (release_id, file_id, name, content_type, size_bytes, sha256, download_count, \
     uploader_id, created_us) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $8) ON CONFLICT DO NOTHING \
     RETURNING id, release_id, file_id, name, content_type, size_bytes, sha256, download_count, created_us";
const RENAME: &str = "UPDATE release_assets SET name = $2 WHERE id = $1";
const DELETE: &str = "DELETE FROM release_assets WHERE id = $1";
const ADD_DOWNLOADS: &str = "UPDATE release_assets SET download_count = download_count + $2 WHERE id = $1";
const RESERVE: &str = "INSERT INTO unclaimed_files (file_id, repository_id, due_us) VALUES ($1, $2, $3)";
const CLAIM: &str = "DELETE FROM unclaimed_files WHERE file_id = $1 AND repository_id = $2 AND due_us > $3";
const UNCLAIM_RELEASE: &str = "INSERT INTO unclaimed_files (file_id, repository_id, due_us) \
     SELECT file_id, CAST($2 AS BIGINT), CAST(0 AS BIGINT) FROM release_assets WHERE release_id = $1 RETURNING file_id";
const DELETE_RELEASE: &str = "DELETE FROM releases WHERE id = $1";
const ASSET_BYTES: &str =
    "SELECT CAST(COALESCE(SUM(size_bytes), 0) AS BIGINT) FROM release_assets WHERE release_id = $1";
const DISCARD: &str = "UPDATE unclaimed_files SET due_us = 0 WHERE file_id = $1 RETURNING repository_id";
const IS_ANY_DUE: &str = "SELECT file_id FROM unclaimed_files WHERE due_us <= $1 LIMIT 1";
/// Marks files as no longer claimable before their bytes are removed.
const TAKE_DUE_SQLITE: &str = "UPDATE unclaimed_files SET due_us = 0 WHERE file_id IN \
     (SELECT file_id FROM unclaimed_files WHERE due_us <= $1 ORDER BY due_us, file_id LIMIT $2) RETURNING repository_id, file_id";
/// Skips rows that another replica is taking.
const TAKE_DUE_POSTGRES: &str = "UPDATE unclaimed_files SET due_us = 0 WHERE file_id IN \
     (SELECT file_id FROM unclaimed_files WHERE due_us <= $1 ORDER BY due_us, file_id LIMIT $2 FOR UPDATE SKIP LOCKED) \
     RETURNING repository_id, file_id";
const FORGET: &str = "DELETE FROM unclaimed_files WHERE due_us = 0 AND file_id IN ";

#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct Asset {
    pub(crate) id: i64,
    pub(crate) release_id: i64,
    pub(crate) file_id: String,
    pub(crate) name: String,
    pub(crate) content_type: String,
    pub(crate) size_bytes: i64,
    pub(crate) sha256: String,
    pub(crate) download_count: i64,
    pub(crate) created_us: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AssetKey {
    Id(i64),
    Name(String),
}

/// A file on the store that no release uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, sqlx_macros::FromRow)]
pub(crate) struct UnclaimedFile {
    pub(crate) repository_id: i64,
    pub(crate) file_id: String,
}

impl ReleaseTable {
    /// Ordered by id.
    pub(crate) async fn assets(&self, releases: impl IntoIterator<Item = i64>) -> Result<Vec<Asset>, DbError> {
        let query = of_releases(releases);
        self.db.all(query.sql(), query.args()).await
    }

    /// Ordered by id. The repository must be locked.
    pub(crate) async fn assets_locked(&self, tx: &mut Tx, release: &Release) -> Result<Vec<Asset>, DbError> {
        let query = of_releases([release.id]);
        tx.all(query.sql(), query.args()).await
    }

    pub(crate) async fn find_asset(&self, release: &Release, key: &AssetKey) -> Result<Option<Asset>, DbError> {
        let query = by_key(release, key);
        self.db.optional(query.sql(), query.args()).await
    }

    pub(crate) async fn find_asset_locked(
        &self,
        tx: &mut Tx,
        release: &Release,
        id: i64,
    ) -> Result<Option<Asset>, DbError> {
        let query = by_key(release, &AssetKey::Id(id));
        tx.optional(query.sql(), query.args()).await
    }

    /// Checks that the release has room for a file and that the name is free, unless it is
    /// `may_be_taken`. Then reserves a file on the store.
    pub(crate) async fn reserve_file(
        &self,
        release: &Release,
        (name, may_be_taken): (&AssetName, bool),
        file_id: &str,
        now_us: i64,
    ) -> Result<(), RepoError> {
        if !may_be_taken {
            let holder: Option<(i64,)> = self.db.optional(NAME_HOLDER, &args![release.id, name.as_str()]).await?;
            if holder.is_some() {
                return Err(name_is_taken());
            }
            let (count,): (i64,) = self.db.one(COUNT, &args![release.id]).await?;
            check_count(count)?;
        }
        self.db.execute(RESERVE, &args![file_id, release.repository_id, now_us + RESERVATION_US]).await?;
        Ok(())
    }

    /// Adds a reserved file to a release of the locked repository. Fails with
    /// [`RepoError::Interrupted`] if the file is not reserved, or no longer.
    pub(crate) async fn insert_asset(
        &self,
        tx: &mut Tx,
        release: &Release,
        new: &NewAsset,
        uploader: UserId,
        now_us: i64,
    ) -> Result<Asset, RepoError> {
        let (count,): (i64,) = tx.one(COUNT, &args![release.id]).await?;
        check_count(count)?;
        if tx.execute(CLAIM, &args![new.file_id.as_str(), release.repository_id, now_us]).await? == 0 {
            return Err(RepoError::Interrupted);
        }
        let args = args![
            release.id,
            new.file_id.as_str(),
            new.name.as_str(),
            new.content_type.as_str(),
            new.size_bytes,
            new.sha256.as_str(),
            uploader,
            now_us,
        ];
        tx.optional(INSERT, &args).await?.ok_or_else(name_is_taken)
    }

    /// Renames a file of the locked repository.
    pub(crate) async fn rename_asset(&self, tx: &mut Tx, id: i64, name: &AssetName) -> Result<(), RepoError> {
        let renamed = tx.execute(RENAME, &args![id, name.as_str()]).await;
        renamed.map(drop).map_err(or_taken(name_is_taken))
    }

    /// Removes a file from a release. Its bytes become due for removal.
    pub(crate) async fn delete_asset(&self, tx: &mut Tx, release: &Release, asset: &Asset) -> Result<(), DbError> {
        tx.execute(RESERVE, &args![asset.file_id.as_str(), release.repository_id, 0_i64]).await?;
        tx.execute(DELETE, &args![asset.id]).await.map(drop)
    }

    /// Total size of a release's files. The repository must be locked.
    pub(crate) async fn asset_bytes(&self, tx: &mut Tx, release: &Release) -> Result<i64, DbError> {
        let (bytes,): (i64,) = tx.one(ASSET_BYTES, &args![release.id]).await?;
        Ok(bytes)
    }

    /// Ends the reservation of a file, so that no release can use it. Returns its repository;
    /// `None` if it is not reserved.
    pub(crate) async fn discard_file(&self, file_id: &str) -> Result<Option<RepositoryId>, DbError> {
        let mut tx = self.db.begin().await?;
        let row: Option<(i64,)> = tx.optional(DISCARD, &args![file_id]).await?;
        tx.commit().await?;
        Ok(row.map(|(repository,)| RepositoryId(repository)))
    }

    /// Deletes a release of the locked repository and its files, whose bytes become due for
    /// removal. Returns their names on the store.
    pub(crate) async fn delete(&self, tx: &mut Tx, release: &Release) -> Result<Vec<String>, DbError> {
        let rows: Vec<(String,)> = tx.all(UNCLAIM_RELEASE, &args![release.id, release.repository_id]).await?;
        tx.execute(DELETE_RELEASE, &args![release.id]).await?;
        if !release.is_draft {
            self.count_published(tx, RepositoryId(release.repository_id)).await?;
        }
        Ok(rows.into_iter().map(|(file_id,)| file_id).collect())
    }

    /// Returns files due for removal from the store, and keeps releases from using them. Returns
    /// each again until [`ReleaseTable::forget_files`].
    pub(crate) async fn take_due_files(&self, now_us: i64) -> Result<Vec<UnclaimedFile>, DbError> {
        // Usually nothing is due, so there is nothing to write.
        if self.db.optional::<(String,)>(IS_ANY_DUE, &args![now_us]).await?.is_none() {
            return Ok(Vec::new());
        }
        let mut tx = self.db.begin().await?;
        let take = tx.pick(TAKE_DUE_POSTGRES, TAKE_DUE_SQLITE);
        let files = tx.all(take, &args![now_us, FILES_PER_SWEEP]).await?;
        tx.commit().await?;
        Ok(files)
    }

    /// Forgets files whose bytes are removed.
    pub(crate) async fn forget_files(&self, file_ids: &[String]) -> Result<(), DbError> {
        let mut query = Query::new(FORGET);
        query.bind_list(file_ids);
        self.db.execute(query.sql(), query.args()).await.map(drop)
    }

    /// Adds download counts (pairs of file id and number) in one transaction. Ignores deleted
    /// files. Returns how many pairs, from the beginning, are done; call it again with the rest.
    pub(crate) async fn add_downloads(&self, counts: &[(i64, i64)]) -> Result<usize, DbError> {
        // On PostgreSQL, locking several rows could deadlock with the deletion of a release.
        let some = &counts[..counts.len().min(self.db.pick(1, COUNTS_PER_TRANSACTION))];
        let mut tx = self.db.begin().await?;
        for &(id, count) in some {
            tx.execute(ADD_DOWNLOADS, &args![id, count]).await?;
        }
        tx.commit().await?;
        Ok(some.len())
    }
}

fn of_releases(releases: impl IntoIterator<Item = i64>) -> Query {
    let mut query = Query::new(SELECT);
    query.push(" WHERE release_id IN ").bind_list(releases).push(" ORDER BY id");
    query
}

fn by_key(release: &Release, key: &AssetKey) -> Query {
    let mut query = Query::new(SELECT);
    query.push(" WHERE release_id = ").bind(release.id);
    match key {
        AssetKey::Id(id) => query.push(" AND id = ").bind(*id),
        AssetKey::Name(name) => query.push(" AND name = ").bind(name),
    };
    query
}

fn check_count(count: i64) -> Result<(), RepoError> {
    if count >= MAX_ASSETS { Err(RepoError::AssetLimit { limit: MAX_ASSETS }) } else { Ok(()) }
}

fn name_is_taken() -> RepoError {
    RepoError::field("name", "taken", "another file of the release has this name")
}
