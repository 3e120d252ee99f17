//! Limits on one transfer: archives, filters and lists of refs whose cost a client can choose, and
//! the git processes behind them.

mod revoked;

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::ssh::{Client, client_of};
use crate::harness::tree::git_below;
use crate::harness::{Cluster, Git, Response, Role, User};

on_profiles! {
    embedded {
        archives_expand_no_text
        archives_of_huge_trees_are_refused_over_ssh_as_over_http
        a_part_of_a_tree_is_archived_over_ssh
        filters_whose_cost_the_client_chooses_are_refused
        a_request_for_refs_with_many_prefixes_gets_all_refs
        git_processes_have_limits
        the_folders_of_the_store_are_closed_to_others
    }
}

const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

async fn fed(git: &Git, folder: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut process = git.command(folder, arguments).stdin(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(input).await.unwrap();
    let output = process.wait_with_output().await.unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

async fn fed_line(git: &Git, folder: &str, arguments: &[&str], input: &str) -> String {
    String::from_utf8(fed(git, folder, arguments, input.as_bytes()).await).unwrap().trim().to_owned()
}

async fn output(git: &Git, program: &str, arguments: &[&str]) -> Vec<u8> {
    let run = tokio::process::Command::new(program).args(arguments).current_dir(git.path()).output().await.unwrap();
    assert!(run.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

/// Encodes pkt-lines; `0000` and `0001` stay as they are.
fn packets<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        if !matches!(line, "0000" | "0001") {
            bytes.extend(format!("{:04x}", line.len() + 4).bytes());
        }
        bytes.extend(line.bytes());
    }
    bytes
}

fn memory(cluster: &Cluster, role: Role) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.process_id(role).unwrap())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

async fn with_repository(cluster: &Cluster, name: &str) -> (User, Client) {
    let ada = cluster.user("ada").await;
    let client = client_of(cluster, &ada, "ed25519").await;
    ada.new_repository(name, json!({})).await;
    (ada, client)
}

/// Texts that would each expand to the commit message: 24 KB become 32 MiB.
const EXPANDING: (&str, usize) = ("$Format:%B$\n", 2000);
const MESSAGE_BYTES: usize = 16 << 10;

async fn archives_expand_no_text(cluster: &Cluster) {
    let (ada, client) = with_repository(cluster, "expanding").await;
    let git = &client.git;
    git.run("", &["init", "-q", "work"]).await;
    let (text, message) = (EXPANDING.0.repeat(EXPANDING.1), "m".repeat(MESSAGE_BYTES));
    std::fs::write(git.path().join("work/text"), &text).unwrap();
    // With `export-ignore` git creates the archive, otherwise git-svc.
    for (branch, attributes) in
        [("ours", "* export-subst\n"), ("gits", "[attr]grown export-subst\n* grown\nhidden export-ignore\n")]
    {
        std::fs::write(git.path().join("work/.gitattributes"), attributes).unwrap();
        git.run("work", &["add", "-A"]).await;
        git.run("work", &["commit", "-q", "-m", &message]).await;
        git.run("work", &["push", "-q", &client.url(&ada.name, "expanding"), &format!("HEAD:{branch}")]).await;
        let before = memory(cluster, Role::Git);
        for (format, program, arguments) in
            [("tar.gz", "tar", &["-xzOf", "a", "expanding/text"][..]), ("zip", "unzip", &["-p", "a", "expanding/text"])]
        {
            let response = ada.get(&ada.repo("expanding", &format!("/archive/{branch}.{format}"))).await.expect(200);
            std::fs::write(git.path().join("a"), &response.body).unwrap();
            let found = output(git, program, arguments).await;
            eprintln!("{branch}.{format}: {} bytes, of {} bytes in the tree", response.body.len(), text.len());
            assert!(found == text.as_bytes(), "{branch}.{format}: {} bytes", found.len());
        }
        let remote = format!("--remote={}", client.url(&ada.name, "expanding"));
        git.run("", &["archive", &remote, "-o", "b.tar", branch]).await;
        let size = std::fs::metadata(git.path().join("b.tar")).unwrap().len();
        let found = output(git, "tar", &["-xOf", "b.tar", "text"]).await;
        let growth = memory(cluster, Role::Git).saturating_sub(before) >> 10;
        eprintln!("{branch} over SSH: {size} bytes; git-svc: {growth} KiB more");
        assert!(found == text.as_bytes() && size < 1 << 20, "{branch}: {} and {size} bytes", found.len());
    }
}

const LEVELS: usize = 6;

async fn archives_of_huge_trees_are_refused_over_ssh_as_over_http(cluster: &Cluster) {
    let (ada, client) = with_repository(cluster, "huge").await;
    let git = &client.git;
    git.run("", &["init", "-q", "--bare", "made"]).await;
    let mut id = fed_line(git, "made", &["hash-object", "-w", "--stdin"], "x").await;
    let mut kind = "100644 blob";
    for _ in 0..LEVELS {
        let entries: String = ('a'..='j').map(|name| format!("{kind} {id}\t{name}\n")).collect();
        id = fed_line(git, "made", &["mktree"], &entries).await;
        kind = "040000 tree";
    }
    let commit = git.run("made", &["commit-tree", "-m", "huge", &id]).await;
    let url = client.url(&ada.name, "huge");
    git.run("made", &["push", "-q", &url, &format!("{commit}:refs/heads/main")]).await;
    let before = memory(cluster, Role::Git);
    ada.get(&ada.repo("huge", "/archive/main.tar.gz")).await.refused(422);
    let begun = Instant::now();
    let remote = format!("--remote={url}");
    let remote = remote.as_str();
    for arguments in [&["archive", remote, "main"][..], &["archive", "--format=zip", remote, "main", "a/b/c"]] {
        let run = tokio::time::timeout(COMMAND_TIMEOUT, git.attempt("made", arguments)).await.expect("it is refused");
        let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
        eprintln!("{arguments:?}: {} bytes after {:?}: {}", run.stdout.len(), begun.elapsed(), stderr.trim());
        assert!(!run.status.success() && stderr.contains("number of files"), "{stderr}");
        assert!(run.stdout.is_empty(), "{} bytes", run.stdout.len());
    }
    eprintln!("git-svc: {} KiB more", memory(cluster, Role::Git).saturating_sub(before) >> 10);
}

async fn a_part_of_a_tree_is_archived_over_ssh(cluster: &Cluster) {
    let (ada, client) = with_repository(cluster, "parts").await;
    let git = &client.git;
    git.small("work").await;
    for file in ["dir/one", "dir/two", "dir-not", "other/three", "*"] {
        git.commit("work", file, file).await;
    }
    git.run("work", &["tag", "-a", "-m", "v1", "v1"]).await;
    git.run("work", &["push", "-q", &client.url(&ada.name, "parts"), "main", "v1"]).await;
    let remote = format!("--remote={}", client.url(&ada.name, "parts"));
    let listed = async |arguments: &[&str]| {
        git.run("", &[&["archive", remote.as_str(), "-o", "part.tar"][..], arguments].concat()).await;
        let names = String::from_utf8(output(git, "tar", &["-tf", "part.tar"]).await).unwrap();
        names.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed(&["main", "dir/", "other/three"]).await, ["dir/", "dir/one", "dir/two", "other/", "other/three"]);
    assert_eq!(listed(&["--prefix=p/", "v1:dir"]).await, ["p/", "p/one", "p/two"]);
    assert_eq!(listed(&["heads/main", "*"]).await, ["*"], "a path is not a pattern");
    let formats = git.run("", &["archive", &remote, "--list"]).await;
    assert!(formats.lines().any(|format| format == "tar.gz"), "{formats}");
    for (arguments, reason) in [
        (&["main", "absent"][..], "did not match any files"),
        (&["absent"], "no such ref"),
        (&["main:README.md"], "no such ref"),
        (&["--worktree-attributes", "main"], "is not supported"),
    ] {
        let stderr = git.fails("", &[&["archive", remote.as_str()][..], arguments].concat()).await;
        assert!(stderr.contains(reason), "{arguments:?}: {stderr}");
    }
}

async fn filters_whose_cost_the_client_chooses_are_refused(cluster: &Cluster) {
    let (ada, client) = with_repository(cluster, "filtered").await;
    let git = &client.git;
    git.small("work").await;
    git.commit("work", "patterns", &"/a*b*c\n".repeat(1000)).await;
    git.run("work", &["push", "-q", &client.url(&ada.name, "filtered"), "main"]).await;
    let many = ["--filter=tree:0"; 60];
    for (number, url) in [ada.git_url(&ada.name, "filtered"), client.url(&ada.name, "filtered")].iter().enumerate() {
        let clone = async |filters: &[&str], name: &str| {
            let run = git.attempt("", &[&["clone", "-q", "--bare"][..], filters, &[url.as_str(), name]].concat()).await;
            (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
        };
        let patterns = ["--filter=sparse:oid=main:patterns"];
        let combined = ["--filter=blob:none", "--filter=sparse:oid=main:patterns"];
        for (index, filters) in [&patterns[..], &combined, &["--filter=tree:100"], &many].into_iter().enumerate() {
            let (is_served, stderr) = clone(filters, &format!("refused-{number}-{index}")).await;
            eprintln!("{} filters, first {}: {}", filters.len(), filters[0], stderr.trim());
            assert!(!is_served && stderr.contains("filter"), "{filters:?}: {stderr}");
        }
        for (index, filters) in [
            &["--filter=blob:none"][..],
            &["--filter=blob:limit=10"],
            &["--filter=tree:0"],
            &["--filter=object:type=commit"],
            &["--filter=blob:none", "--filter=tree:3"],
        ]
        .into_iter()
        .enumerate()
        {
            let (is_served, stderr) = clone(filters, &format!("served-{number}-{index}")).await;
            assert!(is_served, "{filters:?}: {stderr}");
        }
    }
}

const REFS: usize = 300;
/// Prefixes in one request, none of which matches a ref.
const PREFIXES: usize = 30_000;

async fn a_request_for_refs_with_many_prefixes_gets_all_refs(cluster: &Cluster) {
    let (ada, client) = with_repository(cluster, "prefixes").await;
    let git = &client.git;
    git.small("work").await;
    let tip = git.run("work", &["rev-parse", "HEAD"]).await;
    let refs: String = (0..REFS).map(|number| format!("create refs/heads/b{number} {tip}\n")).collect();
    fed(git, "work", &["update-ref", "--stdin"], refs.as_bytes()).await;
    git.run("work", &["push", "-q", "--mirror", &client.url(&ada.name, "prefixes")]).await;
    let request = |prefixes: &[String]| {
        // A capability that only git supports, so that git answers.
        let head = ["command=ls-refs", "agent=test", "server-option=test", "0001"];
        packets(head.into_iter().chain(prefixes.iter().map(String::as_str)).chain(["0000"]))
    };
    let many: Vec<_> = (0..PREFIXES).map(|number| format!("ref-prefix refs/heads/none-{number}")).collect();
    let few: Vec<_> = ["b1", "none"].iter().map(|name| format!("ref-prefix refs/heads/{name}")).collect();
    let with_b1 = (0..REFS).filter(|number| number.to_string().starts_with('1')).count();
    for (prefixes, expected) in [(few, with_b1), (many, REFS + 1)] {
        let body = request(&prefixes);
        let path = format!("/{}/prefixes.git/git-upload-pack", ada.name);
        let post = ada.raw(reqwest::Method::POST, &path).basic_auth(&ada.name, ada.token.as_ref());
        let post = post.header("content-type", "application/x-git-upload-pack-request");
        let post = post.header("git-protocol", "version=2");
        let begun = Instant::now();
        let response = Response::of(post.body(body.clone())).await.expect(200);
        let over_http = response.text().matches(" refs/heads/").count();
        let command = format!("git-upload-pack '{}/prefixes.git'", ada.name);
        let mut ssh = client.ssh(&["-o", "SendEnv=GIT_PROTOCOL"], &[&command]);
        let mut process = ssh.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = process.stdin.take().unwrap();
        // The flush packet ends the session.
        stdin.write_all(&[body.as_slice(), b"0000"].concat()).await.unwrap();
        drop(stdin);
        let mut text = Vec::new();
        process.stdout.take().unwrap().read_to_end(&mut text).await.unwrap();
        let over_ssh = String::from_utf8_lossy(&text).matches(" refs/heads/").count();
        eprintln!("{} prefixes: {over_http} and {over_ssh} refs in {:?}", prefixes.len(), begun.elapsed());
        assert_eq!((over_http, over_ssh), (expected, expected), "{} prefixes", prefixes.len());
    }
}

async fn git_processes_have_limits(cluster: &Cluster) {
    let (ada, client) = with_repository(cluster, "limited").await;
    let git = &client.git;
    git.small("work").await;
    git.run("work", &["push", "-q", &client.url(&ada.name, "limited"), "main"]).await;
    for service in ["upload-pack", "receive-pack"] {
        let mut ssh = client.ssh(&[], &[&format!("git-{service} '{}/limited.git'", ada.name)]);
        let mut process = ssh.stdin(Stdio::piped()).spawn().unwrap();
        process.stdout.as_mut().unwrap().read_exact(&mut [0]).await.unwrap();
        let running = git_below(cluster.process_id(Role::Git).unwrap());
        let limits = running.iter().filter(|process| process.name == service).filter_map(|process| {
            let text = std::fs::read_to_string(format!("/proc/{}/limits", process.id)).ok()?;
            let limit = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                line.split_whitespace().next().unwrap().to_owned()
            };
            Some((limit("Max address space"), limit("Max cpu time")))
        });
        let limits: Vec<_> = limits.collect();
        eprintln!("{service}: {limits:?}");
        assert!(!limits.is_empty() && limits.iter().all(|(memory, cpu)| memory == "8589934592" && cpu == "7200"));
        drop(process);
    }
}

async fn the_folders_of_the_store_are_closed_to_others(cluster: &Cluster) {
    for folder in ["", "repos", "incoming", "trash", "cache", "hooks"] {
        let data = cluster.store().join(folder).metadata().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&data.permissions()) & 0o777;
        assert_eq!(mode, 0o700, "`{folder}` has {mode:o}");
    }
}
