use std::path::Path;
use std::time::Duration;

use clap::Parser;
use ferrite_core::Lifecycle;
use ferrite_core::Secret;
use ferrite_core::net::{Address, Listener};
use ferrite_core::startup::{ServiceFuture, StartError};
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_listener::testing::serve_peers;
use ferrite_proto::error::violations;
use ferrite_proto::events::event_sink_client::EventSinkClient;
use ferrite_proto::events::{DeliverRequest, Event};
use ferrite_proto::{Permission, ServiceRole};
use ferrite_rpc::grpc::{Channel, channel};
use ferrite_rpc::testing::{ServiceKeys, TestCaller, public_key_pem, reason};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::{Code, Status};

const DELIVER: &str = "ferrite.events.v1.EventSink/Deliver";

/// A service on a Unix socket, next to fakes of its peers.
#[derive(Debug)]
pub struct TestService {
    role: ServiceRole,
    address: Address,
    keys: ServiceKeys,
    /// A channel without a credential.
    pub channel: Channel,
    db: Db,
    life: Lifecycle,
    task: JoinHandle<Result<(), StartError>>,
    _folder: TempDir,
}

impl TestService {
    /// Starts the service `run` of a role. `flags` returns its flags for a folder and for the
    /// address of all `peers`.
    ///
    /// # Panics
    /// If the service does not start.
    pub async fn start<C: Parser>(
        role: ServiceRole,
        url: &Secret,
        peers: Routes,
        flags: impl FnOnce(&Path, &Address) -> Vec<String>,
        run: fn(C, Vec<Listener>, Lifecycle) -> ServiceFuture,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = ServiceKeys::write(folder.path());
        let grant_key = folder.path().join("grant.pem");
        std::fs::write(&grant_key, public_key_pem()).unwrap();
        let [address, peer] = ["service.sock", "peer.sock"].map(|name| Address::Unix(folder.path().join(name)));
        let own_flags = [
            "service".to_owned(),
            format!("--listen={address}"),
            format!("--database-url={}", url.expose()),
            format!("--grant-public-key-file={}", grant_key.display()),
        ];
        let all = own_flags.into_iter().chain(keys.flags(role)).chain(flags(folder.path(), &peer));
        let config = C::try_parse_from(all).unwrap();

        let life = Lifecycle::new(Duration::from_secs(5));
        serve_peers(&peer, peers, &life).await;
        let task = life.spawn("service", run(config, vec![address.bind().await.unwrap()], life.clone()));
        while !life.is_ready() {
            assert!(!task.is_finished(), "the service did not start: {:?}", task.await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let (channel, db) = (channel(&address, None), Db::open(url, 2).await.unwrap());
        Self { role, address, keys, channel, db, life, task, _folder: folder }
    }

    /// Stops the service.
    ///
    /// # Panics
    /// If it fails, or does not stop in time.
    pub async fn stop(self) {
        self.db.close().await;
        self.life.stop();
        assert!(self.life.finished().await, "the service did not stop in time");
        self.task.await.unwrap().unwrap();
    }

    /// Returns the database.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Delivers events, each as the role that emits it.
    ///
    /// # Errors
    /// The first rejection.
    pub async fn deliver(&self, events: Vec<Event>) -> Result<(), Status> {
        self.keys.deliver(self.role, &self.address, events).await
    }

    /// Checks that `event` is rejected together with an unknown event, with too many others, and
    /// from a caller that is no service.
    ///
    /// # Panics
    /// If it is accepted, or rejected for another reason.
    pub async fn check_refused_deliveries(&self, event: &Event) {
        let unknown = self.deliver(vec![event.clone(), Event::default()]).await.unwrap_err();
        let fields: Vec<_> = violations(&unknown).into_iter().map(|(field, ..)| field).collect();
        assert_eq!(fields, ["events[1].event_id", "events[1].repository_id", "events[1].fact"]);
        let many = self.deliver(vec![event.clone(); 65]).await.unwrap_err();
        assert_eq!(violations(&many)[0].0, "events");

        let events = vec![event.clone()];
        let owner = TestCaller::user(7, Permission::Owner);
        let request = owner.request(DELIVER, DeliverRequest { events, ..Default::default() });
        let by_owner = EventSinkClient::new(self.channel.clone()).deliver(request).await.unwrap_err();
        assert_eq!((by_owner.code(), reason(&by_owner).as_str()), (Code::PermissionDenied, "SERVICE_REQUIRED"));
    }

    /// Returns how often an event is in the inbox.
    ///
    /// # Panics
    /// If the database fails.
    pub async fn inbox_count(&self, event_id: &str) -> i64 {
        let sql = "SELECT COUNT(*) FROM inbox WHERE event_id = $1";
        let (count,): (i64,) = self.db.one(sql, &args![event_id]).await.unwrap();
        count
    }
}
