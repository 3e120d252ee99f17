use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::receiver::{LOOPBACK, Received, Receiver};
use crate::harness::{Cluster, Git, Options};
use crate::webhooks::hook;

on_own_installations! {
    old_commits_are_text_wherever_they_are_shown(options())
}

fn options() -> Options {
    Options { settings: LOOPBACK.to_vec(), ..Options::default() }
}

fn raw_commit(git: &Git, content: &[u8]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(git.path().join("work")).args([
        "hash-object",
        "-t",
        "commit",
        "-w",
        "--stdin",
        "--literally",
    ]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}

async fn old_commits_are_text_wherever_they_are_shown(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = &ada.new_tracker("old", json!({"auto_init": true})).await;
    ada.new_issue(repo, "Open", json!({})).await;
    let has_first_push = |page: &Value| page["events"].as_array().unwrap().iter().any(|one| one["event"] == "push");
    ada.eventually(&format!("{repo}/events"), has_first_push).await;
    let receiver = Receiver::start().await;
    hook(&ada, &format!("{repo}/hooks"), &receiver.url("/hook"), json!({})).await;

    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "old"), "work"]).await;
    let (first, tree) =
        (git.run("work", &["rev-parse", "HEAD"]).await, git.run("work", &["rev-parse", "HEAD^{tree}"]).await);
    let head = |parent: &str, who: &str| format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n");
    let date = "1700000000 +51800";
    let named = head(&first, &format!("M\u{fc}ller <m@example.com> {date}"));
    let text = format!("{named}encoding ISO-8859-1\n\nGr\u{fc}\u{df}e, closes #1\n");
    // In Latin-1 each character is one byte.
    let latin = raw_commit(&git, &text.chars().map(|letter| u8::try_from(letter).unwrap()).collect::<Vec<_>>());
    let nul = raw_commit(&git, &[head(&latin, &format!("<> {date}")).as_bytes(), b"\nNul\0behind\n"].concat());
    git.run("work", &["push", "-q", "origin", &format!("{nul}:refs/heads/main")]).await;

    let commits = ada.get(&format!("{repo}/commits?stat=false&files=false")).await.expect(200).json();
    let shown = |at: usize| {
        let commit = &commits[at]["commit"];
        json!([commits[at]["sha"], commit["message"], commit["author"]["name"], commit["committer"]["date"]])
    };
    assert_eq!(shown(0), json!([nul, "Nul", "", "2023-11-14T22:13:20Z"]));
    assert_eq!(commits[0]["truncated"], true);
    assert_eq!(shown(1), json!([latin, "Grüße, closes #1\n", "Müller", "2023-11-14T22:13:20Z"]));
    for (id, at) in [(&nul, 0), (&latin, 1)] {
        assert_eq!(ada.get(&format!("{repo}/commits/{id}")).await.expect(200).json(), commits[at]);
    }
    ada.eventually(&format!("{repo}/issues/1"), |issue| issue["state"] == "closed").await;
    let is_told = |one: &Received| one.event() == "push" && one.json()["after"] == json!(nul);
    let received = receiver.until(|all| all.iter().any(is_told)).await;
    let push = received.iter().find(|one| is_told(one)).unwrap().json();
    let told =
        push["commits"].as_array().unwrap().iter().map(|commit| json!([commit["message"], commit["author"]["name"]]));
    let told: Vec<_> = told.collect();
    assert!(told.contains(&json!(["Nul", ""])) && told.contains(&json!(["Grüße, closes #1\n", "Müller"])), "{push}");
    let body = json!({"message": "On top", "content": "eA=="});
    let made = ada.put(&format!("{repo}/contents/new"), &body).await.expect(201).json();
    assert_eq!(made["commit"]["parents"][0]["sha"], json!(nul));
}
