//! Oversized commits, tags and trees: pushes of them fail by name, and reads are bounded where a
//! repository has them from before there were limits.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use crate::harness::ssh::client_of;
use crate::harness::{Cluster, Git, Options, Profile, Response, Role, User, is_slow};

on_profiles! {
    embedded {
        oversized_commits_and_tags_are_refused_by_name_over_http_and_ssh
        a_tree_of_too_many_bytes_is_refused_by_name
    }
}

/// Message size of an oversized commit or tag.
const LONG_MESSAGE_BYTES: usize = 60 << 20;
const MAX_COMMIT_BYTES: usize = 1 << 20;
/// Limit of a JSON response.
const MAX_RESPONSE_BYTES: usize = 16 << 20;
/// Limit for the memory growth of gateway and git-svc together. A message of 60 MiB with two copies
/// in each would exceed it.
const MAX_GROWTH_BYTES: u64 = 200 << 20;
const PEOPLE: &str = "author A <a@example.com> 1600000000 +0000\ncommitter A <a@example.com> 1600000000 +0000\n";

/// Lines of text with this total size.
fn text(bytes: usize) -> String {
    let mut text = "a line of a message that goes on and on\n".repeat(bytes / 40 + 1);
    text.truncate(bytes);
    text
}

/// Writes an object that git would reject, and returns its id.
async fn write_object(git: &Git, folder: &str, kind: &str, content: &[u8]) -> String {
    let file = git.path().join("object");
    std::fs::write(&file, content).unwrap();
    git.run(folder, &["hash-object", "-t", kind, "-w", "--literally", file.to_str().unwrap()]).await
}

/// Pushes an object over HTTP and SSH. Both pushes must fail and name it.
async fn refused(git: &Git, urls: &[String], object: &str, refname: &str, reason: &str) {
    for url in urls {
        let stderr = git.fails("work", &["push", "-q", url, &format!("{object}:{refname}")]).await;
        eprintln!("{}", stderr.lines().next().unwrap_or_default());
        assert!(stderr.contains(object) && stderr.contains(reason), "{url}: {stderr}");
    }
}

async fn oversized_commits_and_tags_are_refused_by_name_over_http_and_ssh(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("sizes", json!({})).await;
    let client = client_of(cluster, &ada, "ed25519").await;
    let git = &client.git;
    git.small("work").await;
    let urls = [ada.git_url(&ada.name, "sizes"), client.url(&ada.name, "sizes")];
    git.run("work", &["push", "-q", &urls[0], "main"]).await;
    let (tip, tree) =
        (git.run("work", &["rev-parse", "main"]).await, git.run("work", &["rev-parse", "main^{tree}"]).await);
    let message = text(if is_slow() { LONG_MESSAGE_BYTES } else { 5 * MAX_COMMIT_BYTES });
    let commit = |parents: usize, message: &str| {
        format!("tree {tree}\n{}{PEOPLE}\n{message}", format!("parent {tip}\n").repeat(parents)).into_bytes()
    };
    let long = write_object(git, "work", "commit", &commit(1, &message)).await;
    refused(git, &urls, &long, "refs/heads/long", "bytes; the limit is 1048576").await;
    let tag = format!("object {tip}\ntype commit\ntag long\ntagger A <a@example.com> 1600000000 +0000\n\n{message}");
    let tag = write_object(git, "work", "tag", tag.as_bytes()).await;
    refused(git, &urls, &tag, "refs/tags/long", "bytes; the limit is 1048576").await;
    let wide = write_object(git, "work", "commit", &commit(5000, "Wide")).await;
    refused(git, &urls, &wide, "refs/heads/wide", "5000 parents; the limit is 4096").await;
    // Below an ordinary commit, and among other refs: nothing of the push is kept.
    let above = format!("tree {tree}\nparent {long}\n{PEOPLE}\nAbove");
    let above = write_object(git, "work", "commit", above.as_bytes()).await;
    let refs = [format!("{above}:refs/heads/above"), format!("{tip}:refs/heads/good")];
    let stderr = git.fails("work", &["push", "-q", &urls[0], &refs[0], &refs[1]]).await;
    assert!(stderr.contains(&long), "{stderr}");
    for id in [&long, &wide, &above] {
        ada.get(&ada.repo("sizes", &format!("/commits/{id}"))).await.refused(404);
    }
    ada.get(&ada.repo("sizes", &format!("/git/tags/{tag}"))).await.refused(404);
    assert_eq!(ada.get(&ada.repo("sizes", "/branches")).await.expect(200).each("name"), ["main"]);
    // Objects within the limits are accepted, in small and large pushes.
    for (parents, bytes) in [(1, 20), (4096, 20), (2, 300_000), (1, MAX_COMMIT_BYTES - 1000)] {
        for (url, way) in urls.iter().zip(["http", "ssh"]) {
            let message = format!("{way}\n{}", text(bytes));
            let id = write_object(git, "work", "commit", &commit(parents, &message)).await;
            git.run("work", &["push", "-q", url, &format!("{id}:refs/heads/{way}-{parents}-{bytes}")]).await;
            let shown = ada.get(&ada.repo("sizes", &format!("/commits/{id}"))).await.expect(200).json();
            assert!(shown["commit"]["message"] == message && shown.get("truncated").is_none(), "{parents}, {bytes}");
            assert_eq!(shown["parents"].as_array().unwrap().len(), parents);
        }
    }
}

async fn a_tree_of_too_many_bytes_is_refused_by_name(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("trees", json!({})).await;
    git.small("work").await;
    let url = ada.git_url(&ada.name, "trees");
    git.run("work", &["push", "-q", &url, "main"]).await;
    let blob = git.run("work", &["rev-parse", "main:README.md"]).await;
    let tree = write_object(&git, "work", "tree", &tree(&blob, 900_000, "")).await;
    let commit = write_object(&git, "work", "commit", format!("tree {tree}\n{PEOPLE}\nWide").as_bytes()).await;
    let stderr = git.fails("work", &["push", "-q", &url, &format!("{commit}:refs/heads/wide")]).await;
    assert!(stderr.contains(&format!("the tree {tree} has 36000000 bytes; the limit is 33554432")), "{stderr}");
    ada.get(&ada.repo("trees", &format!("/git/trees/{tree}"))).await.refused(404);
}

fn tree(blob: &str, entries: usize, suffix: &str) -> Vec<u8> {
    let id: Vec<u8> = (0..20).map(|at| u8::from_str_radix(&blob[2 * at..2 * at + 2], 16).unwrap()).collect();
    let mut tree = Vec::new();
    for index in 0..entries {
        tree.extend_from_slice(format!("100644 file-{index:07}{suffix}\0").as_bytes());
        tree.extend_from_slice(&id);
    }
    tree
}

/// A field of `/proc/{id}/status`, in bytes.
fn status(id: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

struct Memory {
    processes: Vec<u32>,
    before: u64,
}

impl Memory {
    fn of(cluster: &Cluster) -> Self {
        let processes: Vec<_> = [Role::Gateway, Role::Git].map(|role| cluster.process_id(role).unwrap()).into();
        let before = processes.iter().map(|id| status(*id, "VmRSS:")).sum();
        Self { processes, before }
    }

    fn growth(&self) -> u64 {
        self.processes.iter().map(|id| status(*id, "VmHWM:")).sum::<u64>().saturating_sub(self.before)
    }
}

fn folder_of(cluster: &Cluster, repository: &Value) -> PathBuf {
    let name = format!("{}.git", repository["id"]);
    let mut folders = vec![cluster.store().join("repos")];
    while let Some(folder) = folders.pop() {
        if folder.file_name().is_some_and(|found| *found == *name) {
            return folder;
        }
        let below = std::fs::read_dir(folder).into_iter().flatten().flatten();
        folders.extend(below.map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    panic!("{name} is not in the store");
}

/// Ids of the objects in [`old_repository`].
struct OldObjects {
    tag: String,
    main: String,
}

/// Adds objects beyond the limits to a stored repository, as older versions accepted them.
async fn old_repository(git: &Git, folder: &Path) -> OldObjects {
    let folder = folder.to_str().unwrap();
    import(git, folder, 100, 256 << 10).await;
    let at = |revision: &'static str| async move { git.run(folder, &["rev-parse", revision]).await };
    let (main, root, blob) = (at("main").await, at("main^{tree}").await, at("main:file").await);
    let commit = |tree: &str, parents: usize, message: &str| {
        format!("tree {tree}\n{}{PEOPLE}\n{message}", format!("parent {main}\n").repeat(parents)).into_bytes()
    };
    let set = |name: &'static str, id: String| async move { git.run(folder, &["update-ref", name, &id]).await };
    let long = write_object(git, folder, "commit", &commit(&root, 1, &text(LONG_MESSAGE_BYTES))).await;
    set("refs/heads/long", long.clone()).await;
    let wide = write_object(git, folder, "commit", &commit(&root, 200_000, "Wide")).await;
    set("refs/heads/wide", wide).await;
    let packed = commit(&root, 1, &format!("Packed\n{}", text(LONG_MESSAGE_BYTES)));
    let packed = write_object(git, folder, "commit", &packed).await;
    pack(git, folder, &[&packed], "0").await;
    set("refs/heads/packed", packed).await;
    let mut deltas = Vec::new();
    for end in ["first", "second"] {
        let content = commit(&root, 1, &format!("{}{end}", text(2 * MAX_COMMIT_BYTES)));
        deltas.push(write_object(git, folder, "commit", &content).await);
    }
    pack(git, folder, &[&deltas[0], &deltas[1]], "10").await;
    set("refs/heads/delta-1", deltas[0].clone()).await;
    set("refs/heads/delta-2", deltas[1].clone()).await;
    let tag = format!("object {long}\ntype commit\ntag long\ntagger A <a@example.com> 1600000000 +0000\n\n");
    let tag = write_object(git, folder, "tag", (tag + &text(LONG_MESSAGE_BYTES)).as_bytes()).await;
    set("refs/tags/v-long", tag.clone()).await;
    for (name, entries, suffix) in
        [("refs/heads/many", 100_000, String::new()), ("refs/heads/paths", 4000, "p".repeat(4000))]
    {
        let tree = write_object(git, folder, "tree", &tree(&blob, entries, &suffix)).await;
        set(name, write_object(git, folder, "commit", &commit(&tree, 1, name)).await).await;
    }
    OldObjects { tag, main }
}

/// Moves objects into a pack, possibly as deltas of each other.
async fn pack(git: &Git, folder: &str, objects: &[&str], window: &str) {
    let mut command = git.command(folder, &["pack-objects", "-q", "--window", window, "objects/pack/pack"]);
    let mut packing = command.stdin(Stdio::piped()).spawn().unwrap();
    packing.stdin.take().unwrap().write_all(objects.join("\n").as_bytes()).await.unwrap();
    assert!(packing.wait().await.unwrap().success());
    git.run(folder, &["prune-packed", "-q"]).await;
}

async fn import(git: &Git, folder: &str, commits: usize, message_bytes: usize) {
    let mut history = String::new();
    for number in 1..=commits {
        let message = format!("Commit {number} <&>\n\n{}", text(message_bytes));
        let signature = format!("A <a@example.com> {} +0000", 1_500_000_000 + number);
        writeln!(history, "commit refs/heads/main\nmark :{number}\nauthor {signature}\ncommitter {signature}").unwrap();
        writeln!(history, "data {}\n{message}\nM 100644 inline file\ndata 2\n{:02}\n", message.len(), number % 100)
            .unwrap();
    }
    let mut import = git.command(folder, &["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(history.as_bytes()).await.unwrap();
    assert!(import.wait().await.unwrap().success());
}

#[test]
fn older_objects_beyond_all_limits_are_read_within_bounds() {
    let cluster = Cluster::start(Profile::Embedded, &Options::default());
    crate::harness::run(&cluster, older_objects_are_read_within_bounds(&cluster));
}

async fn older_objects_are_read_within_bounds(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let repository = ada.new_repository("old", json!({})).await;
    let objects = old_repository(&git, &folder_of(cluster, &repository)).await;
    // It had cached the repository as empty.
    cluster.restart(Role::Git);
    let memory = Memory::of(cluster);
    let reads = Reads { ada: &ada, memory: &memory };

    let page = reads.list("/commits?sha=main&limit=100", 100).await;
    let last = page.as_array().unwrap().last().unwrap();
    assert!(page.as_array().unwrap().iter().all(|commit| commit["truncated"] == true), "{last}");
    assert!(last["commit"]["message"].as_str().unwrap().starts_with("Commit 1 <&>"));
    let single = reads.get(200, &format!("/commits/{}", objects.main)).await.json();
    assert_eq!(single["commit"]["message"].as_str().unwrap().len(), (256 << 10) + "Commit 100 <&>\n\n".len());

    for branch in ["long", "packed"] {
        let commit = reads.get(200, &format!("/commits/{branch}")).await.json();
        assert_eq!((&commit["truncated"], &commit["parents"][0]["sha"]), (&json!(true), &json!(objects.main)));
        assert_eq!(commit["commit"]["message"].as_str().unwrap().len(), MAX_COMMIT_BYTES);
        assert_eq!(commit["commit"]["author"]["date"], "2020-09-13T12:26:40Z");
        let list = reads.list(&format!("/commits?sha={branch}&limit=3"), 3).await;
        assert_eq!(list[0]["commit"]["message"].as_str().unwrap().len(), 64 << 10);
        assert_eq!(list[1]["sha"], json!(objects.main));
        let changes = reads.list(&format!("/commits?sha={branch}&path=file&limit=2"), 2).await;
        assert_eq!(changes[0]["sha"], json!(objects.main));
        let shown = reads.get(200, &format!("/branches/{branch}")).await.json();
        assert_eq!(shown["commit"]["truncated"], true);
        assert_eq!(reads.get(200, &format!("/raw/{branch}/file")).await.text(), "00");
        reads.get(200, &format!("/contents?ref={branch}")).await;
        reads.get(200, &format!("/git/trees/{branch}")).await;
        reads.get(200, &format!("/archive/{branch}.zip")).await;
    }

    let wide = reads.get(200, "/commits/wide").await.json();
    assert_eq!((wide["parents"].as_array().unwrap().len(), &wide["commit"]["message"]), (4096, &json!("Wide")));
    let list = reads.list("/commits?sha=wide&limit=2", 2).await;
    assert_eq!((list[0]["parents"].as_array().unwrap().len(), &list[1]["sha"]), (100, &json!(objects.main)));

    // One of the two is stored whole, the other as a delta.
    let statuses = [reads.response("/commits/delta-1").await, reads.response("/commits/delta-2").await];
    let mut statuses = statuses.map(|response| response.status.as_u16());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422]);
    for branch in ["delta-1", "delta-2"] {
        let first = &reads.get(200, &format!("/commits?sha={branch}&limit=1")).await.json()[0];
        assert_eq!((&first["truncated"], first["sha"].as_str().unwrap().len()), (&json!(true), 40));
    }
    reads.list("/branches", 8).await;

    let tag = reads.get(200, &format!("/git/tags/{}", objects.tag)).await.json();
    assert_eq!((&tag["truncated"], &tag["tagger"]["name"]), (&json!(true), &json!("A")));
    assert_eq!(tag["message"].as_str().unwrap().len(), MAX_COMMIT_BYTES);
    reads.list("/tags", 1).await;
    assert_eq!(reads.get(200, "/commits/v-long").await.json()["truncated"], true);

    for query in ["", "?recursive=1"] {
        let tree = reads.get(200, &format!("/git/trees/many{query}")).await.json();
        let entries = tree["tree"].as_array().unwrap().len();
        assert_eq!(tree["truncated"], true);
        assert!((10_000..100_000).contains(&entries), "{entries}");
    }
    reads.response("/contents?ref=many").await.refused_with_message(422, "git/trees");
    reads.response("/contents?ref=paths").await.refused_with_message(422, "git/trees");
    assert!(reads.get(200, "/git/trees/paths").await.json()["tree"].as_array().unwrap().len() > 1000);

    // A commit on top of an oversized one.
    let path = ada.repo("old", "/contents/new");
    ada.put(&path, &json!({"message": "On top", "content": "eA==", "branch": "long"})).await.expect(201);
    let list = reads.list("/commits?sha=long&limit=2", 2).await;
    assert_eq!(list[0]["commit"]["message"], "On top");

    eprintln!("memory of gateway and git-svc grew by {} MiB", memory.growth() >> 20);
    assert!(memory.growth() < MAX_GROWTH_BYTES, "{} bytes", memory.growth());
}

/// Reads of the repository, each with bounded memory.
struct Reads<'a> {
    ada: &'a User,
    memory: &'a Memory,
}

impl Reads<'_> {
    async fn response(&self, path: &str) -> Response {
        let response = self.ada.get(&self.ada.repo("old", path)).await;
        let (bytes, growth) = (response.body.len(), self.memory.growth() >> 20);
        eprintln!("{path}: {} with {bytes} bytes, {growth} MiB of memory so far", response.status);
        assert!(response.status.as_u16() < 500, "{path}: {}", response.text());
        assert!(bytes <= MAX_RESPONSE_BYTES, "{path}: {bytes} bytes");
        response
    }

    async fn get(&self, status: u16, path: &str) -> Response {
        self.response(path).await.expect(status)
    }

    async fn list(&self, path: &str, count: usize) -> Value {
        let list = self.get(200, path).await.json();
        assert_eq!(list.as_array().unwrap().len(), count, "{path}");
        list
    }
}
