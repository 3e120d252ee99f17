//! Calls to services with several replicas: balanced, moved when one dies, hangs or stops, and sent
//! to new ones.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::testing::{ROLE, TestEnv};
use crate::{GrpcServer, ListenerOptions, serve};
use axum::Router;
use ferrite_core::Clock;
use ferrite_core::Lifecycle;
use ferrite_core::net::{Address, ServiceAddresses};
use ferrite_core::testing::eventually;
use ferrite_proto::repo::CreateRepositoryRequest;
use ferrite_proto::repo::repository_service_client::RepositoryServiceClient;
use ferrite_rpc::grpc::channel_with_resolver;
use ferrite_rpc::grpc::{Channel, ChannelCredentials};
use ferrite_rpc::grpc::{Resolver, system_resolver};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::Code;

use super::service::{FINE, HANG, Repositories, get};

type Client = RepositoryServiceClient<Channel>;

pub(super) struct Server {
    pub(super) repositories: Repositories,
    pub(super) address: Address,
    life: Lifecycle,
}

impl Server {
    /// Starts a ready server that cuts its connections `grace` after its stop.
    pub(super) async fn start(env: &TestEnv, grace: Duration) -> Self {
        let (life, repositories) = (Lifecycle::new(grace), Repositories::default());
        life.set_ready(true);
        let listener = Address::Tcp("127.0.0.1:0".into()).bind().await.unwrap();
        let address = listener.address().unwrap();
        let server = GrpcServer::default().add(repositories.server());
        let router = server.into_router(env.layer(env.tokens()), Router::new(), &life);
        life.spawn("replica", serve(listener, router, ListenerOptions::default(), life.clone()));
        Self { repositories, address, life }
    }

    fn calls(&self) -> usize {
        self.repositories.calls()
    }

    fn socket(&self) -> SocketAddr {
        self.address.to_string().parse().unwrap()
    }

    /// Stops the server and waits until its connections have ended and their clients know.
    async fn stop(&self) {
        self.life.stop();
        while !self.life.finished().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.life.stop();
    }
}

/// A listener that accepts connections and never responds, like that of a paused process.
async fn silent(tasks: &mut JoinSet<()>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::Tcp(listener.local_addr().unwrap().to_string());
    tasks.spawn(async move {
        let mut connections = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            connections.push(connection);
        }
    });
    address
}

fn client_with(env: &TestEnv, addresses: &ServiceAddresses, resolver: Resolver) -> Client {
    let credentials = ChannelCredentials::new(env.token_source(), ROLE);
    RepositoryServiceClient::new(channel_with_resolver(addresses.clone(), Some(credentials), resolver))
}

fn client(env: &TestEnv, addresses: &[&Address]) -> Client {
    let list: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    client_with(env, &list.join(",").parse().unwrap(), system_resolver())
}

async fn read(client: &Client) {
    client.clone().get_repository(get(FINE)).await.unwrap();
}

async fn write(client: &Client) -> Result<(), tonic::Status> {
    client.clone().create_repository(CreateRepositoryRequest::default()).await.map(|_| ())
}

async fn two() -> (TestEnv, Server, Server, Client) {
    let env = TestEnv::new(Clock::system());
    let (first, second) =
        (Server::start(&env, Duration::from_secs(5)).await, Server::start(&env, Duration::from_secs(5)).await);
    let client = client(&env, &[&first.address, &second.address]);
    (env, first, second, client)
}

#[tokio::test]
async fn calls_are_spread_over_all_replicas() {
    let (_env, first, second, client) = two().await;
    eventually("both replicas are known to serve", || async {
        read(&client).await;
        first.calls() > 0 && second.calls() > 0
    })
    .await;
    let before = (first.calls(), second.calls());
    for _ in 0..100 {
        read(&client).await;
    }
    let (first, second) = (first.calls() - before.0, second.calls() - before.1);
    assert!(first >= 40 && second >= 40, "{first} and {second}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_stops_fails_no_call() {
    let (_env, first, second, client) = two().await;
    let mut writers = JoinSet::new();
    let ended = Lifecycle::new(Duration::from_secs(1));
    for _ in 0..4 {
        let (client, ended) = (client.clone(), ended.clone());
        writers.spawn(async move {
            let mut written = 0;
            while !ended.is_stopping() {
                write(&client).await.unwrap();
                written += 1;
            }
            written
        });
    }
    eventually("both replicas have calls", || async { first.calls() > 20 && second.calls() > 20 }).await;
    first.stop().await;
    let (at_stop, rest) = (first.calls(), second.calls());
    eventually("the other replica has the calls", || async { second.calls() > rest + 200 }).await;
    ended.stop();
    let written: usize = writers.join_all().await.into_iter().sum();
    assert_eq!((first.calls(), first.calls() + second.calls()), (at_stop, written), "each was carried out once");
}

#[tokio::test]
async fn a_killed_replica_gets_no_further_calls() {
    let env = TestEnv::new(Clock::system());
    let (first, second) = (Server::start(&env, Duration::ZERO).await, Server::start(&env, Duration::ZERO).await);
    let client = client(&env, &[&first.address, &second.address]);
    for _ in 0..10 {
        read(&client).await;
    }
    first.stop().await;
    let started = Instant::now();
    for _ in 0..50 {
        read(&client).await;
        write(&client).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_replica_that_is_not_ready_gets_no_new_calls() {
    let (_env, first, second, client) = two().await;
    read(&client).await;
    first.life.set_ready(false);
    eventually("the replica is left alone", || async {
        let before = first.calls();
        for _ in 0..10 {
            read(&client).await;
        }
        first.calls() == before
    })
    .await;
    second.life.set_ready(false);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = first.calls() + second.calls();
    read(&client).await;
    assert_eq!(first.calls() + second.calls(), before + 1, "without one that is ready, any is asked");
}

#[tokio::test]
async fn reads_leave_a_replica_that_does_not_respond() {
    let env = TestEnv::new(Clock::system());
    let mut tasks = JoinSet::new();
    let paused = silent(&mut tasks).await;
    let good = Server::start(&env, Duration::from_secs(1)).await;
    // The list has the paused one most often, so that the first call goes there.
    let more = [silent(&mut tasks).await, silent(&mut tasks).await];
    let client = client(&env, &[&paused, &more[0], &more[1], &good.address]);
    let started = Instant::now();
    for _ in 0..20 {
        read(&client).await;
    }
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    let started = Instant::now();
    for _ in 0..20 {
        write(&client).await.unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_call_that_hangs_in_a_living_replica_is_not_repeated() {
    let (_env, first, second, client) = two().await;
    let mut request = get(HANG);
    request.set_timeout(Duration::from_secs(3));
    assert_eq!(client.clone().get_repository(request).await.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(first.calls() + second.calls(), 1);
}

/// Returns a resolver that returns what the test sets.
fn resolver(sockets: &Arc<Mutex<Vec<SocketAddr>>>) -> Resolver {
    let sockets = Arc::clone(sockets);
    Arc::new(move |_| {
        let sockets = sockets.lock().unwrap().clone();
        Box::pin(async move { Ok(sockets) })
    })
}

#[tokio::test]
async fn a_host_name_stands_for_the_replicas_that_it_resolves_to() {
    let env = TestEnv::new(Clock::system());
    let (first, second) = (Server::start(&env, Duration::ZERO).await, Server::start(&env, Duration::ZERO).await);
    let sockets = Arc::new(Mutex::new(vec![first.socket()]));
    let name = "repo-svc.test:7001".parse().unwrap();
    let client = client_with(&env, &name, resolver(&sockets));
    write(&client).await.unwrap();
    assert_eq!((first.calls(), second.calls()), (1, 0));
    *sockets.lock().unwrap() = vec![second.socket(), first.socket()];
    eventually("the new replica is found", || async {
        write(&client).await.unwrap();
        second.calls() > 0
    })
    .await;
    *sockets.lock().unwrap() = vec![second.socket()];
    first.stop().await;
    for _ in 0..20 {
        write(&client).await.unwrap();
    }
}

#[tokio::test]
async fn a_replica_that_moves_is_found_by_the_call_that_misses_it() {
    let env = TestEnv::new(Clock::system());
    let first = Server::start(&env, Duration::ZERO).await;
    let sockets = Arc::new(Mutex::new(vec![first.socket()]));
    let client = client_with(&env, &"repo-svc.test:7001".parse().unwrap(), resolver(&sockets));
    read(&client).await;
    first.stop().await;
    let second = Server::start(&env, Duration::ZERO).await;
    *sockets.lock().unwrap() = vec![second.socket()];
    let started = Instant::now();
    read(&client).await;
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(second.calls(), 1);
}

#[tokio::test]
async fn a_host_name_without_an_address_is_unavailable() {
    let env = TestEnv::new(Clock::system());
    let nothing = Arc::new(Mutex::new(Vec::new()));
    let client = client_with(&env, &"repo-svc.test:7001".parse().unwrap(), resolver(&nothing));
    let started = Instant::now();
    let status = write(&client).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "no address of the service is known"));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}
