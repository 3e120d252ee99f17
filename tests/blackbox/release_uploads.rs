//! Uploads of release files that are cut off, too large, too slow, or hit by killed services. A
//! file exists completely or not at all, a repeated upload succeeds, and the store keeps no file
//! without a release.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::{Body, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::harness::{Cluster, Options, Response, Role, User};

on_own_installations! {
    killed_services_leave_whole_files_or_none(options())
}

const MAX_ASSET_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS: usize = 40;

fn options() -> Options {
    let settings = vec![("FERRITE_GATEWAY_MAX_ASSET_BYTES", "4194304"), ("FERRITE_GIT_IDLE_SECONDS", "4")];
    Options { settings, ..Options::default() }
}

/// The release that gets files.
struct Fixture {
    ada: User,
    path: String,
}

impl Fixture {
    async fn new(cluster: &Cluster) -> Self {
        let ada = cluster.user("ada").await;
        ada.new_repository("demo", json!({"auto_init": true})).await;
        let release = ada.post(&ada.repo("demo", "/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
        let path = ada.repo("demo", &format!("/releases/{}/assets", release["id"]));
        Self { ada, path }
    }

    fn request(&self, name: &str) -> RequestBuilder {
        let request = self.ada.request(Method::POST, &format!("{}?name={name}", self.path));
        request.header("content-type", "application/octet-stream").header("idempotency-key", format!("key of {name}"))
    }

    /// A request whose body comes from the returned channel.
    fn streamed(&self, name: &str) -> (RequestBuilder, mpsc::Sender<Result<Vec<u8>, std::io::Error>>) {
        let (sender, chunks) = mpsc::channel(1);
        (self.request(name).body(Body::wrap_stream(ReceiverStream::new(chunks))), sender)
    }

    async fn assets(&self) -> Vec<Value> {
        self.ada.get(&self.path).await.expect(200).json().as_array().unwrap().clone()
    }

    async fn content_of(&self, asset: &Value) -> Vec<u8> {
        let address = asset["browser_download_url"].as_str().unwrap().strip_prefix(&self.ada.url).unwrap().to_owned();
        Response::of(self.ada.raw(Method::GET, &address)).await.expect(200).body
    }
}

fn chunk(number: usize) -> Vec<u8> {
    vec![u8::try_from(number % 251).unwrap(); CHUNK_BYTES]
}

fn stored_files(cluster: &Cluster) -> Vec<PathBuf> {
    let (mut folders, mut files) = (vec![cluster.store().join("repos")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().map(Result::unwrap) {
            let path = entry.path();
            if folder.ends_with("assets") {
                files.push(path);
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    files
}

async fn killed_services_leave_whole_files_or_none(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let whole: Vec<u8> = (0..CHUNKS).flat_map(chunk).collect();
    for (round, role) in [Role::Git, Role::Repo, Role::Git, Role::Gateway].into_iter().enumerate() {
        let name = format!("file-{round}");
        let (request, sender) = fixture.streamed(&name);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { Response::try_of(request).await });
        let kill_at = 5 + 9 * round;
        for number in 0..CHUNKS {
            if number == kill_at {
                cluster.crash(role);
                let names: Vec<_> = fixture.assets().await.iter().map(|asset| asset["name"].clone()).collect();
                assert!(!names.contains(&json!(name)), "it is not complete yet");
            }
            if sender.send(Ok(chunk(number))).await.is_err() {
                break;
            }
        }
        drop(sender);
        let outcome = tasks.join_next().await.unwrap().unwrap();
        // A killed service that has not been asked yet does no harm: the gateway may not have
        // passed on the first chunks, and the entry is written last.
        let is_done = outcome.is_ok_and(|response| response.status.as_u16() == 201);
        assert!(!is_done || role != Role::Gateway, "{role:?} was killed");
        assert_eq!(fixture.assets().await.len(), round + usize::from(is_done));
        let repeated = Response::of(fixture.request(&name).body(whole.clone())).await.expect(201).json();
        assert_eq!(fixture.assets().await.last(), Some(&repeated));
        assert!(fixture.content_of(&repeated).await == whole);
    }
    too_large_slow_and_broken_uploads_leave_nothing(&fixture).await;
    nothing_stays_that_no_release_has(cluster, &fixture).await;
}

async fn too_large_slow_and_broken_uploads_leave_nothing(fixture: &Fixture) {
    let before = fixture.assets().await.len();
    // The connection may close before the client has sent the whole body and read the response.
    let is_refused =
        |outcome: Result<Response, reqwest::Error>| outcome.map_or(true, |response| response.status.as_u16() == 413);
    let declared = Response::try_of(fixture.request("large").body(vec![0; MAX_ASSET_BYTES + 1])).await;
    assert!(is_refused(declared));
    let (request, sender) = fixture.streamed("large");
    let mut undeclared = JoinSet::new();
    undeclared.spawn(async move { Response::try_of(request).await });
    for number in 0..=MAX_ASSET_BYTES / CHUNK_BYTES {
        if sender.send(Ok(chunk(number))).await.is_err() {
            break;
        }
    }
    drop(sender);
    assert!(is_refused(undeclared.join_next().await.unwrap().unwrap()));
    let mut tasks = JoinSet::new();
    let (request, sender) = fixture.streamed("slow");
    tasks.spawn(async move { Response::of(request).await });
    sender.send(Ok(chunk(0))).await.unwrap();
    tasks.join_next().await.unwrap().unwrap().refused(408);
    drop(sender);
    let (request, sender) = fixture.streamed("broken");
    tasks.spawn(async move { Response::of(request).await });
    sender.send(Ok(chunk(0))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    tasks.abort_all();
    assert_eq!(fixture.assets().await.len(), before);
}

/// Also checks download counts, which a process writes when it stops.
async fn nothing_stays_that_no_release_has(cluster: &Cluster, fixture: &Fixture) {
    let asset = fixture.assets().await.pop().unwrap();
    for _ in 0..3 {
        fixture.content_of(&asset).await;
    }
    let address = asset["browser_download_url"].as_str().unwrap().strip_prefix(&fixture.ada.url).unwrap().to_owned();
    let part = fixture.ada.raw(Method::GET, &address).header("range", "bytes=0-9");
    Response::of(part).await.expect(206);
    cluster.change(Role::Repo, "UPDATE unclaimed_files SET due_us = 1".to_owned()).await;
    // Once in the loop above, and three times here.
    let mut counted = 0;
    for _ in 0..10 {
        // The gateway reports a download after it has sent the file.
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.restart(Role::Repo);
        counted = fixture.assets().await.pop().unwrap()["download_count"].as_i64().unwrap();
        if counted >= 4 {
            break;
        }
    }
    assert_eq!(counted, 4);
    let wanted = fixture.assets().await.len();
    for _ in 0..400 {
        if stored_files(cluster).len() == wanted {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(stored_files(cluster).len(), wanted);
    fixture.ada.delete(&fixture.ada.repo("demo", "")).await.expect(204);
    for _ in 0..400 {
        if stored_files(cluster).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("files of a deleted repository are left behind: {:?}", stored_files(cluster));
}
