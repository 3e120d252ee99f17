//! Claims on tag names. One request at a time claims a tag name of a repository, and only that
//! request may write a release that has or gets the name. So a request that loses creates no tag,
//! and the tag of a release has the target of the request that wrote it. The tag is created between
//! two transactions. Claims left by a crash expire.

use std::collections::BTreeSet;

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::RepositoryId;

use super::releases::ReleaseTable;

/// Older claims count as left by a crash. So do claims from further in the future, which come from
/// a wrong clock.
const MAX_AGE_US: i64 = 60 * 1_000_000;
/// Time limit for creating the tag of a claim. The rest of [`MAX_AGE_US`] allows for clocks that
/// differ.
const TAG_AGE_US: i64 = 40 * 1_000_000;
const FIND: &str = "SELECT claimed_us FROM tag_claims WHERE repository_id = $1 \
     AND (tag_name = $2 OR tag_name = (SELECT tag_name FROM releases WHERE repository_id = $1 AND id = $3)) \
     AND claimed_us > $4 AND claimed_us <= $5 LIMIT 1";
const CLAIM: &str = "INSERT INTO tag_claims (repository_id, tag_name, claimed_us) VALUES ($1, $2, $3) \
     ON CONFLICT (repository_id, tag_name) DO UPDATE SET claimed_us = excluded.claimed_us";
const FIND_USE: &str = "SELECT id FROM releases WHERE repository_id = $1 AND tag_name = $2 \
     UNION ALL SELECT claimed_us FROM tag_claims WHERE repository_id = $1 AND tag_name = $2 AND claimed_us > $3 AND claimed_us <= $4 \
     LIMIT 1";
const END: &str = "DELETE FROM tag_claims WHERE repository_id = $1 AND tag_name = $2 AND claimed_us = $3";

/// The claim of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagClaim {
    repository: RepositoryId,
    tag_names: BTreeSet<String>,
    claimed_us: i64,
}

impl TagClaim {
    /// After this time the tag must not be created, because the claim may be considered lost.
    pub(crate) fn tag_deadline_us(&self) -> i64 {
        self.claimed_us + TAG_AGE_US
    }
}

impl ReleaseTable {
    /// Whether a request has claimed this tag name, or that of the release. The repository must be
    /// locked.
    pub(crate) async fn is_claimed(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        release_id: Option<i64>,
        tag_name: Option<&str>,
        now_us: i64,
    ) -> Result<bool, DbError> {
        let args = args![repository, tag_name, release_id, now_us - MAX_AGE_US, now_us + MAX_AGE_US];
        let claim: Option<(i64,)> = tx.optional(FIND, &args).await?;
        Ok(claim.is_some())
    }

    /// Whether a release or a draft has this tag, or a request has claimed it. One statement, because
    /// the transaction that ends a claim also writes the release.
    pub(crate) async fn is_tag_in_use(
        &self,
        repository: RepositoryId,
        tag_name: &str,
        now_us: i64,
    ) -> Result<bool, DbError> {
        let args = args![repository, tag_name, now_us - MAX_AGE_US, now_us + MAX_AGE_US];
        let found: Option<(i64,)> = self.db.optional(FIND_USE, &args).await?;
        Ok(found.is_some())
    }

    /// Claims tag names of the locked repository that [are not claimed](Self::is_claimed).
    pub(crate) async fn claim(
        &self,
        tx: &mut Tx,
        repository: RepositoryId,
        tag_names: BTreeSet<String>,
        now_us: i64,
    ) -> Result<TagClaim, DbError> {
        for tag_name in &tag_names {
            tx.execute(CLAIM, &args![repository, tag_name, now_us]).await?;
        }
        Ok(TagClaim { repository, tag_names, claimed_us: now_us })
    }

    /// Returns `false` if the claim was taken over.
    pub(crate) async fn end_claim(&self, tx: &mut Tx, claim: &TagClaim) -> Result<bool, DbError> {
        let mut is_whole = true;
        for tag_name in &claim.tag_names {
            is_whole &= tx.execute(END, &args![claim.repository, tag_name, claim.claimed_us]).await? == 1;
        }
        Ok(is_whole)
    }
}
