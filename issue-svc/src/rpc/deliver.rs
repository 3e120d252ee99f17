//! Receives events. A deleted repository takes its issues along.

use ferrite_db::{DbError, Tx};
use ferrite_events as outbox;
use ferrite_events::{Apply, DeliveryError};
use ferrite_listener::service;
use ferrite_proto::events::event::Fact;
use ferrite_proto::events::event_sink_server::EventSink;
use ferrite_proto::events::{DeliverRequest, DeliverResponse, Event};
use ferrite_proto::id::RepositoryId;
use tonic::Request;

use crate::state::AppState;
use crate::store::Deleted;
use crate::writer::purge_first_batch;

service!(EventSink for AppState {
    deliver(DeliverRequest) -> DeliverResponse;
});

async fn deliver(state: &AppState, request: Request<DeliverRequest>) -> Result<DeliverResponse, DeliveryError> {
    let response = outbox::deliver(state, state.store.db(), state.writer.clock.now_us(), request).await?;
    state.scans.wake();
    Ok(response)
}

impl Apply for AppState {
    async fn apply(&self, tx: &mut Tx, event: &Event, now_us: i64) -> Result<(), DbError> {
        let repository = RepositoryId(event.repository_id);
        match &event.fact {
            Some(Fact::RepositoryDeleted(_)) => {
                self.store.mark_deleted(tx, repository).await?;
                purge_first_batch(&self.store, tx, Deleted::Repository(repository), now_us).await?;
                tracing::info!(repo.id = repository.0, "removing the issues of a deleted repository");
            }
            Some(Fact::RefsUpdated(updated)) => self.scans.record(tx, repository, updated, now_us).await?,
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ferrite_events::event;
    use ferrite_proto::Permission;
    use ferrite_proto::events::{RefsUpdated, RepositoryDeleted};
    use ferrite_proto::issue::{CreateIssueRequest, IssueState, ListIssuesRequest};
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
