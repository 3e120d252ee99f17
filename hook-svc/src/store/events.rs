//! Events that hooks and feeds show. Facts from other services have already been split into them.
//!
//! Transactions that add or dispatch events of a repository lock its row first. So the ids of its
//! events are committed in order, and each event is dispatched once.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};

use ferrite_db::args;
use ferrite_db::{Db, DbError, Query, Tx, Value};
use ferrite_proto::events::Event;
use ferrite_proto::events::event::Fact;
use ferrite_proto::id::{HookId, RepositoryId, UserId};
use ferrite_proto::repo;
use prost::Message;
use sqlx_macros::FromRow;
use uuid::Uuid;

use super::kept_bytes::{self, EVENT_BYTES, GrownRepositories};
use crate::model::{BranchFilter, HookEvents, Owner, activity, texts};

/// Bounds the arguments of one statement to what both databases accept.
const MAX_INSERT_ROWS: usize = 500;
/// Longest stored payload of an event that no hook receives. Longer ones, which take much more room
/// than the push itself, are rendered at each read.
pub(crate) const MAX_UNSENT_PAYLOAD_BYTES: usize = 64 * 1024;

/// Locks the repository's row until the transaction ends.
const LOCK: &str = "INSERT INTO hook_repositories (repository_id, is_deleted) VALUES ($1, FALSE) \
     ON CONFLICT (repository_id) DO UPDATE SET is_deleted = hook_repositories.is_deleted RETURNING is_deleted";
const SET_SNAPSHOT: &str = "UPDATE hook_repositories SET snapshot = $2 WHERE repository_id = $1";
const SNAPSHOTS: &str =
    "SELECT repository_id, snapshot FROM hook_repositories WHERE snapshot IS NOT NULL AND repository_id IN ";
const IS_WANTED: &str = "SELECT EXISTS (SELECT 1 FROM hooks WHERE owner_kind = 2 AND owner_id = $1 AND is_active) \
     OR EXISTS (SELECT 1 FROM hooks WHERE owner_kind < 2 AND is_active)";
const INSERT: &str = "INSERT INTO events \
     (uuid, repository_id, source, name, fact, payload, is_dispatched, is_in_feed, created_us, trace_parent, bytes, happened_us, \
     text_issue_id, text_comment_id, text_review_id, user_id, activity) VALUES ";
/// Starts after a repository and source, so that one with many events does not hold up the others.
const UNDISPATCHED: &str = "SELECT id, uuid, repository_id, source, name, fact, payload, revision, \
     COALESCE(happened_us, created_us) AS happened_us FROM events \
     WHERE NOT is_dispatched AND (repository_id, source) > ($1, $2) AND source <> $3 ORDER BY repository_id, source, id LIMIT $4";
/// The hooks that receive the events of a repository: its own, those of its organization, and those
/// of the site. They cannot be deleted until the transaction ends.
const MATCHING_POSTGRES: &str = "SELECT id, owner_kind, owner_id, events, branch_filter, after_event_id, since_us FROM hooks WHERE is_active AND ((owner_kind = 2 AND owner_id = $1) \
     OR (owner_kind = 1 AND owner_id = $2) OR owner_kind = 0) ORDER BY owner_kind DESC, id FOR KEY SHARE";
const MATCHING_SQLITE: &str = "SELECT id, owner_kind, owner_id, events, branch_filter, after_event_id, since_us FROM hooks WHERE is_active AND ((owner_kind = 2 AND owner_id = $1) \
     OR (owner_kind = 1 AND owner_id = $2) OR owner_kind = 0) ORDER BY owner_kind DESC, id";
const MARK: &str = "UPDATE events SET is_dispatched = TRUE WHERE NOT is_dispatched AND id IN ";
const SET_PAYLOADS: &str = "UPDATE events SET payload = v.column2, bytes = bytes + v.column3 FROM (VALUES ";
const SET_PAYLOADS_WHERE: &str =
    ") AS v WHERE events.id = v.column1 AND events.revision = v.column4 AND payload IS NULL RETURNING id";
const LAST: &str = "SELECT COALESCE(MAX(id), 0) FROM events";

/// The service that an event came from. Events of one repository and source are delivered in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Source {
    Git,
    Issue,
    Repo,
    /// A test of a hook.
    Test,
}

impl Source {
    pub(crate) fn id(self) -> i64 {
        match self {
            Self::Git => 1,
            Self::Issue => 2,
            Self::Repo => 3,
            Self::Test => 4,
        }
    }

    fn from_id(id: i64) -> Self {
        match id {
            1 => Self::Git,
            2 => Self::Issue,
            3 => Self::Repo,
            _ => Self::Test,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct NewEvent {
    pub(crate) uuid: Uuid,
    pub(crate) repository: RepositoryId,
    pub(crate) source: Source,
    /// The user who caused it, or zero.
    pub(crate) user: UserId,
    pub(crate) name: &'static str,
    /// The fact, reduced to the part that this event shows.
    pub(crate) fact: Event,
    pub(crate) payload: Option<String>,
    /// Set if no hook wants it, or if the caller queues its deliveries.
    pub(crate) is_dispatched: bool,
    pub(crate) is_in_feed: bool,
    /// When it happened, by the clock of this service.
    pub(crate) happened_us: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredEvent {
    pub(crate) id: i64,
    pub(crate) uuid: String,
    pub(crate) repository: RepositoryId,
    pub(crate) source: Source,
    pub(crate) name: String,
    pub(crate) fact: Event,
    /// The native payload, once it has been rendered.
    pub(crate) payload: Option<String>,
    /// Increases when a text is removed from the event.
    pub(crate) revision: i64,
    /// When it happened, by the clock of this service.
    pub(crate) happened_us: i64,
}

impl StoredEvent {
    /// Whether the event is about a pull request, such as a comment on one.
    pub(crate) fn is_of_pull(&self) -> bool {
        let issue = match &self.fact.fact {
            Some(Fact::IssueUpdated(updated)) => updated.issue.as_ref(),
            Some(Fact::CommentChanged(changed)) => changed.issue.as_ref(),
            Some(Fact::PullReviewed(reviewed)) => reviewed.pull.as_ref(),
            _ => None,
        };
        issue.is_some_and(|issue| issue.pull_request.is_some())
    }
}

/// A freshly rendered payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadePayload<'a> {
    pub(crate) event_id: i64,
    /// The event's revision at rendering. If it has changed since, the payload is not stored.
    pub(crate) revision: i64,
    pub(crate) payload: &'a str,
}

/// A hook that may receive events.
#[derive(Clone, Debug)]
pub(crate) struct MatchingHook {
    pub(crate) id: HookId,
    pub(crate) owner: Owner,
    pub(crate) events: HookEvents,
    pub(crate) branch_filter: BranchFilter,
    /// The last event received before the hook was created or activated.
    after_event_id: i64,
    /// When the hook was created or activated.
    since_us: i64,
}

impl MatchingHook {
    /// Returns whether an event happened after the hook was created or activated.
    pub(crate) fn is_old_enough_for(&self, event: &StoredEvent) -> bool {
        event.id > self.after_event_id && event.happened_us >= self.since_us
    }
}

#[derive(Clone, Debug)]
pub(crate) struct EventTable {
    db: Db,
    grown: GrownRepositories,
}

#[derive(FromRow)]
pub(super) struct EventRow {
    id: i64,
    uuid: String,
    repository_id: i64,
    source: i64,
    name: String,
    fact: Vec<u8>,
    payload: Option<String>,
    revision: i64,
    happened_us: i64,
}

#[derive(FromRow)]
struct MatchingRow {
    id: i64,
    owner_kind: i64,
    owner_id: i64,
    events: String,
    branch_filter: String,
    after_event_id: i64,
    since_us: i64,
}

impl From<EventRow> for StoredEvent {
    fn from(row: EventRow) -> Self {
        let fact = Event::decode(row.fact.as_slice()).unwrap_or_else(|error| {
            tracing::error!(%error, event.id = row.id, "unreadable event");
            Event::default()
        });
        Self {
            id: row.id,
            uuid: row.uuid,
            repository: RepositoryId(row.repository_id),
            source: Source::from_id(row.source),
            name: row.name,
            fact,
            payload: row.payload,
            revision: row.revision,
            happened_us: row.happened_us,
        }
    }
}

/// Locks a repository's row until the transaction ends. Returns whether the repository was deleted.
pub(crate) async fn lock_repository(tx: &mut Tx, repository: RepositoryId) -> Result<bool, DbError> {
    let (is_deleted,): (bool,) = tx.one(LOCK, &args![repository]).await?;
    Ok(is_deleted)
}

/// Keeps the last state of a deleted repository, for events that are still to be delivered. Its row
/// must be locked.
pub(crate) async fn keep_snapshot(
    tx: &mut Tx,
    repository: RepositoryId,
    snapshot: &repo::Repository,
) -> Result<(), DbError> {
    tx.execute(SET_SNAPSHOT, &args![repository, snapshot.encode_to_vec()]).await.map(drop)
}

/// Returns whether any active hook might want events of a repository. Hooks of any organization
/// count, because the repository's is not known here.
pub(crate) async fn is_wanted(tx: &mut Tx, repository: RepositoryId) -> Result<bool, DbError> {
    let (is_wanted,): (bool,) = tx.one(IS_WANTED, &args![repository]).await?;
    Ok(is_wanted)
}

/// Stores events and returns their ids. Locks the rows of their repositories, where their bytes are
/// counted. A UUID that already exists is a violation.
pub(crate) async fn insert(tx: &mut Tx, new: &[NewEvent], now_us: i64) -> Result<Vec<i64>, DbError> {
    let mut ids = Vec::with_capacity(new.len());
    let mut added: BTreeMap<RepositoryId, i64> = BTreeMap::new();
    for chunk in new.chunks(MAX_INSERT_ROWS) {
        let mut query = Query::new(INSERT);
        for (index, event) in chunk.iter().enumerate() {
            let fact = event.fact.encode_to_vec();
            let bytes = event_bytes(&fact, event.payload.as_deref());
            *added.entry(event.repository).or_default() += bytes;
            query.push(if index == 0 { "(" } else { ", (" }).bind(event.uuid.to_string());
            query.push(", ").bind(event.repository).push(", ").bind(event.source.id());
            query.push(", ").bind(event.name).push(", ").bind(fact);
            query.push(", ").bind(event.payload.clone()).push(", ").bind(event.is_dispatched);
            query.push(", ").bind(event.is_in_feed).push(", ").bind(now_us);
            let trace_parent = Some(event.fact.trace_parent.clone()).filter(|text| !text.is_empty());
            query.push(", ").bind(trace_parent).push(", ").bind(bytes).push(", ").bind(event.happened_us);
            let texts = texts(&event.fact);
            query.push(", ").bind(texts.issue_id).push(", ").bind(texts.comment_id);
            query.push(", ").bind(texts.review_id).push(", ").bind(event.user);
            query.push(", ").bind(i64::from(i32::from(activity(event.name, &event.fact)))).push(")");
        }
        query.push(" RETURNING id");
        let rows: Vec<(i64,)> = tx.all(query.sql(), query.args()).await?;
        ids.extend(rows.into_iter().map(|(id,)| id));
    }
    for (repository, bytes) in added {
        kept_bytes::add(tx, repository, bytes).await?;
    }
    Ok(ids)
}

/// Returns the active hooks for a repository's events: first its own by id, then those of its
/// organization, then those of the site. They cannot be deleted until the transaction ends. Skips
/// hooks that cannot be read.
pub(crate) async fn matching_hooks(
    tx: &mut Tx,
    repository: RepositoryId,
    organization: Option<i64>,
) -> Result<Vec<MatchingHook>, DbError> {
    // No account has the id zero.
    let args = args![repository, organization.unwrap_or(0)];
    let rows: Vec<MatchingRow> = tx.all(tx.pick(MATCHING_POSTGRES, MATCHING_SQLITE), &args).await?;
    let hook = |row: MatchingRow| {
        let MatchingRow { id, owner_kind, owner_id, events, branch_filter, after_event_id, since_us } = row;
        let branch_filter = BranchFilter::from_column(branch_filter);
        let read = HookEvents::from_column(&events).zip(Owner::from_columns(owner_kind, owner_id));
        if read.is_none() {
            tracing::error!(hook.id = id, "unreadable owner or events of a hook; it receives no events");
        }
        read.map(|(events, owner)| MatchingHook {
            id: HookId(id),
            owner,
            events,
            branch_filter,
            after_event_id,
            since_us,
        })
    };
    Ok(rows.into_iter().filter_map(hook).collect())
}

/// Returns the id of the last stored event. Events stored by transactions that begin later have
/// greater ids.
pub(crate) async fn last_id(tx: &mut Tx) -> Result<i64, DbError> {
    let (id,): (i64,) = tx.one(LAST, &[]).await?;
    Ok(id)
}

/// Marks events as dispatched. Returns the current revisions of those that were not marked before.
/// The row of their repository must be locked.
pub(crate) async fn mark_dispatched(
    tx: &mut Tx,
    ids: impl IntoIterator<Item = i64>,
) -> Result<HashMap<i64, i64>, DbError> {
    let mut query = Query::new(MARK);
    query.bind_list(ids).push(" RETURNING id, revision");
    let rows: Vec<(i64, i64)> = tx.all(query.sql(), query.args()).await?;
    Ok(rows.into_iter().collect())
}

/// Stores payloads of events that have none, unless they are outdated. Returns the number of bytes,
/// which the caller adds to the count of the repository. Its row must be locked.
pub(crate) async fn set_payloads(tx: &mut Tx, payloads: &[MadePayload<'_>]) -> Result<i64, DbError> {
    if payloads.is_empty() {
        return Ok(0);
    }
    let mut query = Query::new(SET_PAYLOADS);
    query.bind_rows(payloads.iter().map(MadePayload::columns)).push(SET_PAYLOADS_WHERE);
    let rows: Vec<(i64,)> = tx.all(query.sql(), query.args()).await?;
    let stored: HashSet<i64> = rows.into_iter().map(|(id,)| id).collect();
    Ok(payloads.iter().filter(|made| stored.contains(&made.event_id)).map(MadePayload::bytes).sum())
}

/// Returns the counted size of an event.
pub(super) fn event_bytes(fact: &[u8], payload: Option<&str>) -> i64 {
    (EVENT_BYTES + fact.len() + payload.map_or(0, str::len)) as i64
}

impl MadePayload<'_> {
    fn bytes(&self) -> i64 {
        self.payload.len() as i64
    }

    fn columns(&self) -> [Value; 4] {
        args![self.event_id, self.payload, self.bytes(), self.revision]
    }
}

impl EventTable {
    pub(crate) fn new(db: Db) -> Self {
        Self { db, grown: GrownRepositories::default() }
    }

    pub(crate) fn grown(&self) -> &GrownRepositories {
        &self.grown
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Returns at most `limit` undispatched events of the repositories and sources after `after`,
    /// grouped by repository and source, each group in order. Skips the source `without`.
    pub(crate) async fn undispatched(
        &self,
        after: Option<(RepositoryId, Source)>,
        without: Option<Source>,
        limit: i64,
    ) -> Result<Vec<StoredEvent>, DbError> {
        let (repository, source) = after.map_or((0, 0), |(repository, source)| (repository.0, source.id()));
        let args = args![repository, source, without.map_or(0, Source::id), limit];
        let rows: Vec<EventRow> = self.db.all(UNDISPATCHED, &args).await?;
        Ok(rows.into_iter().map(StoredEvent::from).collect())
    }

    /// Returns the last states of those repositories that were deleted.
    pub(crate) async fn snapshots(
        &self,
        repositories: &[RepositoryId],
    ) -> Result<HashMap<RepositoryId, repo::Repository>, DbError> {
        if repositories.is_empty() {
            return Ok(HashMap::new());
        }
        let mut query = Query::new(SNAPSHOTS);
        query.bind_list(repositories.iter().copied());
        let rows: Vec<(i64, Vec<u8>)> = self.db.all(query.sql(), query.args()).await?;
        let read = |(id, bytes): (i64, Vec<u8>)| {
            let snapshot = repo::Repository::decode(bytes.as_slice()).ok()?;
            Some((RepositoryId(id), snapshot))
        };
        Ok(rows.into_iter().filter_map(read).collect())
    }
}
