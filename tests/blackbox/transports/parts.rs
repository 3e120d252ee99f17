//! Shallow and partial clones: part of a history, and the rest later.

use super::{Transport, over_both, transport::Target};
use crate::harness::Cluster;

on_profiles! {
    embedded {
        a_history_may_be_cut_by_depth_and_made_whole
        a_history_may_be_cut_by_time_and_by_ref
    }
    production {
        objects_that_were_left_out_come_when_they_are_needed
    }
}

const COMMITS: u32 = 150;

/// Creates a repository with the history of the local `origin.git`.
async fn filled(transport: &Transport, stem: &str) -> Target {
    let (git, target) = (transport.git(), transport.empty(stem).await);
    git.large("origin.git", COMMITS).await;
    git.run("origin.git", &["push", "-q", "--mirror", &target.url]).await;
    target
}

async fn count(transport: &Transport, folder: &str, revisions: &[&str]) -> u32 {
    transport.git().run(folder, &[&["rev-list", "--count"], revisions].concat()).await.parse().unwrap()
}

async fn a_history_may_be_cut_by_depth_and_made_whole(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), filled(transport, "depth").await);
        for version in ["0", "2"] {
            let (folder, version) = (format!("shallow-{version}"), format!("protocol.version={version}"));
            let folder = folder.as_str();
            git.run("", &["-c", &version, "clone", "-q", "--depth=5", &target.url, folder]).await;
            git.run(folder, &["config", "protocol.version", &version[17..]]).await;
            assert_eq!(git.run(folder, &["rev-parse", "--is-shallow-repository"]).await, "true");
            let first = count(transport, folder, &["--first-parent", "HEAD"]).await;
            assert_eq!(first, 5);
            git.run(folder, &["fetch", "-q", "--deepen=3"]).await;
            assert_eq!(count(transport, folder, &["--first-parent", "HEAD"]).await, 8);
            git.commit(folder, "from-a-shallow-one", &version).await;
            git.run(folder, &["push", "-q", "origin", "HEAD:main"]).await;
            git.run(folder, &["fetch", "-q", "--unshallow"]).await;
            assert_eq!(git.run(folder, &["rev-parse", "--is-shallow-repository"]).await, "false");
            git.run("origin.git", &["fetch", "-q", &target.url, "main:main"]).await;
            assert_eq!(count(transport, folder, &["HEAD"]).await, count(transport, "origin.git", &["main"]).await);
            git.run(folder, &["fsck", "--strict"]).await;
        }
    })
    .await;
}

async fn a_history_may_be_cut_by_time_and_by_ref(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), filled(transport, "since").await);
        // The time of the hundredth commit.
        let since = "2020-09-13T14:06:40Z";
        git.run("", &["clone", "-q", &format!("--shallow-since={since}"), &target.url, "since"]).await;
        let all = count(transport, "origin.git", &["main"]).await;
        let newer = count(transport, "origin.git", &[&format!("--since={since}"), "main"]).await;
        assert!(newer > 20 && newer < all);
        assert_eq!(count(transport, "since", &["HEAD"]).await, newer);
        git.run("", &["clone", "-q", "--shallow-exclude=v100", &target.url, "without"]).await;
        assert_eq!(
            count(transport, "without", &["HEAD"]).await,
            count(transport, "origin.git", &["main", "^v100"]).await
        );
        git.run("without", &["fetch", "-q", "--unshallow"]).await;
        assert_eq!(count(transport, "without", &["HEAD"]).await, all);
        git.run("", &["clone", "-q", "--single-branch", "--branch=v100", &target.url, "tag"]).await;
    })
    .await;
}

/// Number of objects in the tip's history that a clone lacks.
async fn missing(transport: &Transport, folder: &str) -> usize {
    let text = transport.git().run(folder, &["rev-list", "--objects", "--missing=print", "HEAD"]).await;
    text.lines().filter(|line| line.starts_with('?')).count()
}

async fn objects_that_were_left_out_come_when_they_are_needed(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), filled(transport, "partial").await);
        git.run("", &["clone", "-q", &target.url, "work"]).await;
        git.commit("work", "large.txt", &"a line of it\n".repeat(1000)).await;
        git.run("work", &["push", "-q", "origin", "main"]).await;
        let log = ["log", "-p", "-3", "--format=%H", "main"];
        let whole = git.run("work", &log).await;
        for (filter, left_out) in [("blob:none", 50..), ("blob:limit=1k", 1..), ("tree:0", 1..)] {
            for version in ["0", "2"] {
                let (protocol, argument) = (format!("protocol.version={version}"), format!("--filter={filter}"));
                let folder = format!("{}-{version}", filter.replace([':', '='], "-"));
                git.run("", &["-c", &protocol, "clone", "-q", "--no-checkout", &argument, &target.url, &folder]).await;
                git.run(&folder, &["config", "protocol.version", version]).await;
                let before = missing(transport, &folder).await;
                assert!(left_out.contains(&before) && (filter != "blob:limit=1k" || before == 1), "{filter}: {before}");
                git.run(&folder, &["checkout", "-q", "main"]).await;
                assert_eq!(std::fs::read(git.path().join(&folder).join("large.txt")).unwrap().len(), 13_000);
                assert!(git.path().join(&folder).join("run.sh").exists());
                assert_eq!(git.run(&folder, &log).await, whole, "{filter}");
                if filter != "blob:limit=1k" {
                    assert!(missing(transport, &folder).await > 0, "{filter}: everything arrived");
                }
            }
        }
    })
    .await;
}
