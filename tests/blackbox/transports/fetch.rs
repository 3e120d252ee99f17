//! Clones, lists of refs, and fetches of complete histories.

use serde_json::json;

use super::{Transport, over_both};
use crate::harness::{Cluster, Git};

on_profiles! {
    both {
        every_version_of_the_protocol_goes_both_ways
    }
    embedded {
        anonymous_clients_clone_public_repositories_over_http
        refs_are_listed_in_every_way
        an_empty_repository_is_cloned_with_its_branch
    }
    production {
        a_commit_is_fetched_by_its_id
        a_repository_inside_another_is_cloned_with_it
        archives_are_made_over_ssh_and_refused_over_http
    }
}

/// Adds the option for this protocol version.
fn speaking<'a>(version: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [&["-c", version], arguments].concat()
}

const VERSIONS: [&str; 3] = ["protocol.version=0", "protocol.version=1", "protocol.version=2"];

async fn every_version_of_the_protocol_goes_both_ways(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("any").await);
        git.large("origin.git", 120).await;
        git.run("origin.git", &["push", "-q", "--mirror", &target.url]).await;
        git.run("", &["clone", "-q", &target.url, "work"]).await;
        for version in VERSIONS {
            git.run("", &speaking(version, &["clone", "-q", "--mirror", &target.url, version])).await;
            let refs = git.refs(version).await;
            assert!(refs.contains("refs/tags/v100") && refs.contains("refs/heads/feature/one"), "{refs}");
            let branch = version.replace('=', "-");
            let tip = git.commit("work", "new", version).await;
            git.run("work", &speaking(version, &["push", "-q", "origin", &format!("HEAD:refs/heads/{branch}")])).await;
            let seen = git.run("work", &speaking(version, &["ls-remote", "origin", &branch])).await;
            assert_eq!(seen, format!("{tip}\trefs/heads/{branch}"));
            git.run(version, &speaking(version, &["fetch", "-q"])).await;
            assert_eq!(git.refs(version).await, format!("{refs}\nrefs/heads/{branch} {tip}").sorted(), "{version}");
            let traced = git.command("", &speaking(version, &["ls-remote", &target.url]));
            let traced = { traced }.env("GIT_TRACE_PACKET", "1").output().await.unwrap();
            let text = String::from_utf8_lossy(&traced.stderr).into_owned();
            let spoken = text.lines().any(|line| line.ends_with(&format!("< version {}", &version[17..])));
            assert_eq!(spoken, version != VERSIONS[0], "{text}");
        }
    })
    .await;
}

trait Sorted {
    fn sorted(&self) -> String;
}

impl Sorted for String {
    fn sorted(&self) -> String {
        let mut lines: Vec<_> = self.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }
}

async fn anonymous_clients_clone_public_repositories_over_http(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("open", json!({"auto_init": true})).await;
    for version in [0, 1, 2] {
        let git = Git::speaking(version);
        git.run("", &["clone", "-q", &cluster.anonymous().git_url(&ada.name, "open"), "work"]).await;
        git.commit("work", "x", "x").await;
        let stderr = git.fails("work", &["push", "origin", "main"]).await;
        assert!(stderr.contains("Authentication failed") || stderr.contains("could not read"), "{stderr}");
    }
}

async fn refs_are_listed_in_every_way(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("list").await);
        git.small("work").await;
        git.run("work", &["tag", "-a", "v1", "-m", "One"]).await;
        git.run("work", &["push", "-q", &target.url, "main", "main:side/kind", "v1", "main:refs/notes/x"]).await;
        let list = async |more: &[&str]| {
            let text = git.run("work", &[&["ls-remote"], more].concat()).await;
            text.lines().map(|line| line.split_once('\t').unwrap().1.to_owned()).collect::<Vec<_>>()
        };
        for version in VERSIONS {
            git.run("work", &["config", "protocol.version", &version[17..]]).await;
            let url = target.url.as_str();
            let all =
                ["HEAD", "refs/heads/main", "refs/heads/side/kind", "refs/notes/x", "refs/tags/v1", "refs/tags/v1^{}"];
            assert_eq!(list(&[url]).await, all, "{version}");
            assert_eq!(list(&["--heads", url]).await, all[1..3]);
            assert_eq!(list(&["--tags", "--refs", url]).await, all[4..5]);
            assert_eq!(list(&[url, "side/*"]).await, all[2..3]);
            assert!(
                git.run("work", &["ls-remote", "--symref", url, "HEAD"]).await.starts_with("ref: refs/heads/main\t")
            );
            let none = git.attempt("work", &["ls-remote", "--exit-code", url, "refs/heads/none"]).await;
            assert_eq!(none.status.code(), Some(2));
        }
    })
    .await;
}

async fn a_commit_is_fetched_by_its_id(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("ids").await);
        git.small("work").await;
        let reachable = git.commit("work", "one", "1").await;
        git.commit("work", "two", "2").await;
        git.run("work", &["push", "-q", &target.url, "main"]).await;
        let left = git.commit("work", "three", "3").await;
        git.run("work", &["push", "-q", &target.url, "main:refs/heads/gone"]).await;
        git.run("work", &["push", "-q", &target.url, ":refs/heads/gone"]).await;
        let absent = "1".repeat(40);
        for version in VERSIONS {
            git.run("", &["init", "-q", version]).await;
            git.run(version, &speaking(version, &["fetch", "-q", &target.url, &reachable])).await;
            assert_eq!(git.run(version, &["rev-parse", "FETCH_HEAD"]).await, reachable);
            let stderr = git.fails(version, &speaking(version, &["fetch", &target.url, &absent])).await;
            assert!(stderr.contains(&format!("not our ref {absent}")), "{stderr}");
            // Version 2 sends any existing object, as git itself does.
            if version != VERSIONS[2] {
                let stderr = git.fails(version, &speaking(version, &["fetch", &target.url, &left])).await;
                assert!(stderr.contains(&format!("not our ref {left}")), "{stderr}");
            }
        }
    })
    .await;
}

async fn an_empty_repository_is_cloned_with_its_branch(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("empty").await);
        for version in VERSIONS {
            let clone = ["-c", "init.defaultBranch=other", "clone", "-q", &target.url, version];
            git.run("", &speaking(version, &clone)).await;
            assert_eq!(git.run("", &speaking(version, &["ls-remote", &target.url])).await, "");
        }
        // Only version 2 can name an unborn branch.
        assert_eq!(git.run(VERSIONS[2], &["symbolic-ref", "HEAD"]).await, "refs/heads/main");
        git.commit(VERSIONS[2], "first", "1").await;
        git.run(VERSIONS[2], &["push", "-q"]).await;
        git.run(VERSIONS[0], &["pull", "-q", "origin", "main"]).await;
        assert!(git.path().join(VERSIONS[0]).join("first").is_file());
    })
    .await;
}

async fn a_repository_inside_another_is_cloned_with_it(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let git = transport.git();
        let (library, program) = (transport.empty("library").await, transport.empty("program").await);
        git.small("library").await;
        let tip = git.run("library", &["rev-parse", "HEAD"]).await;
        git.run("library", &["push", "-q", &library.url, "main"]).await;
        git.run("", &["clone", "-q", &program.url, "program"]).await;
        git.run("program", &["submodule", "add", "-q", &format!("../{}.git", library.name), "lib"]).await;
        git.commit("program", "main.c", "int main;").await;
        git.run("program", &["push", "-q", "origin", "HEAD:main"]).await;
        git.run("", &["clone", "-q", "--recurse-submodules", &program.url, "copy"]).await;
        assert_eq!(git.run("copy/lib", &["rev-parse", "HEAD"]).await, tip);
        let seen = transport.user.get(&transport.user.repo(&program.name, "/contents/lib")).await.expect(200).json();
        assert_eq!((&seen["type"], &seen["sha"]), (&json!("submodule"), &json!(tip)));
    })
    .await;
}

async fn archives_are_made_over_ssh_and_refused_over_http(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("archive").await);
        git.small("work").await;
        let tip = git.commit("work", "dir/file", "text\n").await;
        git.run("work", &["tag", "v1"]).await;
        git.run("work", &["push", "-q", &target.url, "main", "v1"]).await;
        let remote = format!("--remote={}", target.url);
        if transport.ssh().is_none() {
            // Like git's own HTTP server by default.
            let stderr = git.fails("", &["archive", "-o", "no.tar", &remote, "main"]).await;
            assert!(!stderr.contains("fatal: not a tar"), "{stderr}");
            assert!(std::fs::read(git.path().join("no.tar")).unwrap_or_default().is_empty());
            return;
        }
        for (file, start) in [("a.tar", &b"p/"[..]), ("a.tar.gz", &[0x1f, 0x8b]), ("a.zip", b"PK")] {
            git.run("", &["archive", "--prefix=p/", "-o", file, &remote, "v1"]).await;
            git.run("work", &["archive", "--prefix=p/", "-o", &format!("../own-{file}"), "v1"]).await;
            let read = |name: &str| std::fs::read(git.path().join(name)).unwrap();
            let made = read(file);
            assert!(made.starts_with(start) || file == "a.tar", "{file}");
            assert!(made.len() > 100 && (file == "a.tar.gz" || made == read(&format!("own-{file}"))), "{file}");
        }
        assert!(git.run("", &["archive", &remote, "main:dir"]).await.contains("text"));
        for (tree, reason) in [("absent", "no such ref"), (tip.as_str(), "no such ref"), ("--exec=id", "")] {
            let stderr = git.fails("", &["archive", &remote, "--end-of-options", tree]).await;
            assert!(stderr.contains(reason), "{tree}: {stderr}");
        }
    })
    .await;
}
