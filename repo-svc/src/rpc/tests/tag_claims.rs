//! Claims on tag names: of requests for one tag, one creates it, and a crash blocks nobody for long.
//! On both databases.

use std::time::Duration;

use ferrite_core::Secret;
use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::reason;
use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::release_service_client::ReleaseServiceClient;
use ferrite_proto::repo::*;
use ferrite_rpc::grpc::Channel;
use futures_util::future::join_all;
use tonic::{Code, Status};

use super::conditional::{WRITERS, asking, fixture, is_refused, requiring, told};
use super::default_branches::until_asked;
use super::releases::Fixture;
use crate::testing::{StoreMode, with_token};

struct Draft {
    fixture: Fixture,
    id: i64,
}

impl Draft {
    async fn new(url: Secret) -> Self {
        let fixture = fixture(url).await;
        let id = fixture.create("v1", true).await.unwrap().id;
        Self { fixture, id }
    }

    fn client(&self) -> ReleaseServiceClient<Channel> {
        ReleaseServiceClient::new(self.fixture.harness.service.clone())
    }

    async fn version(&self) -> String {
        let by = Some(By::ReleaseId(self.id));
        let read = GetReleaseRequest { repository: self.fixture.repository(), by };
        told(&self.client().get_release(asking(read, &self.fixture.ada)).await.unwrap())
    }

    /// Publishes it with another tag, with a precondition unless that is empty.
    async fn publish(&self, tag_name: &str, precondition: &str) -> Result<Release, Status> {
        let change = UpdateReleaseRequest {
            repository: self.fixture.repository(),
            release_id: self.id,
            tag_name: Some(tag_name.to_owned()),
            is_draft: Some(false),
            ..UpdateReleaseRequest::default()
        };
        let ada = &self.fixture.ada;
        let request = match precondition {
            "" => with_token(change, ada),
            precondition => requiring(change, ada, precondition),
        };
        Ok(self.client().update_release(request).await?.into_inner().release.unwrap())
    }

    /// The tags that the store created.
    fn tags(&self) -> Vec<String> {
        self.fixture.harness.tags().into_iter().map(|tag| tag.tag_name).collect()
    }
}

const MAKE_TAG: &str = "create tag";
/// Claims the tag names of all releases.
const CLAIM: &str = "INSERT INTO tag_claims (repository_id, tag_name, claimed_us) \
     SELECT repository_id, tag_name, CAST($1 AS BIGINT) FROM releases";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_publications_with_one_version_at_once_one_makes_a_tag() {
    on_each_url(|url| async move {
        let draft = Draft::new(url).await;
        let version = draft.version().await;
        let names: Vec<_> = (0..WRITERS).map(|number| format!("x-{number}")).collect();
        let outcomes = join_all(names.iter().map(|name| draft.publish(name, &version))).await;
        let (done, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!((done.len(), refused.len()), (1, WRITERS - 1));
        assert!(refused.iter().all(is_refused));
        let published: Vec<_> = done.into_iter().map(|release| release.unwrap().tag_name).collect();
        assert_eq!(draft.tags(), published);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_is_left_alone_while_its_tag_is_made() {
    on_each_url(|url| async move {
        let draft = Draft::new(url).await;
        let (harness, version) = (&draft.fixture.harness, draft.version().await);
        harness.set_store(StoreMode::Waits);
        let others = async {
            until_asked(harness, MAKE_TAG).await;
            let delete = DeleteReleaseRequest {
                repository: draft.fixture.repository(),
                release_id: draft.id,
                ..Default::default()
            };
            let request = requiring(delete, &draft.fixture.ada, &version);
            let mut client = draft.client();
            let (deleted, published) = (client.delete_release(request), draft.publish("x-2", ""));
            let uploaded = draft.fixture.upload(draft.id, "a.txt", "");
            tokio::pin!(deleted, published, uploaded);
            let pause = Duration::from_millis(300);
            assert!(tokio::time::timeout(pause, &mut deleted).await.is_err());
            assert!(tokio::time::timeout(pause, &mut published).await.is_err());
            // The version that the first request required covers the files.
            assert!(tokio::time::timeout(pause, &mut uploaded).await.is_err());
            assert_eq!(draft.tags(), ["x-1"]);
            harness.set_store(StoreMode::Works);
            uploaded.await.unwrap();
            (deleted.await, published.await)
        };
        let (first, (deleted, second)) = tokio::join!(draft.publish("x-1", &version), others);
        assert_eq!(first.unwrap().assets.len(), 0);
        assert!(is_refused(&deleted));
        assert_eq!(second.unwrap().tag_name, "x-2");
        assert_eq!(draft.tags(), ["x-1", "x-2"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_a_release_ends_with_a_failure_and_with_a_crash() {
    on_each_url(|url| async move {
        let draft = Draft::new(url).await;
        let (harness, version) = (&draft.fixture.harness, draft.version().await);
        let db = harness.db().await;
        let claims = async || {
            let (count,): (i64,) = db.one("SELECT COUNT(*) FROM tag_claims", &[]).await.unwrap();
            count
        };
        harness.set_store(StoreMode::Refuses);
        assert_eq!(draft.publish("x-1", &version).await.unwrap_err().code(), Code::InvalidArgument);
        assert_eq!(claims().await, 0);

        // Nobody knows whether the tag will be created, so the names `v1` and `x-1` stay claimed.
        harness.set_store(StoreMode::Down);
        assert_eq!(draft.publish("x-1", &version).await.unwrap_err().code(), Code::Unavailable);
        assert_eq!(claims().await, 2);
        harness.set_store(StoreMode::Works);
        let mut waiting = Box::pin(draft.publish("x-1", &version));
        assert!(tokio::time::timeout(Duration::from_millis(300), &mut waiting).await.is_err());
        assert_eq!(draft.tags(), Vec::<String>::new());

        // As if the claims were old.
        db.execute("UPDATE tag_claims SET claimed_us = 1", &[]).await.unwrap();
        assert_eq!(waiting.await.unwrap().tag_name, "x-1");
        assert_eq!(claims().await, 0);

        // A crash with a clock that was far ahead.
        db.execute(CLAIM, &args![i64::MAX / 2]).await.unwrap();
        assert_eq!(draft.publish("x-2", "").await.unwrap().tag_name, "x-2");
        assert_eq!((draft.tags(), claims().await), (vec!["x-1".to_owned(), "x-2".to_owned()], 0));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_a_claimed_release_ends_before_its_caller_gives_up() {
    on_each_url(|url| async move {
        let draft = Draft::new(url).await;
        let state = draft.fixture.harness.state().await;
        state.db.execute(CLAIM, &args![state.clock.now_us()]).await.unwrap();
        let delete =
            DeleteReleaseRequest { repository: draft.fixture.repository(), release_id: draft.id, ..Default::default() };
        let mut client = draft.client();
        let deleted = client.delete_release(with_token(delete, &draft.fixture.ada));
        // The gateway gives up after 20 seconds.
        let deleted = tokio::time::timeout(Duration::from_secs(18), deleted).await.expect("a response");
        assert_eq!(reason(&deleted.unwrap_err()).as_deref(), Some("INTERRUPTED"));
    })
    .await;
}
