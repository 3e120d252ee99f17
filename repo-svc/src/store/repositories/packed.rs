//! Rows of repositories that SQLite returns as one value: a JSON array with an array per row.
//!
//! The driver copies every value of every row on SQLite's thread, and hands over rows one by one.
//! For a page of fifty rows with sixty columns this takes several times as long as writing JSON in
//! SQLite and reading it with serde.

use std::fmt;

use ferrite_db::DbError;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use super::Repository;
use crate::model::PullSettings;

/// Begins a query that returns the rows of a subquery as one value; the subquery follows. Keeps its
/// order.
pub(in crate::store) const PACKED: &str = "json_group_array(json_array(id, name, description, website, is_private, is_mirror, is_empty, language, \
     is_issues_enabled, is_external_tracker, external_tracker_url, tracker_url_format, tracker_issue_style, is_archived, \
     is_wiki_enabled, is_wiki_public, is_external_wiki, external_wiki_url, topics, parent_id, mirror_interval_secs, \
     mirror_last_sync_us, mirror_next_sync_us, mirror_error, default_branch, size_bytes, star_count, fork_count, watcher_count, \
     open_issue_count, open_pull_count, release_count, archived_us, has_pulls, allow_merge, allow_rebase, allow_rebase_merge, \
     allow_squash, allow_fast_forward_only, allow_rebase_update, delete_branch_after_merge, detects_manual_merges, allow_manual_merge, \
     default_merge_style, original_url, created_us, updated_us, owner_id, owner_name, owner_full_name, owner_email, owner_kind, owner_is_admin, owner_visibility, store, \
     epoch, collaborator, is_parent_hidden, team_level, is_member)) AS packed FROM (";

/// Decodes the value of a query with [`PACKED`].
pub(in crate::store) fn unpack(packed: &str) -> Result<Vec<Repository>, DbError> {
    let rows: Vec<Packed> = serde_json::from_str(packed).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(rows.into_iter().map(|Packed(row)| row).collect())
}

/// A row as an array of values.
struct Packed(Repository);

impl<'de> Deserialize<'de> for Packed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PackedVisitor)
    }
}

struct PackedVisitor;

impl<'de> Visitor<'de> for PackedVisitor {
    type Value = Packed;

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("the values of a repository")
    }

    /// Reads the values in the order of [`PACKED`].
    fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Packed, A::Error> {
        let mut values = Values(values);
        let row = Repository {
            id: values.next()?,
            name: values.next()?,
            description: values.next()?,
            website: values.next()?,
            is_private: values.flag()?,
            is_mirror: values.flag()?,
            is_empty: values.flag()?,
            language: values.next()?,
            is_issues_enabled: values.flag()?,
            is_external_tracker: values.flag()?,
            external_tracker_url: values.next()?,
            tracker_url_format: values.next()?,
            tracker_issue_style: values.next()?,
            is_archived: values.flag()?,
            is_wiki_enabled: values.flag()?,
            is_wiki_public: values.flag()?,
            is_external_wiki: values.flag()?,
            external_wiki_url: values.next()?,
            topics: values.next()?,
            parent_id: values.next()?,
            mirror_interval_secs: values.next()?,
            mirror_last_sync_us: values.next()?,
            mirror_next_sync_us: values.next()?,
            mirror_error: values.next()?,
            default_branch: values.next()?,
            size_bytes: values.next()?,
            star_count: values.next()?,
            fork_count: values.next()?,
            watcher_count: values.next()?,
            open_issue_count: values.next()?,
            open_pull_count: values.next()?,
            release_count: values.next()?,
            archived_us: values.next()?,
            pulls: PullSettings {
                has_pulls: values.flag()?,
                allow_merge: values.flag()?,
                allow_rebase: values.flag()?,
                allow_rebase_merge: values.flag()?,
                allow_squash: values.flag()?,
                allow_fast_forward_only: values.flag()?,
                allow_rebase_update: values.flag()?,
                delete_branch_after_merge: values.flag()?,
                detects_manual_merges: values.flag()?,
                allow_manual_merge: values.flag()?,
                default_merge_style: values.next()?,
            },
            original_url: values.next()?,
            created_us: values.next()?,
            updated_us: values.next()?,
            owner_id: values.next()?,
            owner_name: values.next()?,
            owner_full_name: values.next()?,
            owner_email: values.next()?,
            owner_kind: values.next()?,
            owner_is_admin: values.flag()?,
            owner_visibility: values.next()?,
            store: values.next()?,
            epoch: values.next()?,
            collaborator: values.next()?,
            is_parent_hidden: values.flag()?,
            team_level: values.next()?,
            is_member: values.flag()?,
            parent: None,
        };
        Ok(Packed(row))
    }
}

/// The values of a row that are not yet read.
struct Values<A>(A);

impl<'de, A: SeqAccess<'de>> Values<A> {
    fn next<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        self.0.next_element()?.ok_or_else(|| A::Error::custom("missing value in row"))
    }

    /// SQLite stores booleans as numbers.
    fn flag(&mut self) -> Result<bool, A::Error> {
        Ok(self.next::<i64>()? != 0)
    }
}
