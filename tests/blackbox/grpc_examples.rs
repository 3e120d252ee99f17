//! The examples of `docs/grpc.md`, run as a reader would.

use std::process::Stdio;

use ferrite_core::net::Address;
use serde_json::json;
use tokio::process::Command;
use tonic::transport::Endpoint;

use crate::harness::{Cluster, Role, User};

#[path = "../../docs/examples/open_issue.rs"]
mod example;

const PYTHON_EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/examples/open_issue.py");
/// Python with the packages of the example, installed by `tests/needs.sh`.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/python/bin/python3");

on_profiles! {
    both {
        the_example_in_python_opens_one_issue
        the_example_in_rust_opens_one_issue
    }
}

async fn repository(cluster: &Cluster) -> User {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"private": true})).await;
    ada
}

async fn titles(user: &User) -> Vec<String> {
    user.get(&user.repo("demo", "/issues")).await.expect(200).each("title")
}

async fn run_python(cluster: &Cluster, token: &str, arguments: [&str; 2]) -> (String, String) {
    let output = Command::new(PYTHON)
        .arg(PYTHON_EXAMPLE)
        .args(arguments)
        .env_clear()
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("FERRITE_REPO", cluster.address(Role::Repo).to_string())
        .env("FERRITE_ISSUE", cluster.address(Role::Issue).to_string())
        .env("FERRITE_TOKEN", token)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = output.await.expect("the interpreter that tests/needs.sh installs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    (text(&output.stdout), text(&output.stderr))
}

async fn the_example_in_python_opens_one_issue(cluster: &Cluster) {
    let ada = repository(cluster).await;
    let (name, token) = (format!("{}/demo", ada.name), ada.token.clone().unwrap());
    let (printed, complaint) = run_python(cluster, &token, [&name, "Opened over gRPC"]).await;
    assert_eq!(printed, "#1 Opened over gRPC", "{complaint}");
    assert_eq!(titles(&ada).await, ["Opened over gRPC"]);
    let (_, complaint) = run_python(cluster, &"0".repeat(40), [&name, "x"]).await;
    assert!(complaint.starts_with("UNAUTHENTICATED: "), "{complaint}");
    let outsider = cluster.outsider().await;
    let (_, complaint) = run_python(cluster, outsider.token.as_ref().unwrap(), [&name, "x"]).await;
    assert!(complaint.starts_with("NOT_FOUND: "), "{complaint}");
}

async fn the_example_in_rust_opens_one_issue(cluster: &Cluster) {
    let ada = repository(cluster).await;
    let endpoint = |role| match cluster.address(role) {
        Address::Tcp(authority) => Endpoint::from_shared(format!("http://{authority}")).unwrap(),
        Address::Unix(path) => Endpoint::from_shared(format!("unix:{}", path.display())).unwrap(),
    };
    let services = (endpoint(Role::Repo), endpoint(Role::Issue));
    let token = ada.token.clone().unwrap();
    let number = example::open_issue(services, &token, (&ada.name, "demo"), "Opened over gRPC").await.unwrap();
    assert_eq!((number, titles(&ada).await), (1, vec!["Opened over gRPC".to_owned()]));
}
