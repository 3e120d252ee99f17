//! Tests of the sender against receivers on real sockets.

mod snippets;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use ferrite_core::sealing::Sealer;
use ferrite_core::{Clock, Lifecycle, Secret};
use ferrite_db::Db;
use ferrite_db::args;
use ferrite_outbound::{AllowList, Client, OutboundUrl, Policy};
use ferrite_proto::id::{HookId, RepositoryId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

use super::{DeliveryArgs, Sender};
use crate::model::{BranchFilter, ChatOptions, ContentType, HookEvents, HookType, NewHook, Owner};
use crate::secrets;
use crate::store::attempts::{self, Attempt};
use crate::store::deliveries::{self, Delivery, Status};
use crate::store::kept_bytes::GrownRepositories;
use crate::store::queues::{NewDelivery, enqueue, enqueue_alone, resume};
use crate::store::{HookTable, StoredHook};
use crate::testing::{on_each_schema, recorded};

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
struct Received {
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

struct Receiver {
    address: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Starts a receiver on loopback. `respond` gets the number of the request, from 0, and returns
    /// the response; an empty text sends none.
    async fn start(respond: impl Fn(usize, &Received) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (respond, list) = (Arc::new(respond), Arc::clone(&received));
        let serve = async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (respond, list) = (Arc::clone(&respond), Arc::clone(&list));
                spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    let number = {
                        let mut list = list.lock().unwrap();
                        list.push(request.clone());
                        list.len() - 1
                    };
                    let response = respond(number, &request);
                    if response.is_empty() {
                        std::future::pending::<()>().await;
                    }
                    let _ = stream.write_all(response.as_bytes()).await;
                });
            }
        };
        spawn(serve);
        Self { address, received }
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Returns the values of a header in all requests, in order.
    fn header(&self, name: &str) -> Vec<String> {
        self.received().into_iter().map(|request| request.headers[name].clone()).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "the receiver is no part of the service")]
fn spawn(future: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(future);
}

async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let mut lines = head.split("\r\n");
            let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
            let header =
                |line: &str| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
            let headers: BTreeMap<_, _> = lines.filter_map(header).collect();
            let length: usize = headers["content-length"].parse().unwrap();
            let mut body = bytes.split_off(end + 4);
            let missing = length - body.len();
            let mut rest = vec![0; missing];
            stream.read_exact(&mut rest).await.ok()?;
            body.extend(rest);
            return Some(Received { path, headers, body });
        }
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await.ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&part[..count]);
    }
}

fn status(code: u16) -> String {
    format!("HTTP/1.1 {code} X\r\nContent-Length: 0\r\n\r\n")
}

struct Bench {
    db: Db,
    hooks: HookTable,
    sender: Sender,
    life: Lifecycle,
    policy: Policy,
}

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    delivery: DeliveryArgs,
}

impl Bench {
    /// Starts a sender that may connect to `allowed` addresses and retries after `retries`.
    fn start(db: Db, allowed: &str, retries: &str) -> Self {
        let hooks = HookTable::new(db.clone(), Sealer::new(&[7; 32], &[], secrets::SERVICE));
        let policy = Policy::new(allowed.parse::<AllowList>().unwrap());
        let settings = Settings::parse_from(["x", &format!("--hook-retry-seconds={retries}")]);
        let sender = Sender::new(
            hooks.clone(),
            Client::new(policy.clone()),
            Clock::system(),
            settings.delivery,
            GrownRepositories::default(),
        );
        let life = Lifecycle::new(Duration::from_secs(15));
        sender.start(&life);
        Self { db, hooks, sender, life, policy }
    }

    fn new_hook(&self, url: &str) -> NewHook {
        // Stored hooks are checked only when they are used.
        let any = Policy::new("0.0.0.0/0".parse::<AllowList>().unwrap());
        NewHook {
            owner: Owner::Repository(RepositoryId(1)),
            kind: HookType::Native,
            url: OutboundUrl::parse(url, &any).unwrap(),
            content_type: ContentType::Json,
            secret: None,
            options: ChatOptions::default(),
            events: HookEvents::parse(&["push"]).unwrap(),
            branch_filter: BranchFilter::default(),
            authorization: None,
            is_active: true,
        }
    }

    async fn insert(&self, new: &NewHook) -> StoredHook {
        let mut tx = self.db.begin().await.unwrap();
        let hook = self.hooks.insert(&mut tx, new, 100, 5).await.unwrap();
        tx.commit().await.unwrap();
        hook
    }

    async fn hook(&self, url: &str) -> HookId {
        self.insert(&self.new_hook(url)).await.id
    }

    async fn event(&self, payload: &str) -> i64 {
        let sql = "INSERT INTO events (uuid, repository_id, source, name, fact, payload, is_dispatched, is_in_feed, \
             created_us) VALUES ($1, 1, 1, 'push', $2, $3, TRUE, FALSE, $4) RETURNING id";
        let mut tx = self.db.begin().await.unwrap();
        let args = args![Uuid::new_v4().to_string(), Vec::new(), payload, Clock::system().now_us()];
        let (id,): (i64,) = tx.one(sql, &args).await.unwrap();
        tx.commit().await.unwrap();
        id
    }

    /// Queues a delivery and returns its UUID.
    async fn deliver(&self, hook: HookId, repository: i64, payload: &str) -> String {
        let new = self.new_delivery(hook, repository, payload).await;
        let mut tx = self.db.begin().await.unwrap();
        enqueue(&mut tx, std::slice::from_ref(&new), Clock::system().now_us()).await.unwrap();
        tx.commit().await.unwrap();
        self.sender.wake();
        new.uuid
    }

    async fn new_delivery(&self, hook: HookId, repository: i64, payload: &str) -> NewDelivery {
        NewDelivery {
            uuid: Uuid::new_v4().to_string(),
            hook,
            event_id: self.event(payload).await,
            repository: RepositoryId(repository),
            source: 1,
            bytes: 0,
        }
    }

    async fn delivery(&self, hook: HookId, uuid: &str) -> Delivery {
        deliveries::find(&self.db, hook, uuid).await.unwrap().unwrap()
    }

    /// Waits until a delivery has the status. Returns it with its attempts.
    async fn until(&self, hook: HookId, uuid: &str, wanted: Status) -> (Delivery, Vec<Attempt>) {
        let started = Instant::now();
        loop {
            let delivery = self.delivery(hook, uuid).await;
            if Status::from_column(delivery.status) == Some(wanted) {
                let attempts = attempts::list(&self.db, delivery.id).await.unwrap();
                return (delivery, attempts);
            }
            assert!(started.elapsed() < WAIT_TIMEOUT, "not {wanted:?}: {delivery:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(self) {
        self.life.stop();
        assert!(self.life.finished().await, "the sender did not stop in time");
    }
}

#[tokio::test]
async fn a_delivery_is_sent_signed_and_logged_without_secrets() {
    on_each_schema(&crate::migrations(), |db| async move {
        let receiver = Receiver::start(|_, _| {
            let headers = "Set-Cookie: a=b\r\nX-Id: 7\r\nX-Echo: Basic YWRhOmh1bnRlcjI=\r\nContent-Length: 10";
            format!("HTTP/1.1 201 Created\r\n{headers}\r\n\r\nhunter2 ok")
        })
        .await;
        let bench = Bench::start(db, "127.0.0.1", "");
        let url = format!("http://ada:hunter2@{}/in?x=1", receiver.address);
        let new = NewHook { secret: Some(Secret::new("s3cr3t")), ..bench.new_hook(&url) };
        let hook = bench.insert(&new).await.id;
        let uuid = bench.deliver(hook, 1, r#"{"a":"<b>"}"#).await;
        let (delivery, attempts) = bench.until(hook, &uuid, Status::Succeeded).await;
        assert_eq!((delivery.attempts, delivery.response_status, delivery.next_attempt_us), (1, Some(201), None));
        assert!(delivery.finished_us.is_some());

        let request = receiver.received().remove(0);
        let text = "{\n  \"a\": \"\\u003cb\\u003e\"\n}";
        assert_eq!((request.path.as_str(), request.body.as_slice()), ("/in?x=1", text.as_bytes()));
        let header = |name: &str| request.headers[name].as_str();
        assert_eq!(header("user-agent"), concat!("Ferrite/", env!("CARGO_PKG_VERSION")));
        assert_eq!(header("authorization"), "Basic YWRhOmh1bnRlcjI=");
        for name in ["x-gogs-delivery", "x-gitea-delivery", "x-github-delivery", "x-ferrite-delivery", "webhook-id"] {
            assert_eq!(header(name), uuid);
        }
        for name in ["x-gogs-event", "x-gitea-event", "x-forgejo-event-type", "x-github-event", "x-ferrite-event"] {
            assert_eq!(header(name), "push");
        }
        assert_eq!(header("x-ferrite-attempt"), "1");
        let signature = super::message::hex_hmac(&Secret::new("s3cr3t"), text.as_bytes());
        assert_eq!((header("x-gogs-signature"), header("x-gitea-signature")), (signature.as_str(), signature.as_str()));
        assert_eq!(header("x-hub-signature-256"), format!("sha256={signature}"));

        let [attempt] = attempts.as_slice() else { panic!("{attempts:?}") };
        assert_eq!(attempt.request_body.as_deref(), Some(text.as_bytes()));
        assert_eq!(attempt.response_body.as_deref(), Some(b"*** ok".as_slice()));
        assert!(attempt.shown_url.contains("ada:***@") && attempt.error.is_none());
        let log = format!("{attempt:?}").to_lowercase();
        for secret in ["s3cr3t", "hunter2", "ywrhomh1", "a=b", "signature", "cookie", "authorization"] {
            assert!(!log.contains(secret), "{secret} is in {log}");
        }
        assert!(log.contains("x-id"), "{log}");
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_failed_delivery_is_repeated_with_its_id_before_later_ones() {
    on_each_schema(&crate::migrations(), |db| async move {
        let receiver = Receiver::start(|number, _| status(if number < 3 { 500 } else { 200 })).await;
        let bench = Bench::start(db, "127.0.0.1", "0,0,0,0");
        let hook = bench.hook(&format!("http://{}/", receiver.address)).await;
        let first = bench.deliver(hook, 1, "{}").await;
        let second = bench.deliver(hook, 1, "{}").await;
        bench.until(hook, &second, Status::Succeeded).await;
        let (delivery, attempts) = bench.until(hook, &first, Status::Succeeded).await;
        assert_eq!((delivery.attempts, attempts.len()), (4, 4));
        let ids = receiver.header("x-ferrite-delivery");
        assert_eq!(ids, [first.clone(), first.clone(), first.clone(), first, second]);
        assert_eq!(receiver.header("x-ferrite-attempt"), ["1", "2", "3", "4", "1"]);
        assert_eq!(bench.hooks.hook(hook).await.unwrap().unwrap().failing_since_us, None);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn after_three_repetitions_later_deliveries_pass_and_after_the_last_one_it_is_exhausted() {
    on_each_schema(&crate::migrations(), |db| async move {
        let receiver = Receiver::start(|_, request| status(if request.body == b"{}" { 200 } else { 503 })).await;
        let bench = Bench::start(db, "127.0.0.1", "0,0,0,1");
        let hook = bench.hook(&format!("http://{}/", receiver.address)).await;
        let first = bench.deliver(hook, 1, "[]").await;
        let second = bench.deliver(hook, 1, "{}").await;
        bench.until(hook, &second, Status::Succeeded).await;
        let (delivery, _) = bench.until(hook, &first, Status::Retrying).await;
        assert_eq!(delivery.attempts, 4);
        assert!(delivery.next_attempt_us.is_some());
        let (delivery, _) = bench.until(hook, &first, Status::Exhausted).await;
        assert_eq!((delivery.attempts, delivery.response_status), (5, Some(503)));
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_hook_that_is_gone_is_paused_until_it_is_resumed_and_tests_are_sent_meanwhile() {
    on_each_schema(&crate::migrations(), |db| async move {
        let receiver = Receiver::start(|number, _| status(if number == 0 { 410 } else { 200 })).await;
        let bench = Bench::start(db, "127.0.0.1", "0,0");
        let hook = bench.hook(&format!("http://{}/", receiver.address)).await;
        let first = bench.deliver(hook, 1, "{}").await;
        bench.until(hook, &first, Status::Retrying).await;
        let second = bench.deliver(hook, 2, "{}").await;
        let paused = bench.hooks.hook(hook).await.unwrap().unwrap().paused_reason;
        assert_eq!(paused.as_deref(), Some("the receiver responded with 410 Gone"));
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert_eq!(receiver.received().len(), 1);

        let test = NewDelivery { source: 4, ..bench.new_delivery(hook, 1, "{}").await };
        let mut tx = bench.db.begin().await.unwrap();
        enqueue_alone(&mut tx, &test, 0).await.unwrap();
        tx.commit().await.unwrap();
        bench.sender.wake();
        for uuid in [&test.uuid, &first, &second] {
            bench.until(hook, uuid, Status::Succeeded).await;
        }
        assert_eq!(bench.hooks.hook(hook).await.unwrap().unwrap().paused_reason, None);
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn redirects_and_forbidden_addresses_are_failed_attempts() {
    on_each_schema(&crate::migrations(), |db| async move {
        let target = Receiver::start(|_, _| status(200)).await;
        let location = format!("http://{}/", target.address);
        let redirect =
            Receiver::start(move |_, _| format!("HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"))
                .await;
        let bench = Bench::start(db.clone(), "127.0.0.1", "");
        let hook = bench.hook(&format!("http://{}/", redirect.address)).await;
        let uuid = bench.deliver(hook, 1, "{}").await;
        let (delivery, _) = bench.until(hook, &uuid, Status::Exhausted).await;
        assert_eq!(delivery.response_status, Some(307));
        bench.stop().await;

        // The operator no longer allows the address.
        let bench = Bench::start(db, "", "");
        let hook = bench.hook(&format!("http://{}/", target.address)).await;
        let uuid = bench.deliver(hook, 1, "{}").await;
        let (delivery, attempts) = bench.until(hook, &uuid, Status::Exhausted).await;
        assert_eq!(delivery.response_status, None);
        let error = attempts[0].error.clone().unwrap();
        assert!(!error.contains("127.0.0.1"), "{error}");
        assert!(OutboundUrl::parse(&format!("http://{}/", target.address), &bench.policy).is_err());
        assert!(target.received().is_empty());
        bench.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_silent_receiver_delays_no_other_hook() {
    on_each_schema(&crate::migrations(), |db| async move {
        let silent = Receiver::start(|_, _| String::new()).await;
        let healthy = Receiver::start(|_, _| status(200)).await;
        let bench = Bench::start(db, "127.0.0.1", "1");
        let waiting = bench.hook(&format!("http://{}/", silent.address)).await;
        let served = bench.hook(&format!("http://{}/", healthy.address)).await;
        for repository in 1..=20 {
            bench.deliver(waiting, repository, "{}").await;
        }
        let started = Instant::now();
        for repository in 1..=20 {
            let uuid = bench.deliver(served, repository, "{}").await;
            bench.until(served, &uuid, Status::Succeeded).await;
        }
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        assert_eq!(silent.received().len(), super::MAX_SENDS_PER_HOOK);
        // Not awaited: the requests run into their timeout.
        bench.life.stop();
    })
    .await;
}

#[tokio::test]
async fn a_waiting_delivery_follows_the_hook_to_its_new_url_and_format() {
    on_each_schema(&crate::migrations(), |db| async move {
        let old = Receiver::start(|_, _| status(500)).await;
        let new = Receiver::start(|_, _| {
            let body = "x".repeat(100_000);
            format!("HTTP/1.1 200 X\r\nContent-Length: 100000\r\n\r\n{body}")
        })
        .await;
        let bench = Bench::start(db, "127.0.0.1", "3600");
        let slack = NewHook {
            kind: HookType::Slack,
            content_type: ContentType::Form,
            ..bench.new_hook(&format!("http://{}/", old.address))
        };
        let hook = bench.insert(&slack).await;
        let payload = recorded::body("native-push").lines().map(str::trim_start).collect::<String>();
        let uuid = bench.deliver(hook.id, 1, &payload).await;
        bench.until(hook.id, &uuid, Status::Retrying).await;
        let mut tx = bench.db.begin().await.unwrap();
        let mut edited = bench.hooks.lock(&mut tx, hook.owner, hook.id).await.unwrap();
        let url = format!("http://{}/", new.address);
        edited.set_url(bench.hooks.sealer(), &url, &url).unwrap();
        bench.hooks.update(&mut tx, &edited).await.unwrap();
        deliveries::redeliver(&mut tx, hook.id, &uuid, Clock::system().now_us()).await.unwrap();
        resume(&mut tx, hook.id, 0).await.unwrap();
        tx.commit().await.unwrap();
        bench.sender.wake();
        let (_, attempts) = bench.until(hook.id, &uuid, Status::Succeeded).await;
        assert_eq!((old.received().len(), new.received().len()), (1, 1));
        let request = new.received().remove(0);
        assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
        let form: Vec<_> = url::form_urlencoded::parse(&request.body).collect();
        assert_eq!(form[0].0, "payload");
        assert!(form[0].1.contains("\"attachments\""), "{}", form[0].1);
        assert_eq!(attempts[0].request_body, attempts[1].request_body);
        assert_eq!(attempts[1].response_body.as_ref().unwrap().len(), attempts::MAX_KEPT_BODY_BYTES);
        assert!(attempts[1].is_response_cut && !attempts[1].is_request_cut);
        bench.stop().await;
    })
    .await;
}
