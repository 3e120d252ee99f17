//! The limit on an account's writes, and repeated requests whose response is too large to store.

use ferrite_db::args;
use ferrite_db::idempotency::MAX_STORED_RESPONSE_BYTES;
use ferrite_db::testing::on_each_url;
use ferrite_proto::repo::collaborator_service_client::CollaboratorServiceClient;
use ferrite_proto::repo::organization_service_client::OrganizationServiceClient;
use ferrite_proto::repo::release_service_client::ReleaseServiceClient;
use ferrite_proto::repo::team_service_client::TeamServiceClient;
use ferrite_proto::repo::{
    AddEmailsRequest, CreateReleaseRequest, CreateTeamRequest, Release, RepositoryRef, SetCollaboratorRequest,
    UpdateOrganizationRequest, UpdateReleaseRequest, UpdateRepositoryRequest, UpdateTeamRequest, Visibility,
};
use ferrite_rpc::grpc::Channel;
use tonic::{Code, Request, Status};

use super::organizations::create as create_organization;
use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

const NOTES_BYTES: usize = 1_000_000;

fn releases(harness: &Harness) -> ReleaseServiceClient<Channel> {
    ReleaseServiceClient::new(harness.service.clone())
}

fn request<T>(message: T, token: &str, key: &str) -> Request<T> {
    let mut request = with_token(message, token);
    request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
    request
}

fn notes(letter: &str) -> String {
    letter.repeat(NOTES_BYTES)
}

async fn create(
    harness: &Harness,
    token: &str,
    repository: Option<RepositoryRef>,
    tag: &str,
    is_draft: bool,
) -> Result<Release, Status> {
    let new = CreateReleaseRequest {
        repository,
        tag_name: tag.into(),
        body: notes("a"),
        is_draft,
        ..CreateReleaseRequest::default()
    };
    Ok(releases(harness).create_release(request(new, token, tag)).await?.into_inner().release.unwrap())
}

async fn edit(harness: &Harness, token: &str, release: (i64, i64), body: String, key: &str) -> Result<Release, Status> {
    let (repository, release_id) = (by_id(release.0), release.1);
    let change = UpdateReleaseRequest { repository, release_id, body: Some(body), ..UpdateReleaseRequest::default() };
    Ok(releases(harness).update_release(request(change, token, key)).await?.into_inner().release.unwrap())
}

async fn longest_response(harness: &Harness) -> usize {
    let sql = "SELECT CAST(MAX(OCTET_LENGTH(answer)) AS BIGINT) FROM idempotency";
    let (bytes,): (i64,) = harness.db().await.one(sql, &[]).await.unwrap();
    usize::try_from(bytes).unwrap()
}

fn write_limit_reached() -> (Code, String) {
    refused(Code::ResourceExhausted, "WRITE_LIMIT_REACHED")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn edits_of_the_notes_of_a_release_count_with_the_bytes_that_they_store() {
    on_each_url(|url| async move {
        let harness = Harness::start_on_with(url, &["--write-bytes-per-hour", "5000000"]).await;
        let ada = harness.signed_in("ada").await;
        let demo = harness.create(&ada, "demo", false).await.unwrap().id;
        let release = create(&harness, &ada, by_id(demo), "v1", true).await.unwrap();
        let mut edits = 0;
        let status = loop {
            match edit(&harness, &ada, (demo, release.id), notes("b"), &format!("k{edits}")).await {
                Ok(_) => edits += 1,
                Err(status) => break status,
            }
            assert!(edits < 10, "nothing counts");
        };
        // Each edit is a little larger than its text. The last edit that starts below the limit
        // succeeds.
        assert!((3..=4).contains(&edits), "{edits}");
        assert_eq!(refusal(Err::<(), _>(status)), write_limit_reached());
        assert!(longest_response(&harness).await <= MAX_STORED_RESPONSE_BYTES);

        // A rejected write changes nothing, on the store either. Others can still write.
        let outcome = create(&harness, &ada, by_id(demo), "v2", false).await;
        assert_eq!(refusal(outcome), write_limit_reached());
        assert!(harness.tags().is_empty());
        let (count,): (i64,) = harness.db().await.one("SELECT COUNT(*) FROM releases", &[]).await.unwrap();
        assert_eq!(count, 1);
        let bob = harness.signed_in("bob").await;
        harness.create(&bob, "demo", false).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_settings_count_and_refused_ones_leave_no_entry_in_the_audit_log() {
    on_each_url(|url| async move {
        let harness = Harness::start_on_with(url, &["--writes-per-hour", "6"]).await;
        // The token and the repository count.
        let ada = harness.signed_in("ada").await;
        let demo = harness.create(&ada, "demo", false).await.unwrap().id;
        let describe = async |text: String, key: &str| {
            let change = UpdateRepositoryRequest {
                repository: by_id(demo),
                description: Some(text),
                ..UpdateRepositoryRequest::default()
            };
            harness.repository().update_repository(request(change, &ada, key)).await
        };
        // Repeated requests count once, invalid ones never.
        for _ in 0..5 {
            describe("one".into(), "repeated").await.unwrap();
            assert_eq!(describe("x".repeat(256), "invalid").await.unwrap_err().code(), Code::InvalidArgument);
        }
        for number in 0..3 {
            describe(format!("two {number}"), &format!("k{number}")).await.unwrap();
        }
        assert_eq!(refusal(describe("three".into(), "last").await), write_limit_reached());
        let sql = "SELECT COUNT(*) FROM audit_log WHERE action = 'repository.update'";
        let (count,): (i64,) = harness.db().await.one(sql, &[]).await.unwrap();
        assert_eq!(count, 4);
    })
    .await;
}

async fn make_private(harness: &Harness, token: &str, repository: i64, text: Option<&str>) -> Result<(), Status> {
    let change = UpdateRepositoryRequest {
        repository: by_id(repository),
        is_private: Some(true),
        description: text.map(str::to_owned),
        ..UpdateRepositoryRequest::default()
    };
    harness.repository().update_repository(with_token(change, token)).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_reached_limit_a_request_is_done_only_if_it_takes_access_away_and_does_nothing_else() {
    on_each_url(|url| async move {
        let harness = Harness::start_on_with(url, &["--writes-per-hour", "3"]).await;
        // The token and the two repositories count.
        let ada = harness.signed_in("ada").await;
        let demo = harness.create(&ada, "demo", false).await.unwrap().id;
        let other = harness.create(&ada, "other", false).await.unwrap().id;
        assert_eq!(refusal(make_private(&harness, &ada, demo, Some("Changed")).await), write_limit_reached());
        let state = async || {
            let sql = "SELECT description, is_private FROM repositories WHERE id = $1";
            harness.db().await.one::<(String, bool)>(sql, &args![demo]).await.unwrap()
        };
        assert_eq!(state().await, (String::new(), false));

        // Of concurrent requests only one revokes access. The others have nothing left to revoke.
        let requests = (0..6).map(|_| make_private(&harness, &ada, demo, None));
        let outcomes = futures_util::future::join_all(requests).await;
        let (done, others): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!(done.len(), 1);
        for outcome in others {
            assert_eq!(refusal(outcome), write_limit_reached());
        }
        assert_eq!(state().await, (String::new(), true));
        // An unchanged value is not a change: clients send whole objects.
        make_private(&harness, &ada, other, Some("")).await.unwrap();
        let sql = "SELECT COUNT(*) FROM audit_log WHERE action = 'repository.update'";
        let (count,): (i64,) = harness.db().await.one(sql, &[]).await.unwrap();
        assert_eq!(count, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_reached_limit_a_default_branch_that_stays_is_no_change() {
    on_each_url(|url| async move {
        let harness = Harness::start_on_with(url, &["--writes-per-hour", "2"]).await;
        // The token and the repository count.
        let ada = harness.signed_in("ada").await;
        let demo = harness.create(&ada, "demo", false).await.unwrap().id;
        let close = async |branch: &str| {
            let change = UpdateRepositoryRequest {
                repository: by_id(demo),
                is_private: Some(true),
                default_branch: Some(branch.into()),
                ..UpdateRepositoryRequest::default()
            };
            harness.repository().update_repository(with_token(change, &ada)).await
        };
        assert_eq!(refusal(close("dev").await), write_limit_reached());
        let closed = close("main").await.unwrap().into_inner().repository.unwrap();
        assert_eq!((closed.is_private, closed.default_branch.as_str()), (true, "main"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_reached_limit_levels_of_collaborators_and_teams_can_be_lowered() {
    on_each_url(|url| async move {
        let harness = Harness::start_on_with(url, &["--writes-per-hour", "5"]).await;
        harness.user("bob", false).await;
        // The token, repository, organization, team and collaborator count.
        let ada = harness.signed_in("ada").await;
        let demo = harness.create(&ada, "demo", false).await.unwrap().id;
        create_organization(&harness, &ada, "acme").await;
        let (teams, collaborators) =
            (TeamServiceClient::new(harness.service.clone()), CollaboratorServiceClient::new(harness.service.clone()));
        let new = CreateTeamRequest {
            organization: "acme".into(),
            name: "team".into(),
            permission: "admin".into(),
            ..CreateTeamRequest::default()
        };
        let team = teams.clone().create_team(with_token(new, &ada)).await.unwrap().into_inner().team.unwrap().id;
        let set = async |permission: &str| {
            let permission = Some(permission.to_owned());
            let request = SetCollaboratorRequest { repository: by_id(demo), username: "bob".into(), permission };
            collaborators.clone().set_collaborator(with_token(request, &ada)).await.map(drop)
        };
        let update = async |permission: &str, description: Option<&str>| {
            let request = UpdateTeamRequest {
                team_id: team,
                permission: Some(permission.to_owned()),
                description: description.map(str::to_owned),
                ..UpdateTeamRequest::default()
            };
            teams.clone().update_team(with_token(request, &ada)).await.map(drop)
        };
        set("admin").await.unwrap();
        assert_eq!(refusal(update("read", Some("Changed")).await), write_limit_reached(), "more than the level");
        for (permission, is_lower) in
            [("admin", false), ("write", true), ("admin", false), ("write", false), ("read", true), ("read", false)]
        {
            for outcome in [set(permission).await, update(permission, None).await] {
                match is_lower {
                    true => outcome.unwrap(),
                    false => assert_eq!(refusal(outcome), write_limit_reached(), "{permission}"),
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrators_have_a_hundred_times_the_limit() {
    let harness = Harness::start_with(&["--writes-per-hour", "1"]).await;
    harness.user("root", true).await;
    let root = harness.token("root", "test").await;
    for name in ["a", "b", "c"] {
        harness.create(&root, name, false).await.unwrap();
    }
    // Creating Ada's token is her only write.
    let ada = harness.signed_in("ada").await;
    assert_eq!(refusal(harness.create(&ada, "demo", false).await), write_limit_reached());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_gets_a_large_response_anew() {
    on_each_url(|url| async move {
        let harness = Harness::start_on(url).await;
        let ada = harness.signed_in("ada").await;
        let demo = harness.create(&ada, "demo", false).await.unwrap().id;
        let made = create(&harness, &ada, by_id(demo), "v1", false).await.unwrap();
        assert_eq!(create(&harness, &ada, by_id(demo), "v1", false).await.unwrap(), made);
        let edited = edit(&harness, &ada, (demo, made.id), notes("b"), "edit").await.unwrap();
        assert_eq!(edit(&harness, &ada, (demo, made.id), notes("b"), "edit").await.unwrap(), edited);
        // The response shows the release as it is now.
        assert_eq!(create(&harness, &ada, by_id(demo), "v1", false).await.unwrap(), edited);
        assert_eq!(edited.body.len(), NOTES_BYTES);

        let emails: Vec<_> = (0..90).map(|number| format!("{}{number}@example.com", "x".repeat(60))).collect();
        let add = async || {
            let message = AddEmailsRequest { emails: emails.clone() };
            harness.profile().add_emails(request(message, &ada, "emails")).await.unwrap().into_inner()
        };
        let added = add().await;
        assert_eq!((added.emails.len(), add().await), (90, added));

        let change = UpdateRepositoryRequest {
            repository: by_id(demo),
            description: Some("😀".repeat(255)),
            website: Some(format!("https://example.com/{}", "😀".repeat(1_000))),
            ..UpdateRepositoryRequest::default()
        };
        let update = async || {
            let response = harness.repository().update_repository(request(change.clone(), &ada, "settings")).await;
            response.unwrap().into_inner().repository.unwrap()
        };
        let updated = update().await;
        assert_eq!(update().await, updated);
        let (count,): (i64,) = harness.db().await.one("SELECT COUNT(*) FROM releases", &[]).await.unwrap();
        assert_eq!(count, 1);
        assert!(longest_response(&harness).await <= MAX_STORED_RESPONSE_BYTES);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_reached_limit_an_organization_can_be_hidden() {
    on_each_url(|url| async move {
        let harness = Harness::start_on_with(url, &["--writes-per-hour", "2"]).await;
        // The token and the organization count.
        let ada = harness.signed_in("ada").await;
        create_organization(&harness, &ada, "acme").await;
        let organizations = OrganizationServiceClient::new(harness.service.clone());
        let update = async |visibility: Visibility, description: Option<&str>| {
            let request = UpdateOrganizationRequest {
                organization: "acme".into(),
                visibility: Some(visibility.into()),
                description: description.map(str::to_owned),
                ..UpdateOrganizationRequest::default()
            };
            organizations.clone().update_organization(with_token(request, &ada)).await.map(drop)
        };
        assert_eq!(refusal(update(Visibility::Private, Some("Changed")).await), write_limit_reached());
        update(Visibility::Limited, None).await.unwrap();
        update(Visibility::Private, None).await.unwrap();
        for visibility in [Visibility::Limited, Visibility::Public] {
            assert_eq!(refusal(update(visibility, None).await), write_limit_reached(), "{visibility:?}");
        }
    })
    .await;
}
