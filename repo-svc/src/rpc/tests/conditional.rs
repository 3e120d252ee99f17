//! Reads return a version, and writes that require it succeed once. On both databases.

use ferrite_core::Secret;
use ferrite_db::args;
use ferrite_db::testing::on_each_url;
use ferrite_proto::error::reason;
use ferrite_proto::metadata::{PRECONDITION, VERSION};
use ferrite_proto::repo::deploy_key_service_client::DeployKeyServiceClient;
use ferrite_proto::repo::get_release_request::By;
use ferrite_proto::repo::release_service_client::ReleaseServiceClient;
use ferrite_proto::repo::star_service_client::StarServiceClient;
use ferrite_proto::repo::team_service_client::TeamServiceClient;
use ferrite_proto::repo::topic_service_client::TopicServiceClient;
use ferrite_proto::repo::transfer_service_client::TransferServiceClient;
use ferrite_proto::repo::watch_service_client::WatchServiceClient;
use ferrite_proto::repo::*;
use futures_util::future::join_all;
use tonic::{Code, Request, Response, Status};

use super::organizations;
use super::releases::Fixture;
use crate::testing::{Harness, with_token};

const KEY: &str = include_str!("../../model/key/examples/ed25519.pub");
/// Concurrent writers.
pub(super) const WRITERS: usize = 8;

/// Asks for the version in the response.
pub(super) fn asking<T>(message: T, token: &str) -> Request<T> {
    let mut request = with_token(message, token);
    request.metadata_mut().insert(VERSION, "?".parse().unwrap());
    request
}

pub(super) fn requiring<T>(message: T, token: &str, precondition: &str) -> Request<T> {
    let mut request = with_token(message, token);
    request.metadata_mut().insert(PRECONDITION, precondition.parse().unwrap());
    request
}

/// Returns the response's version as a precondition.
#[track_caller]
pub(super) fn told<T>(response: &Response<T>) -> String {
    format!("version={}", response.metadata().get(VERSION).expect("the version").to_str().unwrap())
}

pub(super) fn is_refused<T>(outcome: &Result<T, Status>) -> bool {
    outcome
        .as_ref()
        .is_err_and(|status| (status.code(), reason(status).as_deref()) == (Code::Aborted, Some("PRECONDITION_FAILED")))
}

/// Checks that a write succeeds with this version, not with another one, and not a second time.
async fn is_done_once<T, F>(version: String, write: impl Fn(String) -> F)
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let other = format!("version={}", "0".repeat(32));
    for precondition in ["absent", "never", &other] {
        assert!(is_refused(&write(precondition.to_owned()).await), "{precondition}");
    }
    write(version.clone()).await.unwrap();
    let again = write(version).await;
    let is_gone = again.as_ref().is_err_and(|status| status.code() == Code::NotFound);
    assert!(is_gone || is_refused(&again));
}

/// Like [`is_done_once`], but reads the version first. Takes the client, the read and the write.
macro_rules! done_once {
    ($token:expr, $client:expr, $get:ident($read:expr), $write:ident($change:expr)) => {{
        let version = told(&$client.$get(asking($read, $token)).await.unwrap());
        let write = |precondition: String| {
            let (mut client, request) = ($client, requiring($change, $token, &precondition));
            async move { client.$write(request).await }
        };
        is_done_once(version, write).await;
    }};
}

pub(super) async fn fixture(url: Secret) -> Fixture {
    Fixture::new(Harness::start_on(url).await).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_organization_its_members_and_its_teams_are_changed_once() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        harness.user("bob", false).await;
        let name = organizations::create(harness, ada, "acme").await.username;
        let client = || organizations::client(harness);
        done_once!(
            ada,
            client(),
            get_organization(GetOrganizationRequest { organization: name.clone() }),
            update_organization(UpdateOrganizationRequest {
                organization: name.clone(),
                location: Some("Paris".to_owned()),
                ..UpdateOrganizationRequest::default()
            })
        );

        let (organization, username) = (name.clone(), "bob".to_owned());
        let member = || GetMembershipRequest { organization: organization.clone(), username: username.clone() };
        let set = |role: MembershipRole| SetMembershipRequest {
            organization: organization.clone(),
            username: username.clone(),
            role: role.into(),
        };
        let gone = || RemoveMemberRequest { organization: organization.clone(), username: username.clone() };
        for precondition in ["exists", "never"] {
            let request = requiring(set(MembershipRole::Member), ada, precondition);
            assert!(is_refused(&client().set_membership(request).await), "{precondition}");
            let missing = client().remove_member(requiring(gone(), ada, precondition)).await.unwrap_err();
            assert_eq!(reason(&missing).as_deref(), Some("MEMBER_NOT_FOUND"));
        }
        client().set_membership(with_token(set(MembershipRole::Member), ada)).await.unwrap();
        done_once!(ada, client(), get_membership(member()), set_membership(set(MembershipRole::Admin)));
        done_once!(ada, client(), get_membership(member()), remove_member(gone()));

        let teams = || TeamServiceClient::new(harness.service.clone());
        let new = CreateTeamRequest { organization: name.clone(), name: "crew".to_owned(), ..Default::default() };
        let made = teams().create_team(with_token(new, ada)).await.unwrap().into_inner().team.unwrap();
        let team_id = made.id;
        let rename = || UpdateTeamRequest { team_id, name: Some("band".to_owned()), ..UpdateTeamRequest::default() };
        done_once!(ada, teams(), get_team(GetTeamRequest { team_id }), update_team(rename()));
        done_once!(ada, teams(), get_team(GetTeamRequest { team_id }), delete_team(DeleteTeamRequest { team_id }));
        done_once!(
            ada,
            client(),
            get_organization(GetOrganizationRequest { organization: name.clone() }),
            delete_organization(DeleteOrganizationRequest { organization: name.clone() })
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_and_what_belongs_to_it_are_changed_once() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        harness.user("bob", false).await;
        let repository = || fixture.repository();
        let read = || GetRepositoryRequest { repository: repository() };
        let describe = || UpdateRepositoryRequest {
            repository: repository(),
            description: Some("Words".to_owned()),
            ..UpdateRepositoryRequest::default()
        };
        done_once!(ada, harness.repository(), get_repository(read()), update_repository(describe()));

        let topics = || TopicServiceClient::new(harness.service.clone());
        let set = || SetTopicsRequest { repository: repository(), topics: vec!["git".to_owned()] };
        let list = ListTopicsRequest { repository: repository() };
        done_once!(ada, topics(), list_topics(list), set_topics(set()));

        let watches = || WatchServiceClient::new(harness.service.clone());
        let watch = || WatchRepositoryRequest { repository: repository() };
        let get = || GetWatchRequest { repository: repository() };
        let version = told(&watches().get_watch(asking(get(), ada)).await.unwrap());
        watches().watch_repository(requiring(watch(), ada, &version)).await.unwrap();
        let unwatch = || UnwatchRepositoryRequest { repository: repository() };
        done_once!(ada, watches(), get_watch(get()), unwatch_repository(unwatch()));
        assert!(is_refused(&watches().watch_repository(requiring(watch(), ada, &version)).await));

        let keys = || DeployKeyServiceClient::new(harness.service.clone());
        let new = CreateDeployKeyRequest {
            repository: repository(),
            title: "ci".to_owned(),
            key: KEY.to_owned(),
            can_write: false,
        };
        let key_id = keys().create_deploy_key(with_token(new, ada)).await.unwrap().into_inner().key.unwrap().id;
        let get = GetDeployKeyRequest { repository: repository(), key_id };
        let delete = || DeleteDeployKeyRequest { repository: repository(), key_id };
        done_once!(ada, keys(), get_deploy_key(get), delete_deploy_key(delete()));

        let transfers = || TransferServiceClient::new(harness.service.clone());
        let start = StartTransferRequest { repository: repository(), new_owner: "bob".to_owned() };
        transfers().start_transfer(with_token(start, ada)).await.unwrap();
        let get = GetTransferRequest { repository: repository() };
        let cancel = || CancelTransferRequest { repository: repository() };
        done_once!(ada, transfers(), get_transfer(get), cancel_transfer(cancel()));

        let delete = || DeleteRepositoryRequest { repository: repository() };
        done_once!(ada, harness.repository(), get_repository(read()), delete_repository(delete()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_and_its_files_are_changed_once() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let repository = || fixture.repository();
        let release_id = fixture.create("v1", true).await.unwrap().id;
        let client = || ReleaseServiceClient::new(harness.service.clone());
        let get = || GetReleaseRequest { repository: repository(), by: Some(By::ReleaseId(release_id)) };
        let publish = || UpdateReleaseRequest {
            repository: repository(),
            release_id,
            title: Some("One".to_owned()),
            is_draft: Some(false),
            ..UpdateReleaseRequest::default()
        };
        let before = told(&client().get_release(asking(get(), ada)).await.unwrap());
        let asset_id = fixture.upload(release_id, "a.txt", "").await.unwrap().id;
        // Adding a file changes the release's version. A rejected request creates no tag.
        assert!(is_refused(&client().update_release(requiring(publish(), ada, &before)).await));
        assert_eq!(harness.tags().len(), 0);
        done_once!(ada, client(), get_release(get()), update_release(publish()));
        assert_eq!(harness.tags().len(), 1);

        let of_file = || GetReleaseAssetRequest {
            repository: repository(),
            release_id,
            asset_id,
            ..GetReleaseAssetRequest::default()
        };
        let versions = async || {
            let release = told(&client().get_release(asking(get(), ada)).await.unwrap());
            (release, told(&client().get_release_asset(asking(of_file(), ada)).await.unwrap()))
        };
        let before = versions().await;
        harness.db().await.execute("UPDATE release_assets SET download_count = 7", &[]).await.unwrap();
        assert_eq!(versions().await, before, "downloads are no changes");
        let rename = || UpdateReleaseAssetRequest {
            repository: repository(),
            release_id,
            asset_id,
            name: Some("b.txt".to_owned()),
        };
        done_once!(ada, client(), get_release_asset(of_file()), update_release_asset(rename()));
        let delete = || DeleteReleaseAssetRequest { repository: repository(), release_id, asset_id };
        done_once!(ada, client(), get_release_asset(of_file()), delete_release_asset(delete()));
        let delete = || DeleteReleaseRequest { repository: repository(), release_id, ..Default::default() };
        done_once!(ada, client(), get_release(get()), delete_release(delete()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_an_account_is_changed_once() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        harness.user("root", true).await;
        let root = harness.token("root", "test").await;
        let read = GetQuotaRequest { username: "ada".to_owned() };
        let limit = || UpdateQuotaRequest {
            username: "ada".to_owned(),
            repositories: Some(LimitChange { limit: Some(7) }),
            ..UpdateQuotaRequest::default()
        };
        done_once!(&root, harness.administration(), get_quota(read), update_quota(limit()));

        let new = CreatePublicKeyRequest { title: "laptop".to_owned(), key: KEY.to_owned(), ..Default::default() };
        let made = harness.public_keys().create_public_key(with_token(new, ada)).await.unwrap();
        let key_id = made.into_inner().key.unwrap().id;
        let delete = || DeletePublicKeyRequest { key_id, ..Default::default() };
        done_once!(
            ada,
            harness.public_keys(),
            get_public_key(GetPublicKeyRequest { key_id }),
            delete_public_key(delete())
        );

        let update = || UpdateUserSettingsRequest { location: Some("There".to_owned()), ..Default::default() };
        let read = GetUserSettingsRequest {};
        done_once!(ada, harness.user_settings(), get_user_settings(read), update_user_settings(update()));

        let emails = vec!["one@x".to_owned(), "two@x".to_owned()];
        harness.profile().add_emails(with_token(AddEmailsRequest { emails }, ada)).await.unwrap();
        // Every page has the version of the whole list.
        let list = ListEmailsRequest { page: 2, page_size: 1 };
        let delete = || DeleteEmailsRequest { emails: vec!["one@x".to_owned()] };
        done_once!(ada, harness.profile(), list_emails(list), delete_emails(delete()));
        let nothing = || DeleteEmailsRequest { emails: Vec::new() };
        harness.profile().delete_emails(requiring(nothing(), ada, "exists")).await.unwrap();
        assert!(is_refused(&harness.profile().delete_emails(requiring(nothing(), ada, "never")).await));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_is_not_of_what_others_change() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let bob = harness.signed_in("bob").await;
        let version = |token: &str| {
            let read = GetRepositoryRequest { repository: fixture.repository() };
            let (mut client, request) = (harness.repository(), asking(read, token));
            async move { told(&client.get_repository(request).await.unwrap()) }
        };
        let before = version(ada).await;
        let star = StarRepositoryRequest { repository: fixture.repository() };
        StarServiceClient::new(harness.service.clone()).star_repository(with_token(star, &bob)).await.unwrap();
        let sql = "UPDATE repositories SET size_bytes = 9, is_empty = $1, updated_us = updated_us + 1";
        harness.db().await.execute(sql, &args![false]).await.unwrap();
        assert_eq!((version(ada).await, version(&bob).await), (before.clone(), before.clone()));
        let topic = AddTopicRequest { repository: fixture.repository(), topic: "git".to_owned() };
        TopicServiceClient::new(harness.service.clone()).add_topic(with_token(topic, ada)).await.unwrap();
        assert_ne!(version(ada).await, before);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_writers_with_one_version_at_once_one_succeeds() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let read = GetRepositoryRequest { repository: fixture.repository() };
        let version = told(&harness.repository().get_repository(asking(read, ada)).await.unwrap());
        let writes = (0..WRITERS).map(|number| {
            let message = UpdateRepositoryRequest {
                repository: fixture.repository(),
                description: Some(format!("By {number}")),
                ..UpdateRepositoryRequest::default()
            };
            let (mut client, request) = (harness.repository(), requiring(message, ada, &version));
            async move { client.update_repository(request).await }
        });
        let (done, refused): (Vec<_>, Vec<_>) = join_all(writes).await.into_iter().partition(Result::is_ok);
        assert_eq!((done.len(), refused.len()), (1, WRITERS - 1));
        assert!(refused.iter().all(is_refused));

        let get = GetWatchRequest { repository: fixture.repository() };
        let watches = || WatchServiceClient::new(harness.service.clone());
        let version = told(&watches().get_watch(asking(get, ada)).await.unwrap());
        let writes = (0..WRITERS).map(|_| {
            let message = UnwatchRepositoryRequest { repository: fixture.repository() };
            let (mut client, request) = (watches(), requiring(message, ada, &version));
            async move { client.unwatch_repository(request).await }
        });
        let (done, refused): (Vec<_>, Vec<_>) = join_all(writes).await.into_iter().partition(Result::is_ok);
        assert_eq!(done.len(), 1);
        assert!(refused.iter().all(is_refused));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_gets_the_first_response_before_its_precondition_is_looked_at() {
    on_each_url(|url| async move {
        let fixture = fixture(url).await;
        let (harness, ada) = (&fixture.harness, fixture.ada.as_str());
        let read = GetRepositoryRequest { repository: fixture.repository() };
        let version = told(&harness.repository().get_repository(asking(read, ada)).await.unwrap());
        let request = |precondition: &str| {
            let message = UpdateRepositoryRequest {
                repository: fixture.repository(),
                description: Some("Words".to_owned()),
                ..UpdateRepositoryRequest::default()
            };
            let mut request = requiring(message, ada, precondition);
            request.metadata_mut().insert("idempotency-key", "k1".parse().unwrap());
            request
        };
        assert!(is_refused(&harness.repository().update_repository(request("never")).await));
        let first = harness.repository().update_repository(request(&version)).await.unwrap().into_inner();
        for precondition in [version.as_str(), "never"] {
            let again = harness.repository().update_repository(request(precondition)).await.unwrap().into_inner();
            assert_eq!(again, first, "{precondition}");
        }
    })
    .await;
}
