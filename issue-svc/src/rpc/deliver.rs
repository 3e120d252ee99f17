//! Receives events. A new repository gets the labels it begins with. A deleted repository takes its
//! issues along, a deleted organization its labels. A repository that leaves an organization loses
//! the labels of it.

use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_events::{Apply, DeliveryError};
use ferrite_listener::service;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event, RepositoryAction};
use ferrite_proto::id::{OrganizationId, RepositoryId, UserId};
use ferrite_proto::repo::LabelSet;
use tonic::Request;

use crate::encode;
use crate::error::IssueError;
use crate::model::{Color, LabelDescription, LabelName, LabelOwner, NewLabel};
use crate::state::AppState;
use crate::store::{CounterChange, Deleted, IssueTable};
use crate::writer::{purge_first_batch, wake_purges};

/// Names, colors and descriptions of the set `Default`, those of Gitea.
const DEFAULT_LABELS: [(&str, &str, &str); 7] = [
    ("bug", "#ee0701", "Something is not working"),
    ("duplicate", "#cccccc", "This issue or pull request already exists"),
    ("enhancement", "#84b6eb", "New feature"),
    ("help wanted", "#128a0c", "Need some help"),
    ("invalid", "#e6e6e6", "Something is wrong"),
    ("question", "#cc317c", "More information is needed"),
    ("wontfix", "#ffffff", "This won't be fixed"),
];

service!(EventSink for AppState {
    deliver(DeliverRequest) -> DeliverResponse;
});

async fn deliver(state: &AppState, request: Request<DeliverRequest>) -> Result<DeliverResponse, DeliveryError> {
    let removes_labels = request
        .get_ref()
        .events
        .iter()
        .any(|event| matches!(event.fact, Some(Fact::RepositoryUpdated(_) | Fact::OrganizationDeleted(_))));
    let is_merge = |event: &&Event| matches!(&event.fact, Some(Fact::RefsUpdated(updated)) if updated.merge.is_some());
    let merges: Vec<_> = request.get_ref().events.iter().filter(is_merge).cloned().collect();
    let response = outbox::deliver(state, state.store.db(), state.writer.clock.now_us(), request).await?;
    for event in merges {
        apply_merge(state, &event).await?;
    }
    state.scans.wake();
    state.pulls.queue.wake();
    if removes_labels {
        wake_purges();
    }
    Ok(response)
}

/// Applies the merge in an event, in a transaction of its own. If that fails, the event is delivered
/// again; a merge that is applied already has no effect.
async fn apply_merge(state: &AppState, event: &Event) -> Result<(), DeliveryError> {
    let Some(Fact::RefsUpdated(updated)) = &event.fact else { return Ok(()) };
    match state.pulls.apply_merge(RepositoryId(event.repository_id), updated).await {
        Ok(()) => Ok(()),
        Err(IssueError::Store(error)) => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, repo.id = event.repository_id, "cannot apply the merge of a pull request");
            Ok(())
        }
    }
}

impl Apply for AppState {
    async fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> Result<(), DbError> {
        let repository = RepositoryId(event.repository_id);
        match &event.fact {
            Some(Fact::RepositoryCreated(created)) if created.label_set() == LabelSet::Default => {
                add_labels(&self.store, tx, repository, &DEFAULT_LABELS).await?;
            }
            Some(Fact::RepositoryDeleted(_)) => {
                self.store.mark_deleted(tx, repository).await?;
                self.store.forget_head_repository(tx, repository).await?;
                purge_first_batch(&self.store, tx, Deleted::Repository(repository), now_us).await?;
                tracing::info!(repo.id = repository.0, "removing the issues of a deleted repository");
            }
            Some(Fact::RefsUpdated(updated)) => {
                self.scans.record(tx, repository, updated, now_us).await?;
                self.pulls.record(tx, repository, updated, now_us).await?;
            }
            Some(Fact::StatusCreated(created)) => {
                let commit_id = created.commit.as_ref().map_or("", |commit| &commit.id);
                self.pulls.record_status(tx, repository, commit_id, now_us).await?;
            }
            Some(Fact::RepositoryUpdated(updated)) if updated.action() == RepositoryAction::Transferred => {
                let owner = updated.repository.as_ref().and_then(|repository| repository.owner.as_ref());
                if let Some(owner) = owner {
                    let time_us = event.event_time.map_or(now_us, encode::micros);
                    change_owner(&self.store, tx, repository, (UserId(owner.id), time_us), now_us).await?;
                }
            }
            Some(Fact::OrganizationDeleted(deleted)) => {
                let owner = LabelOwner::Organization(OrganizationId(deleted.organization_id));
                self.store.mark_deleted(tx, owner.row()).await?;
                let labels = self.store.delete_labels(tx, owner).await?;
                self.store.note_shared_labels(tx, &labels).await?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Adds the labels that a repository does not have yet. Somebody may have been faster than the event.
async fn add_labels(
    store: &IssueTable,
    tx: &mut Tx,
    repository: RepositoryId,
    labels: &[(&str, &str, &str)],
) -> Result<(), DbError> {
    // Locks the counters.
    if store.advance(tx, repository, CounterChange::default()).await?.is_none() {
        return Ok(());
    }
    let mut added = 0;
    for (name, color, description) in labels {
        let new = NewLabel {
            name: LabelName::parse(name).expect("a name of a set is valid"),
            color: Color::parse(color).expect("a color of a set is valid"),
            description: LabelDescription::parse(description).expect("a description of a set is valid"),
        };
        let label = store.insert_label(tx, LabelOwner::Repository(repository), &new).await?;
        added += i64::from(label.is_some());
    }
    let change = CounterChange { labels: added, ..CounterChange::default() };
    store.advance(tx, repository, change).await.map(drop)
}

/// Removes the labels of organizations that no longer own a repository, after a transfer to `owner`
/// at `time_us`.
async fn change_owner(
    store: &IssueTable,
    tx: &mut Tx,
    repository: RepositoryId,
    (owner, time_us): (UserId, i64),
    now_us: i64,
) -> Result<(), DbError> {
    // Locks the counters.
    if store.advance(tx, repository, CounterChange::default()).await?.is_none() {
        return Ok(());
    }
    let foreign = Deleted::ForeignLabels(repository);
    // What an earlier transfer has left must not come back if the repository does.
    if store.has_foreign_labels(tx, repository).await? {
        while store.purge(tx, foreign, now_us).await? {}
    }
    if store.set_owner(tx, repository, owner, time_us).await? {
        purge_first_batch(store, tx, foreign, now_us).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ferrite_events::event;
    use ferrite_proto::Permission;
    use ferrite_proto::events::{RefsUpdated, RepositoryCreated, RepositoryDeleted};
    use ferrite_proto::issue::label_service_client::LabelServiceClient;
    use ferrite_proto::issue::{
        CreateIssueRequest, CreateLabelRequest, IssueState, ListIssuesRequest, ListLabelsRequest,
    };
    use ferrite_proto::operation::{CREATE_LABEL, LIST_LABELS};
    use tonic::Code;

    use super::*;
    use crate::testing::{REPOSITORY, Service, TestCaller, on_each_url, reason};

    fn issue(repository_id: i64) -> CreateIssueRequest {
        CreateIssueRequest { repository_id, title: "t".to_owned(), ..Default::default() }
    }

    fn deleted(repository: i64) -> Event {
        event(RepositoryId(repository), 1, Fact::RepositoryDeleted(RepositoryDeleted::default()))
    }

    async fn count(service: &Service, repository_id: i64) -> i64 {
        let caller = TestCaller::anonymous(Permission::Read).of_repository(repository_id);
        let state = IssueState::Unspecified.into();
        let request = ListIssuesRequest { repository_id, state, page: 1, page_size: 1, ..Default::default() };
        service.list(&caller, request).await.unwrap().total_count
    }

    #[tokio::test]
    async fn a_new_repository_gets_the_labels_of_its_set_that_it_lacks() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let mut client = LabelServiceClient::new(service.channel.clone());
            let caller = TestCaller::user(7, Permission::Write);
            let own = CreateLabelRequest {
                repository_id: REPOSITORY,
                name: "Bug".into(),
                color: "#00aabb".into(),
                ..Default::default()
            };
            let own = client.create_label(caller.request(CREATE_LABEL, own)).await.unwrap().into_inner().label.unwrap();
            let created = |id: i64, label_set: LabelSet| {
                let fact = RepositoryCreated { label_set: label_set.into(), ..RepositoryCreated::default() };
                event(RepositoryId(id), 1, Fact::RepositoryCreated(fact))
            };
            let (plain, gone) = (REPOSITORY + 1, REPOSITORY + 2);
            let events = [
                created(REPOSITORY, LabelSet::Default),
                created(plain, LabelSet::Unspecified),
                deleted(gone),
                created(gone, LabelSet::Default),
            ];
            service.deliver(events.to_vec()).await.unwrap();
            for (id, count) in [(REPOSITORY, DEFAULT_LABELS.len()), (plain, 0)] {
                let request = ListLabelsRequest { repository_id: id, page: 1, page_size: 10 };
                let request = caller.of_repository(id).request(LIST_LABELS, request);
                let labels = client.list_labels(request).await.unwrap().into_inner().labels;
                assert_eq!((labels.len(), labels.contains(&own)), (count, id == REPOSITORY), "{labels:?}");
                assert!(labels.iter().all(|label| *label == own || !label.description.is_empty()), "{labels:?}");
            }
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_deleted_repository_loses_its_issues_once_and_gets_no_new_ones() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            let caller = TestCaller::user(7, Permission::Read);
            let other = caller.of_repository(REPOSITORY + 1);
            service.create(&caller, issue(REPOSITORY)).await.unwrap();
            service.create(&other, issue(REPOSITORY + 1)).await.unwrap();

            let gone = deleted(REPOSITORY);
            service.deliver(vec![gone.clone(), gone.clone()]).await.unwrap();
            service.deliver(vec![gone.clone()]).await.unwrap();
            assert_eq!(count(&service, REPOSITORY).await, 0);
            assert_eq!(count(&service, REPOSITORY + 1).await, 1);
            assert_eq!(service.inbox_count(&gone.event_id).await, 1);

            // The grant was signed before the deletion and is still valid.
            let late = service.create(&caller, issue(REPOSITORY)).await.unwrap_err();
            assert_eq!((late.code(), reason(&late).as_str()), (Code::NotFound, "REPOSITORY_NOT_FOUND"));
            assert_eq!(count(&service, REPOSITORY).await, 0);
            service.stop().await;
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_with_an_unknown_event_or_of_no_service_is_refused_as_a_whole() {
        on_each_url(|url| async move {
            let service = Service::start(&url).await;
            service.create(&TestCaller::user(7, Permission::Read), issue(REPOSITORY)).await.unwrap();
            service.check_refused_deliveries(&deleted(REPOSITORY)).await;
            assert_eq!(count(&service, REPOSITORY).await, 1);

            let known = event(RepositoryId(REPOSITORY), 1, Fact::RefsUpdated(RefsUpdated::default()));
            service.deliver(vec![known]).await.unwrap();
            assert_eq!(count(&service, REPOSITORY).await, 1);
            service.stop().await;
        })
        .await;
    }
}
