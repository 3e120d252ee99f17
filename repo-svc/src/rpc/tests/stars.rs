//! Stars, watches and topics.

use ferrite_proto::Scope;
use ferrite_proto::error::violations;
use ferrite_proto::repo::star_service_client::StarServiceClient;
use ferrite_proto::repo::topic_service_client::TopicServiceClient;
use ferrite_proto::repo::watch_service_client::WatchServiceClient;
use ferrite_proto::repo::{
    AddTopicRequest, GetWatchRequest, IsStarredRequest, ListStargazersRequest, ListStarredRepositoriesRequest,
    ListTopicsRequest, RemoveTopicRequest, SetTopicsRequest, StarRepositoryRequest, UnwatchRepositoryRequest,
    WatchRepositoryRequest,
};
use tonic::Code;

use super::organizations::narrow;
use super::{by_id, refusal, refused};
use crate::testing::{Harness, with_token};

#[tokio::test]
async fn a_star_takes_a_repository_that_the_token_shows_and_the_scope_of_profiles() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let mut stars = StarServiceClient::new(harness.service.clone());
    let open = harness.create(&ada, "open", false).await.unwrap().id;
    let hidden = harness.create(&ada, "hidden", true).await.unwrap().id;
    let star = |id| StarRepositoryRequest { repository: by_id(id) };
    let missing = refused(Code::NotFound, "REPOSITORY_NOT_FOUND");
    stars.star_repository(with_token(star(open), &bob)).await.unwrap();
    stars.star_repository(with_token(star(hidden), &ada)).await.unwrap();
    for id in [hidden, 999_999] {
        assert_eq!(refusal(stars.star_repository(with_token(star(id), &bob)).await), missing);
        let is_starred = IsStarredRequest { repository: by_id(id) };
        assert_eq!(refusal(stars.is_starred(with_token(is_starred, &bob)).await), missing);
    }
    assert_eq!(refusal(stars.star_repository(star(open)).await).0, Code::Unauthenticated);
    let list = |id| ListStargazersRequest { repository: by_id(id), page: 1, page_size: 10 };
    for (token, email) in [(ada.as_str(), "bob@example.com"), ("", "")] {
        let response = stars.list_stargazers(with_token(list(open), token)).await.unwrap().into_inner();
        let [user] = response.users.as_slice() else { panic!("{response:?}") };
        assert_eq!((response.total_count, user.username.as_str(), user.email.as_str()), (1, "bob", email));
    }
    assert_eq!(refusal(stars.list_stargazers(list(hidden)).await), missing);
    let starred = |username: &str| ListStarredRepositoriesRequest { username: username.into(), page: 1, page_size: 10 };
    for (username, expected) in [("ada", 0), ("bob", 1)] {
        let response = stars.list_starred_repositories(starred(username)).await.unwrap().into_inner();
        assert_eq!(response.total_count, expected, "{username}");
    }
    assert_eq!(refusal(stars.list_starred_repositories(starred("")).await).0, Code::Unauthenticated);
    let profile = harness.token("ada", "profile").await;
    narrow(&harness, "profile", &[Scope::User]).await;
    stars.star_repository(with_token(star(open), &profile)).await.unwrap();
    assert_eq!(refusal(stars.star_repository(with_token(star(hidden), &profile)).await), missing);
    let reader = harness.token("ada", "reader").await;
    narrow(&harness, "reader", &[Scope::RepoAdmin]).await;
    let scope = refused(Code::PermissionDenied, "INSUFFICIENT_SCOPE");
    assert_eq!(refusal(stars.star_repository(with_token(star(open), &reader)).await), scope);
    let is_starred = IsStarredRequest { repository: by_id(hidden) };
    assert!(stars.is_starred(with_token(is_starred, &reader)).await.unwrap().into_inner().is_starred);
}

#[tokio::test]
async fn a_watch_begins_once_and_ends() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let mut watches = WatchServiceClient::new(harness.service.clone());
    let id = harness.create(&ada, "Demo", false).await.unwrap().id;
    let get = || GetWatchRequest { repository: by_id(id) };
    let of_owner = watches.get_watch(with_token(get(), &ada)).await.unwrap().into_inner().watch.unwrap();
    assert_eq!((of_owner.owner.as_str(), of_owner.name.as_str()), ("ada", "Demo"));
    let none = refused(Code::NotFound, "WATCH_NOT_FOUND");
    assert_eq!(refusal(watches.get_watch(with_token(get(), &bob)).await), none);
    let watch = || WatchRepositoryRequest { repository: by_id(id) };
    let first = watches.watch_repository(with_token(watch(), &bob)).await.unwrap().into_inner();
    assert_eq!(watches.watch_repository(with_token(watch(), &bob)).await.unwrap().into_inner(), first);
    assert_eq!(watches.get_watch(with_token(get(), &bob)).await.unwrap().into_inner().watch, first.watch);
    let unwatch = UnwatchRepositoryRequest { repository: by_id(id) };
    watches.unwatch_repository(with_token(unwatch, &bob)).await.unwrap();
    assert_eq!(refusal(watches.get_watch(with_token(get(), &bob)).await), none);
}

#[tokio::test]
async fn topics_are_set_added_and_removed_and_recorded() {
    let harness = Harness::start().await;
    let (ada, bob) = (harness.signed_in("ada").await, harness.signed_in("bob").await);
    let mut topics = TopicServiceClient::new(harness.service.clone());
    let id = harness.create(&ada, "demo", false).await.unwrap().id;
    let set = |texts: &[&str]| SetTopicsRequest {
        repository: by_id(id),
        topics: texts.iter().map(|text| (*text).to_owned()).collect(),
    };
    let add = |topic: &str| AddTopicRequest { repository: by_id(id), topic: topic.into() };
    let remove = |topic: &str| RemoveTopicRequest { repository: by_id(id), topic: topic.into() };
    topics.set_topics(with_token(set(&["Web", "rust", "web"]), &ada)).await.unwrap();
    topics.set_topics(with_token(set(&["web", "rust"]), &ada)).await.unwrap();
    topics.add_topic(with_token(add("API"), &ada)).await.unwrap();
    topics.add_topic(with_token(add("api"), &ada)).await.unwrap();
    topics.remove_topic(with_token(remove("RUST"), &ada)).await.unwrap();
    for gone in ["rust", "not a topic"] {
        let missing = refusal(topics.remove_topic(with_token(remove(gone), &ada)).await);
        assert_eq!(missing, refused(Code::NotFound, "TOPIC_NOT_FOUND"), "{gone}");
    }
    let list = ListTopicsRequest { repository: by_id(id) };
    assert_eq!(topics.list_topics(with_token(list, &bob)).await.unwrap().into_inner().topics, ["web", "api"]);
    assert_eq!(refusal(topics.set_topics(with_token(set(&[]), &bob)).await).0, Code::PermissionDenied);
    let status = topics.set_topics(with_token(set(&["ok", "a b"]), &ada)).await.unwrap_err();
    assert_eq!(violations(&status)[0].0, "topics[1]");
    let status = topics.add_topic(with_token(add("-"), &ada)).await.unwrap_err();
    assert_eq!(violations(&status)[0].0, "topic");
    let sql = "SELECT details FROM audit_log WHERE action = 'repository.update' ORDER BY id";
    let rows: Vec<(String,)> = harness.db().await.all(sql, &[]).await.unwrap();
    assert_eq!(rows, vec![("{\"fields\":\"topics\"}".to_owned(),); 3], "changes alone");
}
