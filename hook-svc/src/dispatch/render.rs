//! Renders the payloads of a batch of events. Looks up what they need with one call per service.

use std::collections::{BTreeSet, HashMap, HashSet};

use ferrite_api_types::Accounts;
use ferrite_api_types::links::Links;
use ferrite_db::DbError;
use ferrite_proto::git::{DescribeUpdatesResponse, UpdateDescription};
use ferrite_proto::id::RepositoryId;
use ferrite_proto::repo;
use futures_util::{StreamExt, stream};
use prost_types::Timestamp;
use tonic::{Code, Status};

use super::facts;
use crate::model::Owner;
use crate::payload::PayloadError;
use crate::payload::limits::{CUTS, MAX_COMMITS};
use crate::payload::native::{self, Context};
use crate::payload::redact::marked;
use crate::store::events::{EventTable, Source, StoredEvent};
use crate::upstream::{DescriptionLimits, MAX_QUESTION_UPDATES, Upstream};

/// Concurrent calls to git-svc.
const MAX_CONCURRENT_DESCRIPTIONS: usize = 8;

const DESCRIPTION_LIMITS: DescriptionLimits =
    DescriptionLimits { commits: MAX_COMMITS, paths: CUTS[0].paths, message_bytes: CUTS[0].message_bytes };

/// The events of one repository and source, which are delivered in order.
pub(crate) type Stream = (RepositoryId, Source);

/// An error that affects the whole batch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    #[error("call to repo-svc failed")]
    Repo(#[source] Box<Status>),
    #[error("call to git-svc failed")]
    Git(#[source] Box<Status>),
    #[error("repository not found")]
    RepositoryUnknown,
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("database error")]
    Store(#[from] DbError),
}

/// An error that affects one stream. A later attempt may succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamFailure {
    /// repo-svc does not know the repository, and its deletion has not been reported yet.
    #[error("repository not found")]
    RepositoryUnknown,
    #[error("git-svc is unavailable")]
    GitUnavailable,
    #[error("git-svc failed with code {0:?}")]
    Git(Code),
}

/// The payloads of a batch.
#[derive(Debug, Default)]
pub(crate) struct Rendering {
    /// The owners of the batch's repositories that are organizations.
    pub(crate) organizations: HashMap<RepositoryId, i64>,
    /// Repositories with a disabled issue tracker. Nobody may read their issues.
    without_issues: HashSet<RepositoryId>,
    /// Repositories with disabled pull requests, which nobody may read either.
    without_pulls: HashSet<RepositoryId>,
    /// The forks in the batch, by event id.
    forks: HashMap<i64, Fork>,
    /// Payloads by event id. An error is permanent.
    pub(crate) payloads: HashMap<i64, Result<String, PayloadError>>,
    /// Streams to try again later.
    pub(crate) failures: HashMap<Stream, StreamFailure>,
}

/// The current state of a fork.
#[derive(Clone, Copy, Debug)]
struct Fork {
    /// Private, or owned by an organization that only its members may see.
    is_hidden: bool,
    /// The owner, if it is an organization.
    organization: Option<i64>,
}

impl Rendering {
    /// Returns whether the hooks of an owner may receive an event. Nobody may read the issues of a
    /// disabled tracker, or pull requests that are off. A private fork, and one of a private
    /// organization, is visible to its owners and to site administrators, but not to the owners of the
    /// repository it was forked from.
    pub(super) fn may_be_told(&self, event: &StoredEvent, owner: Owner) -> bool {
        let without = if event.is_of_pull() { &self.without_pulls } else { &self.without_issues };
        if event.source == Source::Issue && without.contains(&event.repository) {
            return false;
        }
        match (self.forks.get(&event.id), owner) {
            (None, _) | (_, Owner::Site) => true,
            (Some(fork), Owner::Organization(id)) => !fork.is_hidden || fork.organization == Some(id),
            (Some(fork), Owner::Repository(_)) => !fork.is_hidden,
        }
    }
}

/// Renders native payloads.
#[derive(Clone, Debug)]
pub(crate) struct Renderer {
    store: EventTable,
    upstream: Upstream,
    links: Links,
}

/// Descriptions of one repository's pushes, by event id.
type Descriptions = Result<HashMap<i64, UpdateDescription>, Status>;

impl Renderer {
    pub(crate) fn new(store: EventTable, upstream: Upstream, links: Links) -> Self {
        Self { store, upstream, links }
    }

    /// Renders the payloads of events. If `is_last` is true for a stream, its payloads are rendered
    /// without what cannot be looked up, unless git-svc is down. Fails if repo-svc or the database
    /// does.
    pub(crate) async fn render(
        &self,
        events: &[StoredEvent],
        is_last: impl Fn(Stream) -> bool,
    ) -> Result<Rendering, RenderError> {
        let repositories = self.repositories(events).await?;
        let descriptions = self.descriptions(events, &repositories).await;
        let accounts = self.accounts(events, &descriptions).await?;
        let mut rendering = Rendering::default();
        for event in events {
            let stream = (event.repository, event.source);
            let known = repositories.get(&event.repository).or_else(|| facts::own_snapshot(event));
            let repository = match known {
                Some(repository) => repository.clone(),
                None if is_last(stream) => unknown_repository(event.repository),
                None => {
                    rendering.failures.insert(stream, StreamFailure::RepositoryUnknown);
                    continue;
                }
            };
            if let Some(id) = organization_of(&repository) {
                rendering.organizations.insert(event.repository, id);
            }
            if !repository.has_issues {
                rendering.without_issues.insert(event.repository);
            }
            if repository.pulls.as_ref().is_some_and(|pulls| !pulls.has_pulls) {
                rendering.without_pulls.insert(event.repository);
            }
            if let Some(told) = facts::told_fork(event) {
                let fork = repositories.get(&RepositoryId(told.id)).unwrap_or(told);
                let is_hidden = fork.is_private || fork.owner_visibility() == repo::Visibility::Private;
                let fork = Fork { is_hidden, organization: organization_of(fork) };
                rendering.forks.insert(event.id, fork);
            }
            let description = match describe(event, &descriptions, is_last(stream)) {
                Ok(description) => description,
                Err(failure) => {
                    rendering.failures.insert(stream, failure);
                    continue;
                }
            };
            let payload = match &event.payload {
                Some(payload) => Ok(payload.clone()),
                None => {
                    let head = facts::head_repository(event).filter(|head| *head != event.repository);
                    let head = head.and_then(|id| repositories.get(&id)).filter(|head| is_open(head));
                    let payload = facts::payload(event, repository, &accounts, &self.links, description, head);
                    if event.revision > 0 { payload.map(|payload| marked(&payload)) } else { payload }
                }
            };
            rendering.payloads.insert(event.id, payload);
        }
        // Keep the order: drop later events of a failed stream.
        let Rendering { payloads, failures, .. } = &mut rendering;
        let held_back = events.iter().filter(|event| failures.contains_key(&(event.repository, event.source)));
        for event in held_back {
            payloads.remove(&event.id);
        }
        Ok(rendering)
    }

    /// Returns the event name and payload of a test of a repository's hook: a push of the newest
    /// commit on the default branch, or a ping if there is none.
    pub(crate) async fn test_payload(
        &self,
        repository: RepositoryId,
        sender_id: i64,
    ) -> Result<(&'static str, String), RenderError> {
        let found =
            self.upstream.repositories(&[repository]).await.map_err(|status| RenderError::Repo(status.into()))?;
        let found = found.into_values().next().ok_or(RenderError::RepositoryUnknown)?;
        let described =
            self.upstream.describe_updates(repository, &found.store, Vec::new(), DESCRIPTION_LIMITS, true).await;
        let head = described.map_err(|status| RenderError::Git(status.into()))?.head;
        let emails = facts::emails(head.iter().filter_map(|head| head.commit.as_ref()));
        let accounts = self.lookup(&[sender_id], &emails).await?;
        let context = Context::new(found, sender_id, &accounts, &self.links).map_err(PayloadError::from)?;
        match head.as_ref().and_then(|head| Some((head, head.commit.as_ref()?))) {
            Some((head, commit)) => Ok(("push", facts::head_payload(&context, &head.branch, &head.parent_id, commit)?)),
            None => Ok(("ping", native::ping(&context)?)),
        }
    }

    /// Returns the event name and payload of a test of a hook without a repository.
    pub(crate) async fn site_test_payload(&self, sender_id: i64) -> Result<(&'static str, String), RenderError> {
        let accounts = self.lookup(&[sender_id], &[]).await?;
        Ok(("ping", native::site_ping(sender_id, &accounts, &self.links)?))
    }

    /// Returns the repositories of events. Deleted ones are returned as they were, but without a
    /// git store.
    async fn repositories(
        &self,
        events: &[StoredEvent],
    ) -> Result<HashMap<RepositoryId, repo::Repository>, RenderError> {
        let forks = events.iter().filter_map(facts::told_fork).map(|fork| RepositoryId(fork.id));
        let heads = events.iter().filter_map(facts::head_repository);
        let ids: BTreeSet<_> = events.iter().map(|event| event.repository).chain(forks).chain(heads).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let mut found = self.upstream.repositories(&ids).await.map_err(|status| RenderError::Repo(status.into()))?;
        let gone: Vec<_> = ids.into_iter().filter(|id| !found.contains_key(id)).collect();
        let snapshots = self.store.snapshots(&gone).await?;
        let without_store = |gone| repo::Repository { store: String::new(), ..gone };
        found.extend(snapshots.into_iter().map(|(id, gone)| (id, without_store(gone))));
        Ok(found)
    }

    /// Gets the commits of pushes that have no payload yet.
    async fn descriptions(
        &self,
        events: &[StoredEvent],
        repositories: &HashMap<RepositoryId, repo::Repository>,
    ) -> HashMap<RepositoryId, Descriptions> {
        let mut asked: HashMap<RepositoryId, Vec<_>> = HashMap::new();
        for event in events.iter().filter(|event| event.payload.is_none()) {
            if let Some(update) = facts::described_update(event) {
                asked.entry(event.repository).or_default().push((event.id, update));
            }
        }
        let ask = |(repository, updates): (RepositoryId, Vec<(i64, _)>)| async move {
            let mut found = HashMap::new();
            for updates in updates.chunks(MAX_QUESTION_UPDATES) {
                let (ids, updates): (Vec<_>, Vec<_>) = updates.iter().cloned().unzip();
                let store = repositories.get(&repository).map_or("", |found| &found.store);
                match self.upstream.describe_updates(repository, store, updates, DESCRIPTION_LIMITS, false).await {
                    Ok(DescribeUpdatesResponse { updates, .. }) => found.extend(ids.into_iter().zip(updates)),
                    Err(status) => return (repository, Err(status)),
                }
            }
            (repository, Ok(found))
        };
        stream::iter(asked).map(ask).buffer_unordered(MAX_CONCURRENT_DESCRIPTIONS).collect().await
    }

    async fn accounts(
        &self,
        events: &[StoredEvent],
        descriptions: &HashMap<RepositoryId, Descriptions>,
    ) -> Result<Accounts, RenderError> {
        let ids: BTreeSet<_> = events.iter().flat_map(facts::account_ids).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let described = descriptions.values().flatten().flat_map(HashMap::values);
        let mut emails = facts::emails(described.flat_map(|update| update.commits.iter().chain(&update.head)));
        emails.extend(facts::emails_of_statuses(events));
        self.lookup(&ids, &emails).await
    }

    async fn lookup(&self, ids: &[i64], emails: &[String]) -> Result<Accounts, RenderError> {
        let mut accounts = Accounts::default();
        if ids.is_empty() && emails.is_empty() {
            return Ok(accounts);
        }
        let found = self.upstream.accounts(ids, emails).await.map_err(|status| RenderError::Repo(status.into()))?;
        for found in found {
            accounts.add(found, &self.links);
        }
        Ok(accounts)
    }
}

/// Whether a repository exists and everybody may see it.
fn is_open(repository: &repo::Repository) -> bool {
    let is_owner_hidden =
        matches!(repository.owner_visibility(), repo::Visibility::Limited | repo::Visibility::Private);
    // Deleted ones have no store.
    !repository.store.is_empty() && !repository.is_private && !is_owner_hidden
}

fn organization_of(repository: &repo::Repository) -> Option<i64> {
    repository.owner.as_ref().filter(|owner| owner.is_organization).map(|owner| owner.id)
}

/// Returns the description of a push. `None` for other events and for missing commits.
fn describe<'a>(
    event: &StoredEvent,
    descriptions: &'a HashMap<RepositoryId, Descriptions>,
    is_last: bool,
) -> Result<Option<&'a UpdateDescription>, StreamFailure> {
    if event.payload.is_some() || facts::described_update(event).is_none() {
        return Ok(None);
    }
    match descriptions.get(&event.repository) {
        Some(Ok(found)) => Ok(found.get(&event.id)),
        Some(Err(status)) => match status.code() {
            Code::NotFound => Ok(None),
            Code::Unavailable | Code::ResourceExhausted => Err(StreamFailure::GitUnavailable),
            _ if is_last => Ok(None),
            code => Err(StreamFailure::Git(code)),
        },
        None => Ok(None),
    }
}

/// Stands in for a repository that no service knows.
fn unknown_repository(id: RepositoryId) -> repo::Repository {
    let owner = repo::User { username: "ghost".to_owned(), ..repo::User::default() };
    let time = Some(Timestamp::default());
    repo::Repository {
        id: id.0,
        owner: Some(owner),
        name: "deleted".to_owned(),
        create_time: time,
        update_time: time,
        has_issues: true,
        ..repo::Repository::default()
    }
}
