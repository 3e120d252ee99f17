//! Tests of the sweeper, of closing words, and of permits.

use std::time::Duration;

use ferrite_core::net::Address;
use ferrite_core::{Clock, Lifecycle};
use ferrite_db::Db;
use ferrite_events::{Relay, Subscribers};
use ferrite_listener::testing::serve_peers;
use ferrite_proto::ServiceRole;
use ferrite_proto::git::merge_service_server::MergeServiceServer;
use ferrite_proto::git::{Merge, MergeStyle};
use ferrite_proto::id::{RepositoryId, UserId};
use ferrite_proto::repo::access_service_server::AccessServiceServer;
use ferrite_rpc::grpc::channel;
use ferrite_rpc::service_key::{MergePermit, ReviewFacts, ServicePublicKeys, ServiceVerifier};
use ferrite_rpc::testing::{Fake, ServiceKeys};
use tonic::service::Routes;

use super::{MergeOrder, MergeSweeper, PullQueue, Pulls};
use crate::model::{Body, NewIssue, NewPullRequest, Title};
use crate::store::IssueTable;
use crate::testing::{PullPeer, on_each_schema, review_row};
use crate::upstream::{GitClient, RepoClient};
use crate::writer::{IssueWriter, MergeRules, TextTargets};

const REPOSITORY: RepositoryId = RepositoryId(42);
const RULES: MergeRules<'static> = MergeRules { is_style_allowed: true, head_id: "" };

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
        due_us: None,
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
    write.permit_merge(1, RULES).await.unwrap();
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

const APPROVED: i64 = 3;
const REJECTED: i64 = 4;

async fn permit(pulls: &Pulls, folder: &std::path::Path) -> MergePermit {
    let (number, style, user) = (1, MergeStyle::Merge.into(), UserId(8));
    let order = MergeOrder { number, style, user, rules: RULES, is_scheduled: false };
    let permit = pulls.permit(REPOSITORY, order).await.unwrap().permit;
    let keys = ServicePublicKeys::open(&folder.join("public")).unwrap();
    let verifier = ServiceVerifier::new(keys, ServiceRole::GitSvc);
    verifier.verify_merge_permit(&permit, pulls.clock.now_secs()).unwrap()
}

#[tokio::test]
async fn a_permit_says_what_users_who_can_write_now_decided() {
    on_each_schema(&crate::migrations(), |db| async move {
        let (folder, life) = (tempfile::tempdir().unwrap(), Lifecycle::new(Duration::from_secs(5)));
        let peer = PullPeer::default();
        let pulls = pulls(&db, &peer, &life, folder.path()).await;
        open(&pulls).await;
        assert_eq!(permit(&pulls, folder.path()).await.reviews, ReviewFacts::default());
        let questions = || std::mem::take(&mut peer.0.lock().unwrap().reviewer_questions);
        assert!(questions().is_empty());

        for (name, user, can_write) in [("a", 10, true), ("b", 11, true), ("c", 12, true), ("d", 13, false)] {
            peer.set_reviewer(name, user, can_write);
        }
        let (head, older) = ("a".repeat(40), "c".repeat(40));
        for (user, state, commit_id) in [(10, APPROVED, &head), (11, APPROVED, &older), (13, REJECTED, &head)] {
            db.execute(&review_row(user, state, commit_id, 1), &[]).await.unwrap();
        }
        let expected = ReviewFacts { approvals: vec![10], stale_approvals: vec![11], ..ReviewFacts::default() };
        assert_eq!(permit(&pulls, folder.path()).await.reviews, expected);
        let asked = questions();
        assert_eq!((asked.len(), asked[0].user_ids.as_slice()), (1, &[10, 11, 13][..]));

        // One that was asked about, and then one that was not.
        let between = |user, state| Some((db.clone(), review_row(user, state, &older, 2)));
        peer.0.lock().unwrap().meanwhile = between(10, REJECTED);
        let rejected = ReviewFacts { rejections: vec![10], stale_approvals: vec![11], ..ReviewFacts::default() };
        assert_eq!(permit(&pulls, folder.path()).await.reviews, rejected);
        assert_eq!(questions().len(), 1);
        peer.0.lock().unwrap().meanwhile = between(12, REJECTED);
        let mut rejections = permit(&pulls, folder.path()).await.reviews.rejections;
        rejections.sort_unstable();
        assert_eq!((rejections, questions().len()), (vec![10, 12], 2));
        life.stop();
    })
    .await;
}
