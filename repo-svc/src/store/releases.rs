//! Releases. Before adding, changing or removing one, [lock](super::RepositoryTable::lock) the
//! repository in the same transaction, so that limits hold and no release is added to a repository
//! being deleted.

use ferrite_core::page::Page;
use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx};
use ferrite_proto::MAX_FACT_TEXT_BYTES;
use ferrite_proto::id::{RepositoryId, UserId};

use super::sql::or_taken;
use crate::error::RepoError;
use crate::model::ReleaseFields;

/// Per repository.
const MAX_RELEASES: i64 = 10_000;
/// Lists truncate longer notes.
const MAX_LISTED_NOTES_BYTES: i64 = 64 << 10;
/// Limit for the notes of a whole page.
#[cfg(not(test))]
const MAX_PAGE_NOTES_BYTES: i64 = 16 << 20;
#[cfg(test)]
const MAX_PAGE_NOTES_BYTES: i64 = 1 << 20;
/// A page of this size never reaches [`MAX_PAGE_NOTES_BYTES`].
const ALWAYS_SMALL_ROWS: i64 = MAX_PAGE_NOTES_BYTES / MAX_LISTED_NOTES_BYTES;

const SELECT: &str = "SELECT r.id, r.repository_id, r.tag_name, r.target, r.title, r.body, r.is_draft, r.is_prerelease, \
     r.created_us, r.published_us, r.author_id, u.name AS author_name, u.full_name AS author_full_name, u.email AS author_email, \
     u.is_admin AS author_is_admin FROM releases r LEFT JOIN users u ON u.id = r.author_id";
/// The columns of a list. Those of the notes follow.
const SELECT_LISTED: &str = "SELECT r.id, r.repository_id, r.tag_name, r.target, r.title, '' AS body, r.is_draft, r.is_prerelease, \
     r.created_us, r.published_us, r.author_id, u.name AS author_name, u.full_name AS author_full_name, u.email AS author_email, \
     u.is_admin AS author_is_admin, CAST(OCTET_LENGTH(r.body) AS BIGINT) AS notes_bytes, ";
const PUBLISHED: &str = " AND NOT is_draft";
const INSERT: &str = "INSERT INTO releases (repository_id, tag_name, target, title, body, is_draft, is_prerelease, author_id, \
     created_us, published_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING id";
const UPDATE: &str = "UPDATE releases SET tag_name = $2, target = $3, title = $4, body = $5, is_draft = $6, is_prerelease = $7, \
     published_us = $8 WHERE id = $1";
const COUNT: &str = "SELECT COUNT(*) FROM releases WHERE repository_id = $1";
const COUNT_OF: &str = "SELECT COUNT(*) FROM releases WHERE repository_id = ";
/// Counts all, so that what replicas of the version before did not count is counted, too.
const SET_COUNT: &str = "UPDATE repositories SET release_count = \
     (SELECT COUNT(*) FROM releases WHERE repository_id = $1 AND NOT is_draft) WHERE id = $1";
const TAG_HOLDER: &str = "SELECT id FROM releases WHERE repository_id = $1 AND tag_name = $2";

/// A release with its author.
#[derive(Clone, Debug, PartialEq, Eq, sqlx_macros::FromRow)]
pub(crate) struct Release {
    pub(crate) id: i64,
    pub(crate) repository_id: i64,
    pub(crate) tag_name: String,
    pub(crate) target: String,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) is_draft: bool,
    pub(crate) is_prerelease: bool,
    pub(crate) created_us: i64,
    /// Zero for a draft.
    pub(crate) published_us: i64,
    /// `None` if the account was deleted; so are the other columns of the author.
    pub(crate) author_id: Option<i64>,
    pub(crate) author_name: Option<String>,
    pub(crate) author_full_name: Option<String>,
    pub(crate) author_email: Option<String>,
    pub(crate) author_is_admin: Option<bool>,
    /// In lists: `body` is only the beginning.
    #[sqlx(skip)]
    pub(crate) is_truncated: bool,
}

/// Which releases to list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReleaseFilter {
    /// Whether the viewer sees drafts.
    pub(crate) with_drafts: bool,
    /// True for drafts only, false for the others only.
    pub(crate) is_draft: Option<bool>,
    /// True for prereleases only, false for the others only.
    pub(crate) is_prerelease: Option<bool>,
}

impl ReleaseFilter {
    fn push(self, query: &mut Query) {
        query.push(if self.with_drafts { "" } else { PUBLISHED });
        query.push(match self.is_draft {
            None => "",
            Some(true) => " AND is_draft",
            Some(false) => PUBLISHED,
        });
        query.push(match self.is_prerelease {
            None => "",
            Some(true) => " AND is_prerelease",
            Some(false) => " AND NOT is_prerelease",
        });
    }
}

/// A release in a list, with an empty body.
#[derive(sqlx_macros::FromRow)]
struct ListedRelease {
    #[sqlx(flatten)]
    release: Release,
    /// The first bytes of the notes. On SQLite `None` if there are none.
    notes_head: Option<Vec<u8>>,
    /// Size of the whole notes.
    notes_bytes: i64,
}

/// Drops a character at the end that was cut in two.
fn whole_characters(beginning: Vec<u8>) -> String {
    String::from_utf8(beginning).unwrap_or_else(|error| {
        let whole = error.utf8_error().valid_up_to();
        let mut bytes = error.into_bytes();
        bytes.truncate(whole);
        String::from_utf8(bytes).unwrap_or_default()
    })
}

impl From<ListedRelease> for Release {
    fn from(row: ListedRelease) -> Self {
        let body = whole_characters(row.notes_head.unwrap_or_default());
        let is_truncated = i64::try_from(body.len()).unwrap_or(i64::MAX) < row.notes_bytes;
        Self { body, is_truncated, ..row.release }
    }
}

impl Release {
    /// The fields that requests set.
    pub(crate) fn fields(&self) -> ReleaseFields {
        ReleaseFields {
            tag_name: self.tag_name.clone(),
            target: self.target.clone(),
            title: self.title.clone(),
            body: self.body.clone(),
            is_draft: self.is_draft,
            is_prerelease: self.is_prerelease,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseKey {
    Id(i64),
    /// The short name of its tag.
    Tag(String),
    /// The most recently published one that is not a prerelease.
    Latest,
}

#[derive(Clone, Debug)]
pub(crate) struct ReleaseTable {
    pub(super) db: Db,
}

impl ReleaseTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Returns a page of releases, newest first, with truncated notes, and the total.
    pub(crate) async fn list(
        &self,
        repository: RepositoryId,
        filter: ReleaseFilter,
        page: Page,
    ) -> Result<(Vec<Release>, i64), DbError> {
        let mut count = Query::new(COUNT_OF);
        filter.push(count.bind(repository));
        let (total,): (i64,) = self.db.one(count.sql(), count.args()).await?;
        // Finds the ids with the index alone, and reads texts only for the page.
        let ids = |query: &mut Query| {
            filter.push(query.push("SELECT id FROM releases WHERE repository_id = ").bind(repository));
            query.push(" ORDER BY id DESC LIMIT ").bind(page.size()).push(" OFFSET ").bind(page.offset());
        };
        let mut max_bytes = MAX_LISTED_NOTES_BYTES;
        if page.size() > ALWAYS_SMALL_ROWS {
            let mut size =
                Query::new("SELECT CAST(COALESCE(SUM(OCTET_LENGTH(body)), 0) AS BIGINT) FROM releases WHERE id IN (");
            ids(&mut size);
            size.push(")");
            let (bytes,): (i64,) = self.db.one(size.sql(), size.args()).await?;
            if bytes > MAX_PAGE_NOTES_BYTES {
                max_bytes = MAX_PAGE_NOTES_BYTES / page.size();
            }
        }
        // Cuts bytes instead of characters, of which the databases would return up to four bytes
        // each.
        let mut query = Query::new(SELECT_LISTED);
        query
            .push(self.db.pick("SUBSTR(CONVERT_TO(r.body, 'UTF8'), 1, CAST(", "SUBSTR(CAST(r.body AS BLOB), 1, CAST("));
        query
            .bind(max_bytes)
            .push(" AS INTEGER)) AS notes_head FROM releases r LEFT JOIN users u ON u.id = r.author_id");
        ids(query.push(" WHERE r.id IN ("));
        query.push(") ORDER BY r.id DESC");
        let rows: Vec<ListedRelease> = self.db.all(query.sql(), query.args()).await?;
        Ok((rows.into_iter().map(Release::from).collect(), total))
    }

    /// Finds drafts too.
    pub(crate) async fn find(&self, repository: RepositoryId, key: &ReleaseKey) -> Result<Option<Release>, DbError> {
        let query = by_key(repository, key);
        self.db.optional(query.sql(), query.args()).await
    }

    /// Returns the repository's releases among these, with the first [`MAX_FACT_TEXT_BYTES`] of
    /// their notes. Includes drafts only `with_drafts`. Callers limit the number.
    pub(crate) async fn find_notes(
        &self,
        repository: RepositoryId,
        ids: &[i64],
        with_drafts: bool,
    ) -> Result<Vec<(i64, String)>, DbError> {
        let mut query = Query::new("SELECT id, ");
        query.push(self.db.pick("SUBSTR(CONVERT_TO(body, 'UTF8'), 1, CAST(", "SUBSTR(CAST(body AS BLOB), 1, CAST("));
        query.bind(MAX_FACT_TEXT_BYTES as i64).push(" AS INTEGER)) AS notes_head FROM releases WHERE repository_id = ");
        query.bind(repository).push(if with_drafts { "" } else { PUBLISHED });
        query.push(" AND id IN ").bind_list(ids.iter().copied());
        let rows: Vec<(i64, Option<Vec<u8>>)> = self.db.all(query.sql(), query.args()).await?;
        Ok(rows.into_iter().map(|(id, notes)| (id, whole_characters(notes.unwrap_or_default()))).collect())
    }

    /// The repository must be locked.
    pub(crate) async fn find_locked(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        key: &ReleaseKey,
    ) -> Result<Option<Release>, DbError> {
        let query = by_key(repository, key);
        tx.optional(query.sql(), query.args()).await
    }

    /// Fails with a violation of `tag_name` if a release of the repository has the tag.
    pub(crate) async fn check_tag_is_free(&self, repository: RepositoryId, tag_name: &str) -> Result<(), RepoError> {
        let holder: Option<(i64,)> = self.db.optional(TAG_HOLDER, &args![repository, tag_name]).await?;
        if holder.is_some() { Err(tag_is_taken()) } else { Ok(()) }
    }

    /// Like [`ReleaseTable::check_tag_is_free`], for a locked repository. The release with this id
    /// may have the tag.
    pub(crate) async fn check_tag_is_free_for(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        release_id: Option<i64>,
        tag_name: &str,
    ) -> Result<(), RepoError> {
        let holder: Option<(i64,)> = tx.optional(TAG_HOLDER, &args![repository, tag_name]).await?;
        if holder.is_some_and(|(id,)| Some(id) != release_id) { Err(tag_is_taken()) } else { Ok(()) }
    }

    /// Fails with [`RepoError::ReleaseLimit`] if the locked repository has no room for a release.
    pub(crate) async fn check_room(&self, tx: &mut Tx, repository: RepositoryId) -> Result<(), RepoError> {
        let (count,): (i64,) = tx.one(COUNT, &args![repository]).await?;
        if count >= MAX_RELEASES { Err(RepoError::ReleaseLimit { limit: MAX_RELEASES }) } else { Ok(()) }
    }

    /// Adds a release. `published_us` is zero for a draft.
    pub(crate) async fn insert(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        fields: &ReleaseFields,
        author: UserId,
        now_us: i64,
    ) -> Result<Release, RepoError> {
        self.check_room(tx, repository).await?;
        let args = args![
            repository,
            fields.tag_name.as_str(),
            fields.target.as_str(),
            fields.title.as_str(),
            fields.body.as_str(),
            fields.is_draft,
            fields.is_prerelease,
            author,
            now_us,
            if fields.is_draft { 0 } else { now_us },
        ];
        let inserted: Option<(i64,)> = tx.optional(INSERT, &args).await?;
        let (id,) = inserted.ok_or_else(tag_is_taken)?;
        if !fields.is_draft {
            self.count_published(tx, repository).await?;
        }
        self.find_locked(tx, repository, &ReleaseKey::Id(id)).await?.ok_or(RepoError::Interrupted)
    }

    /// Updates the number of published releases of the repository.
    pub(super) async fn count_published(&self, tx: &mut Tx, repository: RepositoryId) -> Result<(), DbError> {
        tx.execute_later(SET_COUNT, &args![repository]).await
    }

    /// Replaces the fields of a release.
    pub(crate) async fn update(
        &self,
        tx: &mut Tx,
        before: &Release,
        fields: &ReleaseFields,
        published_us: i64,
    ) -> Result<Release, RepoError> {
        let args = args![
            before.id,
            fields.tag_name.as_str(),
            fields.target.as_str(),
            fields.title.as_str(),
            fields.body.as_str(),
            fields.is_draft,
            fields.is_prerelease,
            published_us,
        ];
        tx.execute(UPDATE, &args).await.map_err(or_taken(tag_is_taken))?;
        let repository = RepositoryId(before.repository_id);
        if before.is_draft != fields.is_draft {
            self.count_published(tx, repository).await?;
        }
        self.find_locked(tx, repository, &ReleaseKey::Id(before.id)).await?.ok_or(RepoError::Interrupted)
    }
}

fn by_key(repository: RepositoryId, key: &ReleaseKey) -> Query {
    let mut query = Query::new(SELECT);
    query.push(" WHERE r.repository_id = ").bind(repository);
    match key {
        ReleaseKey::Id(id) => query.push(" AND r.id = ").bind(*id),
        ReleaseKey::Tag(name) => query.push(" AND r.tag_name = ").bind(name),
        ReleaseKey::Latest => query
            .push(" AND r.id = (SELECT id FROM releases WHERE repository_id = ")
            .bind(repository)
            .push(" AND NOT is_draft AND NOT is_prerelease ORDER BY published_us DESC, id DESC LIMIT 1)"),
    };
    query
}

fn tag_is_taken() -> RepoError {
    RepoError::field("tag_name", "taken", "already has a release")
}

#[cfg(test)]
mod tests;
