use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::operation::{GET_CONTENTS, LIST_EVENTS};
use ferrite_proto::repo::access_service_client::AccessServiceClient;
use ferrite_proto::repo::release_service_client::ReleaseServiceClient;
use ferrite_proto::repo::{
    CreateReleaseRequest, ForkRepositoryRequest, ReauthorizeAccessRequest, ResolveFeedAccessRequest,
    ResolveFeedAccessResponse,
};
use ferrite_proto::{Scope, ServiceRole, text_digest};
use tonic::{Code, Status};

use super::organizations::narrow;
use super::{by_id, of_demo, refusal, refused};
use crate::testing::{Harness, with_token};

const ADD_COLLABORATOR: &str = "INSERT INTO collaborators (repository_id, user_id, permission, created_us) \
     SELECT $1, id, 'read', 0 FROM users WHERE name_key = 'bob'";

/// The token holder's access to the feed of `ada/demo`.
async fn given(harness: &Harness, token: &str, operation: &str) -> ReauthorizeAccessRequest {
    let response = harness.access().resolve_access(with_token(of_demo(operation), token)).await.unwrap();
    response.into_inner().reauthorization.unwrap()
}

async fn ask(
    harness: &Harness,
    access: &ReauthorizeAccessRequest,
    repository_ids: &[i64],
    release_ids: &[i64],
) -> Result<ResolveFeedAccessResponse, Status> {
    let request = ResolveFeedAccessRequest {
        access: Some(access.clone()),
        repository_ids: repository_ids.to_vec(),
        release_ids: release_ids.to_vec(),
    };
    let mut client = AccessServiceClient::new(harness.channel_of(ServiceRole::HookSvc));
    Ok(client.resolve_feed_access(request).await?.into_inner())
}

async fn release(harness: &Harness, token: &str, repository: i64, tag_name: &str, is_draft: bool) -> i64 {
    let request = CreateReleaseRequest {
        repository: by_id(repository),
        tag_name: tag_name.into(),
        body: "x".repeat(70_000),
        is_draft,
        ..CreateReleaseRequest::default()
    };
    let made = ReleaseServiceClient::new(harness.service.clone()).create_release(with_token(request, token)).await;
    made.unwrap().into_inner().release.unwrap().id
}

#[tokio::test]
async fn a_reader_of_a_feed_learns_what_it_may_read_now() {
    on_each_url(async |url| {
        let harness = Harness::start_on(url).await;
        let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
        let demo = harness.create(&ada, "demo", true).await.unwrap().id;
        let db = harness.db().await;
        db.execute(ADD_COLLABORATOR, &args![demo]).await.unwrap();
        let request = ForkRepositoryRequest { repository: by_id(demo), ..ForkRepositoryRequest::default() };
        let fork = harness.repository().fork_repository(with_token(request, &bob)).await.unwrap();
        let fork = fork.into_inner().repository.unwrap().id;
        let published = release(&harness, &ada, demo, "v1", false).await;
        let draft = release(&harness, &ada, demo, "v2", true).await;
        let (of_ada, of_bob) = (given(&harness, &ada, LIST_EVENTS).await, given(&harness, &bob, LIST_EVENTS).await);
        let seen = async |access| {
            let response = ask(&harness, access, &[fork, demo, 999], &[published, draft, 999]).await.unwrap();
            let mut releases: Vec<_> = response.releases.iter().map(|release| release.id).collect();
            let mut repositories = response.repository_ids;
            releases.sort_unstable();
            repositories.sort_unstable();
            (response.can_read_issues, repositories, releases, response.can_read_pulls)
        };
        assert_eq!(seen(&of_ada).await, (true, vec![demo], vec![published, draft], true), "no role on the fork");
        assert_eq!(seen(&of_bob).await, (true, vec![demo, fork], vec![published], true), "no drafts for readers");
        let notes = ask(&harness, &of_bob, &[], &[published]).await.unwrap().releases.remove(0).notes_digest;
        assert_eq!(notes, text_digest(&"x".repeat(65_536)), "of the part that an event has");

        narrow(&harness, "test", &[Scope::RepoRead]).await;
        assert_eq!(seen(&of_ada).await, (false, vec![demo], vec![published], false));
        narrow(&harness, "test", &[Scope::RepoRead, Scope::Issue]).await;
        assert!(seen(&of_ada).await.0);
        let off = "UPDATE repositories SET is_issues_enabled = $2 WHERE id = $1";
        db.execute(off, &args![demo, false]).await.unwrap();
        let access = seen(&of_ada).await;
        assert!(!access.0 && access.3, "pull requests are on without issues");
        db.execute("UPDATE repositories SET has_pulls = $2 WHERE id = $1", &args![demo, false]).await.unwrap();
        assert!(!seen(&of_ada).await.3);

        db.execute("DELETE FROM collaborators", &args![]).await.unwrap();
        let hidden = refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
        assert_eq!(refusal(ask(&harness, &of_bob, &[], &[]).await), hidden);
        db.execute("DELETE FROM access_tokens", &args![]).await.unwrap();
        let gone = refused(Code::Unauthenticated, "BAD_CREDENTIALS");
        assert_eq!(refusal(ask(&harness, &of_ada, &[], &[]).await), gone);
    })
    .await;
}

#[tokio::test]
async fn only_readers_of_events_are_asked_about_and_a_page_at_a_time() {
    let harness = Harness::start().await;
    let ada = harness.signed_in("ada").await;
    harness.create(&ada, "demo", false).await.unwrap();
    let invalid = refused(Code::InvalidArgument, "INVALID_FIELDS");
    let access = given(&harness, &ada, LIST_EVENTS).await;
    let many = [1; 101];
    ask(&harness, &access, &many[..100], &many[..100]).await.unwrap();
    assert_eq!(refusal(ask(&harness, &access, &many, &[]).await), invalid);
    assert_eq!(refusal(ask(&harness, &access, &[], &many).await), invalid);
    let other = given(&harness, &ada, GET_CONTENTS).await;
    assert_eq!(refusal(ask(&harness, &other, &[], &[]).await), invalid);
}
