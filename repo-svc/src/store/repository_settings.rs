//! The settings of repositories and issue trackers, which are columns of the repository, and the
//! change of a repository's owner.

use ferrite_db::args;
use ferrite_db::{DbError, Tx};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_rpc::auth::AuthError;

use super::quotas::{self, OwnerLimits, UsageChanges};
use super::repositories::{Repository, RepositoryTable, lock_owner};
use super::repository_links;
use super::sql::{Locking, locking, or_taken};
use crate::error::RepoError;
use crate::model::{Feature, IssueTracker, PullSettings, RepositorySettings, TrackerStyle};

const LOCK: Locking = locking!(
    "SELECT owner_id, name, description, website, is_private, is_archived, is_issues_enabled, is_external_tracker, \
     is_wiki_enabled, is_external_wiki, has_pulls, allow_merge, allow_rebase, allow_rebase_merge, allow_squash, \
     allow_fast_forward_only, allow_rebase_update, delete_branch_after_merge, detects_manual_merges, \
     allow_manual_merge, default_merge_style \
     FROM repositories WHERE id = $1 AND state = 'ready'",
    " FOR NO KEY UPDATE"
);
const UPDATE: &str = "UPDATE repositories SET name = $2, name_key = $3, description = $4, description_key = $5, website = $6, \
     is_private = $7, is_archived = $8, archived_us = CASE WHEN NOT $8 THEN 0 WHEN is_archived THEN archived_us ELSE $9 END, \
     updated_us = CASE WHEN updated_us < $9 THEN $9 ELSE updated_us END, is_issues_enabled = $10, is_external_tracker = $11, \
     is_wiki_enabled = $12, is_external_wiki = $13, has_pulls = $14, allow_merge = $15, allow_rebase = $16, \
     allow_rebase_merge = $17, allow_squash = $18, allow_fast_forward_only = $19, allow_rebase_update = $20, \
     delete_branch_after_merge = $21, detects_manual_merges = $22, allow_manual_merge = $23, default_merge_style = $24 \
     WHERE id = $1";
const SET_MIRROR_INTERVAL: &str = "UPDATE repositories SET mirror_interval_secs = $2 WHERE id = $1 AND is_mirror";
const OTHER_OF_NAME: &str = "SELECT id FROM repositories WHERE owner_id = $1 AND name_key = $2 AND id <> $3";
const PARENT_IS_HIDDEN: &str = "SELECT (p.is_private OR o.visibility > 0) FROM repositories r \
     JOIN repositories p ON p.id = r.parent_id JOIN users o ON o.id = p.owner_id WHERE r.id = $1";
const SET_OWNER: &str = "UPDATE repositories SET owner_id = $2, updated_us = CASE WHEN updated_us < $3 THEN $3 ELSE updated_us END \
     WHERE id = $1";
const REMOVE_COLLABORATOR: &str = "DELETE FROM collaborators WHERE repository_id = $1 AND user_id = $2";
const REMOVE_TEAMS: &str = "DELETE FROM team_repositories WHERE repository_id = $1";
const LOCK_TRACKER: Locking = locking!(
    "SELECT is_issues_enabled, is_external_tracker, external_tracker_url, tracker_url_format, tracker_issue_style \
     FROM repositories WHERE id = $1 AND state = 'ready'",
    " FOR NO KEY UPDATE"
);
const UPDATE_TRACKER: &str = "UPDATE repositories SET is_issues_enabled = $2, is_external_tracker = $3, external_tracker_url = $4, \
     tracker_url_format = $5, tracker_issue_style = $6, updated_us = CASE WHEN updated_us < $7 THEN $7 ELSE updated_us END \
     WHERE id = $1";

#[derive(Debug, sqlx_macros::FromRow)]
struct SettingsRow {
    owner_id: i64,
    name: String,
    description: String,
    website: String,
    is_private: bool,
    is_archived: bool,
    is_issues_enabled: bool,
    is_external_tracker: bool,
    is_wiki_enabled: bool,
    is_external_wiki: bool,
    #[sqlx(flatten)]
    pulls: PullSettings,
}

impl RepositoryTable {
    /// Whether the owner has a repository with that folded name other than `id`, finished or not.
    pub(crate) async fn is_name_taken(&self, owner: UserId, name_key: &str, id: RepositoryId) -> Result<bool, DbError> {
        let other: Option<(i64,)> = self.db.optional(OTHER_OF_NAME, &args![owner, name_key, id]).await?;
        Ok(other.is_some())
    }

    /// Returns the owner and settings of a repository, and locks it like [`RepositoryTable::lock`];
    /// `None` if it was deleted.
    pub(crate) async fn lock_settings(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
    ) -> Result<Option<(UserId, RepositorySettings)>, DbError> {
        let row: Option<SettingsRow> = tx.optional(LOCK.sql(tx), &args![id]).await?;
        Ok(row.map(|row| {
            let settings = RepositorySettings {
                name: row.name,
                description: row.description,
                website: row.website,
                is_private: row.is_private,
                is_archived: row.is_archived,
                issues: Feature { is_enabled: row.is_issues_enabled, is_external: row.is_external_tracker },
                wiki: Feature { is_enabled: row.is_wiki_enabled, is_external: row.is_external_wiki },
                pulls: row.pulls,
            };
            (UserId(row.owner_id), settings)
        }))
    }

    /// Replaces the settings of a locked repository (`before`) and updates its time of last update.
    /// A former name redirects here. Fails if a fork of a hidden repository would become public.
    pub(crate) async fn set_settings(
        &self,
        tx: &mut Tx,
        repository: &Repository,
        before: &RepositorySettings,
        after: &RepositorySettings,
        now_us: i64,
    ) -> Result<(), RepoError> {
        let (id, owner) = (repository.id(), UserId(repository.owner_id));
        if before.is_private && !after.is_private {
            let parent: Option<(bool,)> = tx.optional(PARENT_IS_HIDDEN, &args![id]).await?;
            if parent.is_some_and(|(is_hidden,)| is_hidden) {
                let message = "a fork of a repository that is not public must stay private";
                return Err(RepoError::field("private", "invalid", message));
            }
        }
        let (name_key, description_key) = (after.name_key(), after.description.to_lowercase());
        let args = args![
            id,
            after.name.as_str(),
            name_key.as_str(),
            after.description.as_str(),
            description_key.as_str(),
            after.website.as_str(),
            after.is_private,
            after.is_archived,
            now_us,
            after.issues.is_enabled,
            after.issues.is_external,
            after.wiki.is_enabled,
            after.wiki.is_external,
            after.pulls.has_pulls,
            after.pulls.allow_merge,
            after.pulls.allow_rebase,
            after.pulls.allow_rebase_merge,
            after.pulls.allow_squash,
            after.pulls.allow_fast_forward_only,
            after.pulls.allow_rebase_update,
            after.pulls.delete_branch_after_merge,
            after.pulls.detects_manual_merges,
            after.pulls.allow_manual_merge,
            after.pulls.default_merge_style.as_str(),
        ];
        let taken = || RepoError::repository_exists("name", &repository.owner_name, &after.name);
        tx.execute(UPDATE, &args).await.map_err(or_taken(taken))?;
        if before.name_key() != name_key {
            let (former, present) = (before.name_key(), name_key.as_str());
            repository_links::move_name(tx, id, (owner, &former), (owner, present), now_us).await?;
        }
        if before.name_key() != name_key || before.description != after.description {
            self.unindex(tx, id).await?;
            self.index(tx, id.0, &name_key, &description_key).await?;
        }
        Ok(())
    }

    /// Sets the interval of a locked repository if it is a mirror. The state of the mirror that the
    /// store tells next replaces it.
    pub(crate) async fn set_mirror_interval(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        interval_secs: i64,
    ) -> Result<(), DbError> {
        tx.execute(SET_MIRROR_INTERVAL, &args![id, interval_secs]).await.map(drop)
    }

    /// Returns the settings of an issue tracker, and locks the repository like
    /// [`RepositoryTable::lock`]; `None` if it was deleted.
    pub(crate) async fn lock_issue_tracker(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
    ) -> Result<Option<IssueTracker>, DbError> {
        let row: Option<(bool, bool, String, String, String)> = tx.optional(LOCK_TRACKER.sql(tx), &args![id]).await?;
        Ok(row.map(|(is_enabled, is_external, url, format, style)| {
            let is_alphanumeric = style == TrackerStyle::Alphanumeric.as_str();
            let style = if is_alphanumeric { TrackerStyle::Alphanumeric } else { TrackerStyle::Numeric };
            IssueTracker { is_enabled, is_external, url, format, style }
        }))
    }

    /// Replaces the issue tracker settings of a locked repository and updates its time of last
    /// update.
    pub(crate) async fn set_issue_tracker(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        tracker: &IssueTracker,
        now_us: i64,
    ) -> Result<(), DbError> {
        let args = args![
            id,
            tracker.is_enabled,
            tracker.is_external,
            tracker.url.as_str(),
            tracker.format.as_str(),
            tracker.style.as_str(),
            now_us,
        ];
        tx.execute(UPDATE_TRACKER, &args).await.map(drop)
    }

    /// Gives a repository to another account and locks both. Collaborators stay, except the new
    /// owner. The old owner's teams lose the repository. The former name redirects here. Returns
    /// the old owner. Fails if the new owner would exceed its own limits, or else `limits`.
    pub(crate) async fn set_owner(
        &self,
        tx: &mut Tx,
        id: RepositoryId,
        (new_owner, new_owner_name): (UserId, &str),
        limits: OwnerLimits,
        now_us: i64,
    ) -> Result<UserId, RepoError> {
        // Lock the owner before the repository, like creations do.
        lock_owner(tx, new_owner, limits).await?;
        let (former, settings) = self.lock_settings(tx, id).await?.ok_or(AuthError::RepositoryNotFound)?;
        let stored = quotas::stored_bytes(tx, id).await?;
        quotas::find_in(tx, new_owner).await?.check_bytes(limits, stored)?;
        let moved = tx.execute(SET_OWNER, &args![id, new_owner, now_us]).await;
        moved.map_err(or_taken(|| RepoError::repository_exists("new_owner", new_owner_name, &settings.name)))?;
        let name_key = settings.name_key();
        repository_links::move_name(tx, id, (former, &name_key), (new_owner, &name_key), now_us).await?;
        tx.execute(REMOVE_COLLABORATOR, &args![id, new_owner]).await?;
        tx.execute(REMOVE_TEAMS, &args![id]).await?;
        let mut usage = UsageChanges::default();
        usage.add(former, -stored);
        usage.add(new_owner, stored);
        usage.write(tx).await?;
        Ok(former)
    }
}
