use std::time::{Duration, Instant};

use ferrite_core::net::Address;
use serde_json::json;

use crate::harness::cluster::http_get;
use crate::harness::{Cluster, Options, Profile, Role, User, run};

const REQUESTS: u32 = 100;
/// Time for counting the statements of background tasks, which are subtracted from the
/// measurements: these last longer on a slow machine.
const IDLE_TIME: Duration = Duration::from_secs(3);
/// Requests before a measurement, to fill caches and prepare statements on every connection.
const WARMUP_REQUESTS: u32 = 20;
const METRIC: &str = "ferrite_db_statements_total";

#[test]
fn a_request_costs_few_statements() {
    let cluster = Cluster::start(Profile::Production, &Options::default());
    run(&cluster, count(&cluster));
}

async fn count(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    prepare(&ada, &bob).await;
    let (demo, fork) = (ada.repo("demo", ""), bob.repo("demo", ""));
    let aims = [
        (format!("/users/{}", bob.name), 1),
        (demo.clone(), 1),
        (fork, 1),
        (format!("{demo}/issues/1"), 3),
        (format!("{demo}/issues?limit=50"), 3),
        (format!("{demo}/branches"), 3),
        ("/repos/search?q=demo".to_owned(), 2),
    ];
    // Until all events have arrived.
    tokio::time::sleep(IDLE_TIME).await;
    let (begin, before) = (Instant::now(), statements(cluster));
    tokio::time::sleep(IDLE_TIME).await;
    let in_background = (statements(cluster) - before) / begin.elapsed().as_secs_f64();
    for (path, aim) in aims {
        repeat(&ada, &path, WARMUP_REQUESTS).await;
        let (begin, before) = (Instant::now(), statements(cluster));
        repeat(&ada, &path, REQUESTS).await;
        let (time, counted) = (begin.elapsed(), statements(cluster) - before);
        let each = (counted - in_background * time.as_secs_f64()) / f64::from(REQUESTS);
        println!("{path}: {each:.2} statements, {:.2?}", time / REQUESTS);
        assert!(each >= 0.5, "{path}: {METRIC} does not change");
        assert!(each < f64::from(aim + 1), "{path} costs {each:.2} statements, more than {aim}");
    }
}

/// Creates a repository with a fork, and issues that have every part, by two authors.
async fn prepare(ada: &User, bob: &User) {
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let demo = ada.repo("demo", "");
    let file = json!({"content": "dGV4dA==", "message": "By Bob", "new_branch": "topic",
        "author": {"name": "Bob", "email": bob.email}});
    ada.put(&format!("{demo}/contents/file"), &file).await.expect(201);
    let labels = [ada.new_label(&demo, "bug").await, ada.new_label(&demo, "late").await];
    let milestones = [ada.new_milestone(&demo, "1.0").await, ada.new_milestone(&demo, "2.0").await];
    for author in [bob, ada] {
        for milestone in milestones {
            let number = author.new_issue(&demo, "demo", json!({"body": "text"})).await["number"].as_i64().unwrap();
            ada.edit_issue(&demo, number, json!({"milestone": milestone, "assignee": ada.name})).await;
            ada.post(&format!("{demo}/issues/{number}/labels"), &json!({ "labels": labels })).await.expect(200);
        }
    }
    bob.post(&format!("{demo}/forks"), &json!({})).await.expect(201);
}

async fn repeat(user: &User, path: &str, count: u32) {
    for _ in 0..count {
        user.get(path).await.expect(200);
    }
}

fn statements(cluster: &Cluster) -> f64 {
    let services = [Role::Repo, Role::Issue, Role::Hook, Role::Git];
    services.into_iter().map(|role| metric(&cluster.address(role))).sum()
}

/// Sum of a metric over the service that listens on `address`.
fn metric(address: &Address) -> f64 {
    let Address::Tcp(authority) = address else { panic!("not an address of this profile: {address:?}") };
    let (host, port) = authority.rsplit_once(':').unwrap();
    let private = format!("{host}:{}", port.parse::<u16>().unwrap() + 2000);
    let text = http_get(&Address::Tcp(private), "/metrics").expect("the private listener answers");
    let values = text.lines().filter(|line| line.starts_with(METRIC)).filter_map(|line| line.rsplit_once(' '));
    values.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}
