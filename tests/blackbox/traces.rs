//! Traces, as received by a collector: the number of calls behind a request, and one trace from a
//! push or commit to its webhook request.

use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use serde_json::json;
use tonic::{Request, Response, Status};

use crate::harness::receiver::{LOOPBACK, Received, Receiver};
use crate::harness::{Cluster, Git, Options, Profile, User};

on_own_installations! {
    reads_of_one_repository_and_of_many_take_one_hop(Options { otlp: Some(collector()), ..Options::default() })
    lists_of_issues_take_one_call_for_all_accounts(Options { otlp: Some(collector()), ..Options::default() })
    a_push_and_the_request_of_its_webhook_are_one_trace(with_webhooks())
    a_commit_by_api_and_the_request_of_its_webhook_are_one_trace(with_webhooks())
}

/// Time limit for all processes to send their spans.
const SPANS_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
struct Span {
    trace: String,
    service: String,
    name: String,
    is_server: bool,
    id: String,
    /// Empty for the first span of a trace.
    parent: String,
    /// The attribute `db.system.name`.
    database: Option<String>,
}

static SPANS: Mutex<Vec<Span>> = Mutex::new(Vec::new());

struct Collector;

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            let service = format!("{:?}", service.and_then(|attribute| attribute.value));
            for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                SPANS.lock().unwrap().push(Span {
                    trace: hex::encode(&span.trace_id),
                    service: service.clone(),
                    is_server: span.kind == SpanKind::Server as i32,
                    id: hex::encode(&span.span_id),
                    parent: hex::encode(&span.parent_span_id),
                    database: text_of(&span.attributes, "db.system.name"),
                    name: span.name,
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse { partial_success: None }))
    }
}

fn text_of(attributes: &[KeyValue], key: &str) -> Option<String> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.clone()?.value?;
    match value {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// The endpoint of a collector that runs until the test process ends.
fn collector() -> String {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    ENDPOINT
        .get_or_init(|| {
            let address: std::net::SocketAddr = format!("{}:4317", crate::harness::servers::address()).parse().unwrap();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector));
                runtime.block_on(server.serve(address)).unwrap();
            });
            while std::net::TcpStream::connect(address).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
            format!("http://{address}")
        })
        .clone()
}

async fn traced(user: &User, path: &str, number: u8) -> String {
    let trace = hex::encode([number; 16]);
    let parent = format!("00-{trace}-{}-01", hex::encode([number; 8]));
    let name = reqwest::header::HeaderName::from_static("traceparent");
    user.get_with(path, name, &parent).await.expect(200);
    trace
}

fn servers(trace: &str) -> Vec<Span> {
    SPANS.lock().unwrap().iter().filter(|span| span.trace == trace && span.is_server).cloned().collect()
}

async fn reads_of_one_repository_and_of_many_take_one_hop(cluster: &Cluster) {
    // Both profiles share the collector; trace ids tell them apart.
    let base = if cluster.profile == Profile::Embedded { 0x10 } else { 0x60 };
    let ada = cluster.user("ada").await;
    for name in ["traced", "second", "third"] {
        ada.new_repository(name, json!({"auto_init": true})).await;
    }
    let one = ada.repo("traced", "");
    let reads = [
        (ada.clone(), one.clone(), "RepositoryService/GetRepository"),
        (cluster.anonymous(), one, "RepositoryService/GetRepository"),
        (ada.clone(), "/user/repos?limit=1000".to_owned(), "RepositoryService/ListRepositories"),
        (ada.clone(), format!("/users/{}/repos", ada.name), "RepositoryService/ListRepositories"),
        (ada.clone(), "/repos/search?q=traced&limit=50".to_owned(), "RepositoryService/SearchRepositories"),
        (ada.clone(), ada.repo("traced", "/collaborators"), "CollaboratorService/ListCollaborators"),
    ];
    for ((caller, path, rpc), number) in reads.into_iter().zip((base..).step_by(2)) {
        let spans = spans_of(&caller, &path, number, 2).await;
        let calls: Vec<_> = spans.iter().filter(|span| !span.service.contains("gateway")).collect();
        assert_eq!(spans.len(), 2, "{spans:?}");
        assert_eq!(calls.len(), 1, "{spans:?}");
        assert!(calls[0].name.ends_with(rpc), "{calls:?}");
        assert!(calls[0].service.contains("repo-svc"), "{calls:?}");
    }
}

/// Sends a request in the trace with this number. Waits for `count` server spans and returns them.
async fn spans_of(caller: &User, path: &str, number: u8, count: usize) -> Vec<Span> {
    let trace = traced(caller, path, number).await;
    // Processes send their spans in order: once those of a later request have arrived, no earlier
    // one is missing.
    let later = traced(caller, path, number + 1).await;
    for _ in 0..200 {
        if servers(&later).len() >= count {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    servers(&trace)
}

async fn lists_of_issues_take_one_call_for_all_accounts(cluster: &Cluster) {
    let base = if cluster.profile == Profile::Embedded { 0xa0 } else { 0xd0 };
    let (ada, bob, cy) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("cy").await);
    let (repo, empty) = (ada.new_tracker("tracker", json!({})).await, ada.new_tracker("empty", json!({})).await);
    let (label, milestone) = (ada.new_label(&repo, "bug").await, ada.new_milestone(&repo, "One").await);
    for user in [&ada, &bob, &cy] {
        user.new_issue(&repo, "Mine", json!({})).await;
        let more = json!({"labels": [label], "milestone": milestone, "assignee": user.name});
        ada.new_issue(&repo, "Assigned", more).await;
        user.new_comment(&repo, 1, "Text").await;
    }
    let of_repository = |rpc| vec!["AccessService/ResolveAccess", "AccountService/GetUsers", rpc];
    let without_accounts = |rpc| vec!["AccessService/ResolveAccess", rpc];
    for ((path, expected), number) in [
        (format!("{repo}/issues?state=all&limit=50"), of_repository("IssueService/ListIssues")),
        (format!("{repo}/issues/1"), without_accounts("IssueService/GetIssue")),
        (format!("{repo}/issues/3"), of_repository("IssueService/GetIssue")),
        (format!("{repo}/issues/1/comments"), of_repository("CommentService/ListComments")),
        (format!("{repo}/issues/comments"), of_repository("CommentService/ListComments")),
        (format!("{empty}/issues"), without_accounts("IssueService/ListIssues")),
        (format!("{repo}/labels"), without_accounts("LabelService/ListLabels")),
        (format!("{repo}/milestones"), without_accounts("MilestoneService/ListMilestones")),
    ]
    .into_iter()
    .zip((base..).step_by(2))
    {
        let spans = spans_of(&ada, &path, number, expected.len() + 1).await;
        let calls = spans.iter().filter(|span| !span.service.contains("gateway"));
        let mut calls: Vec<_> = calls.map(|span| span.name.rsplit('.').next().unwrap_or_default()).collect();
        calls.sort_unstable();
        assert_eq!(calls, expected, "{path}: {spans:?}");
    }
}

fn with_webhooks() -> Options {
    Options { otlp: Some(collector()), settings: LOOPBACK.to_vec(), ..Options::default() }
}

/// A trace started by a client, different from those of other tests.
fn new_trace(cluster: &Cluster, purpose: u8) -> (String, String) {
    let mut id = [purpose; 16];
    id[0] = if cluster.profile == Profile::Embedded { 1 } else { 2 };
    let trace = hex::encode(id);
    let parent = format!("00-{trace}-{}-01", hex::encode([purpose; 8]));
    (trace, parent)
}

async fn with_hook(ada: &User, receiver: &Receiver) -> String {
    ada.new_repository("traced", json!({"auto_init": true})).await;
    let repo = ada.repo("traced", "");
    let config = json!({"url": receiver.url("/traced"), "content_type": "json"});
    let hook = json!({"type": "native", "config": config, "events": ["push"], "active": true});
    ada.post(&format!("{repo}/hooks"), &hook).await.expect(201);
    repo
}

/// Waits for the webhook request in this trace, and until the trace is complete: each process sends
/// its spans separately.
async fn delivered_in_whole_trace(cluster: &Cluster, receiver: &Receiver, trace: &str, names: &[&str]) -> Received {
    let in_trace = |received: &&Received| received.header("traceparent").get(3..35) == Some(trace);
    let all = receiver.until(|all| all.iter().any(|received| in_trace(&received))).await;
    let received = all.iter().find(in_trace).unwrap().clone();
    let sender = received.header("traceparent")[36..52].to_owned();
    let begun = Instant::now();
    loop {
        let spans = spans_in(trace);
        let mut missing = missing(cluster, &spans, trace, names);
        if !spans.iter().any(|span| span.id == sender) {
            missing.push("the span of the delivery".to_owned());
        }
        if missing.is_empty() {
            return received;
        }
        assert!(begun.elapsed() < SPANS_TIMEOUT, "the trace lacks {missing:?}: {spans:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn spans_in(trace: &str) -> Vec<Span> {
    SPANS.lock().unwrap().iter().filter(|span| span.trace == trace).cloned().collect()
}

/// Returns what a trace lacks: parents of spans (except the client), services, and spans with these
/// names or databases.
fn missing(cluster: &Cluster, spans: &[Span], trace: &str, names: &[&str]) -> Vec<String> {
    let client = &trace[16..];
    let is_known = |parent: &str| parent == client || spans.iter().any(|span| span.id == parent);
    let unconnected = spans.iter().filter(|span| !is_known(&span.parent));
    let mut missing: Vec<_> = unconnected.map(|span| format!("the parent of {}", span.name)).collect();
    let services = ALL_BUT_ISSUES.iter().filter(|service| !spans.iter().any(|span| span.service.contains(**service)));
    missing.extend(services.map(|service| (*service).to_owned()));
    let database = if cluster.profile == Profile::Production { "postgresql" } else { "sqlite" };
    let has = |name: &str| spans.iter().any(|span| span.name == name || span.database.as_deref() == Some(name));
    let names =
        [database, "deliver events", "refs.updated", "webhook delivery"].into_iter().chain(names.iter().copied());
    missing.extend(names.filter(|name| !has(name)).map(str::to_owned));
    missing
}

const ALL_BUT_ISSUES: [&str; 4] = ["ferrite-gateway", "ferrite-repo-svc", "ferrite-git-svc", "ferrite-hook-svc"];

async fn a_push_and_the_request_of_its_webhook_are_one_trace(cluster: &Cluster) {
    let (ada, receiver) = (cluster.user("ada").await, Receiver::start().await);
    with_hook(&ada, &receiver).await;
    let git = Git::new();
    // With the password: wrong ones are counted in Redis, and a correct one checks the counts.
    let url = ada.git_url_with_password(&ada.name, "traced");
    git.run("", &["clone", "-q", &url, "work"]).await;
    git.commit("work", "pushed.txt", "text\n").await;
    let (trace, parent) = new_trace(cluster, 0x51);
    let header = format!("http.extraHeader=traceparent: {parent}");
    git.run("work", &["-c", &header, "push", "-q", "origin", "HEAD:main"]).await;
    let is_embedded = cluster.profile == Profile::Embedded;
    let names = if is_embedded { &["receive-pack", "git hook"][..] } else { &["receive-pack", "git hook", "redis"] };
    let received = delivered_in_whole_trace(cluster, &receiver, &trace, names).await;
    assert_eq!(received.event(), "push");
    let has_redis = spans_in(&trace).iter().any(|span| span.database.as_deref() == Some("redis"));
    assert!(!(is_embedded && has_redis), "{:#?}", spans_in(&trace));
}

async fn a_commit_by_api_and_the_request_of_its_webhook_are_one_trace(cluster: &Cluster) {
    let (ada, receiver) = (cluster.user("ada").await, Receiver::start().await);
    let repo = with_hook(&ada, &receiver).await;
    let (trace, parent) = new_trace(cluster, 0x52);
    let file = json!({"content": "dGV4dA==", "message": "By API", "branch": "main"});
    let request = ada.request(reqwest::Method::PUT, &format!("{repo}/contents/new.txt")).json(&file);
    let response = request.header("traceparent", parent).send().await.unwrap();
    assert_eq!(response.status(), 201);
    delivered_in_whole_trace(cluster, &receiver, &trace, &[]).await;
}
