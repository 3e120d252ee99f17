//! Tests of the sweeper, and of closing words.

use std::time::Duration;

use ferrite_core::net::Address;
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_events::{Relay, Subscribers};
use ferrite_listener::testing::serve_peers;
use ferrite_proto::ServiceRole;
use ferrite_proto::git::Merge;
use ferrite_proto::git::merge_service_server::MergeServiceServer;
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_rpc::grpc::channel;
use ferrite_rpc::testing::{Fake, ServiceKeys};
use tonic::service::Routes;

use super::{MergeSweeper, PullQueue, Pulls};
use crate::model::{Body, NewIssue, NewPullRequest, Title};
use crate::store::IssueTable;
use crate::testing::{PullPeer, on_each_schema};
use crate::upstream::{GitClient, RepoClient};
use crate::writer::{IssueWriter, TextTargets};

const REPOSITORY: RepositoryId = RepositoryId(42);

async fn pulls(db: &Db, peer: &PullPeer, life: &Lifecycle, folder: &std::path::Path) -> Pulls {
    let address = Address::Unix(folder.join("peer.sock"));
    let routes = Routes::new(AccessServiceServer::new(Fake(peer.clone())));
    serve_peers(&address, routes.add_service(MergeServiceServer::new(Fake(peer.clone()))), life).await;
    let (channel, clock) = (channel(&address, None), Clock::fixed(1_000_000_000_000));
    let relay = Relay::new(db.clone(), clock.clone(), Subscribers::new());
    Pulls {
        queue: PullQueue::new(db.clone()),
        repo: RepoClient::new(channel.clone()),
        git: GitClient::new(channel.into()),
        writer: IssueWriter { store: IssueTable::new(db.clone()), relay, clock: clock.clone() },
        permits: ServiceKeys::write(folder).token_source(ServiceRole::IssueSvc, &clock),
        clock,
    }
}

async fn open(pulls: &Pulls) {
    let new = NewIssue {
        repository: REPOSITORY,
        organization: None,
        author: UserId(7),
        title: Title::parse("title").unwrap(),
        body: Body::parse(String::new()).unwrap(),
        is_closed: false,
        assignees: Vec::new(),
        milestone_id: 0,
        label_ids: Vec::new(),
        pull_request: Some(NewPullRequest {
            head_repository: REPOSITORY,
            head_branch: "topic".to_owned(),
            base_branch: "main".to_owned(),
            head_id: "a".repeat(40),
            merge_base_id: "b".repeat(40),
        }),
    };
    let mut write = pulls.writer.begin_open(&new).await.unwrap();
    write.open(&new, &TextTargets::default()).await.unwrap();
    write.permit_merge(1, "").await.unwrap();
    write.commit(None, ()).await.unwrap();
}

#[tokio::test]
async fn a_permitted_merge_without_an_event_is_found() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (folder, life) = (tempfile::tempdir().unwrap(), Lifecycle::new(Duration::from_secs(5)));
        let peer = PullPeer::default();
        let pulls = pulls(&db, &peer, &life, folder.path()).await;
        open(&pulls).await;
        let merge =
            Merge { number: 1, head_id: "a".repeat(40), base_branch: "main".into(), user_id: 8, ..Merge::default() };
        peer.0.lock().unwrap().merges.push(merge);
        let is_merged = async || {
            let full = pulls.writer.store.find_full(REPOSITORY, 1).await.unwrap().unwrap();
            full.pull_request.unwrap().merged_us.is_some()
        };
        let sweeper = MergeSweeper::new(pulls.clone());
        sweeper.round().await.unwrap();
        assert!(!is_merged().await, "its event may still come");
        pulls.clock.advance(Duration::from_secs(71));
        sweeper.round().await.unwrap();
        assert!(is_merged().await);
        life.stop();
    })
    .await;
}
