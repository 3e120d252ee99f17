use std::time::Duration;

use crate::testing::{ROLE, TestEnv};
use ferrite_core::Clock;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_rpc::grpc::{ChannelCredentials, StoreChannel, for_store};
use tonic::Code;

use super::replicas::Server;
use super::service::{FINE, get};

fn stores(env: &TestEnv, addresses: &str) -> StoreChannel {
    let credentials = ChannelCredentials::new(env.token_source(), ROLE);
    StoreChannel::new(addresses.parse().unwrap(), Some(credentials))
}

#[tokio::test]
async fn a_call_goes_to_the_store_that_it_names() {
    let env = TestEnv::new(Clock::system());
    let (first, second) = (Server::start(&env, Duration::ZERO).await, Server::start(&env, Duration::ZERO).await);
    let channel = stores(&env, &format!("git-0={},git-1={}", first.address, second.address));
    let calls = || (first.repositories.calls(), second.repositories.calls());
    let mut client = RepositoryServiceClient::new(channel.clone());
    client.get_repository(for_store(get(FINE), "git-0")).await.unwrap();
    assert_eq!(calls(), (1, 0));
    let mut of_second = RepositoryServiceClient::new(channel.with_store("git-1"));
    of_second.get_repository(get(FINE)).await.unwrap();
    of_second.get_repository(for_store(get(FINE), "git-0")).await.unwrap();
    assert_eq!(calls(), (2, 1), "the name in the request comes first");
    RepositoryServiceClient::new(channel.channel("git-1").unwrap()).get_repository(get(FINE)).await.unwrap();
    assert_eq!(calls(), (2, 2));
}

#[tokio::test]
async fn a_store_without_an_address_is_unavailable_and_named() {
    let env = TestEnv::new(Clock::system());
    let mut client = RepositoryServiceClient::new(stores(&env, "git-0=127.0.0.1:9"));
    let status = client.get_repository(for_store(get(FINE), "git-7")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(status.message(), "FERRITE_GIT_ADDRESS has no address for store `git-7`");
    let status = client.get_repository(get(FINE)).await.unwrap_err();
    assert!(status.message().contains("names no store"), "{status:?}");
}

#[tokio::test]
async fn the_only_address_takes_the_calls_of_every_store() {
    let env = TestEnv::new(Clock::system());
    let only = Server::start(&env, Duration::ZERO).await;
    let channel = stores(&env, &only.address.to_string());
    let mut client = RepositoryServiceClient::new(channel.clone());
    client.get_repository(get(FINE)).await.unwrap();
    client.get_repository(for_store(get(FINE), "default")).await.unwrap();
    RepositoryServiceClient::new(channel.with_store("other")).get_repository(get(FINE)).await.unwrap();
    assert_eq!(only.repositories.calls(), 3);
}
