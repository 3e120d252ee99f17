//! Pushes: refs of every kind, atomic and mirror pushes, and push options.

use std::time::Duration;

use ferrite_proto::events::{Event, RefsUpdated, event::Fact};
use prost::Message as _;
use serde_json::json;

use super::{Transport, over_both};
use crate::harness::{Cluster, Role};

on_profiles! {
    both {
        branches_and_tags_are_made_moved_and_deleted
        an_atomic_push_moves_all_refs_or_none
        push_options_are_part_of_the_event
    }
    embedded {
        refs_that_are_not_open_are_refused_with_a_reason
        push_options_beyond_the_limits_refuse_every_ref
    }
    production {
        a_mirror_is_kept_the_same
        annotated_tags_follow_their_commits
    }
}

async fn branches_and_tags_are_made_moved_and_deleted(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("refs").await);
        let url = target.url.as_str();
        git.small("work").await;
        git.run("work", &["tag", "light"]).await;
        git.run("work", &["tag", "-a", "heavy", "-m", "One"]).await;
        git.run("work", &["push", "-q", url, "main", "main:side/kind", "light", "heavy", "main:refs/notes/n"]).await;
        let repository =
            transport.user.eventually(&transport.user.repo(&target.name, ""), |repo| repo["empty"] == false).await;
        assert_eq!(repository["default_branch"], "main");
        git.run("", &["clone", "-q", "--mirror", url, "copy"]).await;
        assert_eq!(git.run("copy", &["cat-file", "-t", "heavy"]).await, "tag");
        let old = git.run("work", &["rev-parse", "main"]).await;
        git.commit("work", "second", "2").await;
        git.run("work", &["push", "-q", url, "main", "main:light", ":heavy", ":side/kind", "--force"]).await;
        git.run("work", &["reset", "-q", "--hard", &old]).await;
        git.commit("work", "other", "3").await;
        let stderr = git.fails("work", &["push", url, "main"]).await;
        assert!(stderr.contains("[rejected]") && stderr.contains("non-fast-forward"), "{stderr}");
        git.fails("work", &["push", &format!("--force-with-lease=main:{old}"), url, "main"]).await;
        git.run("work", &["push", "-q", "--force", url, "main"]).await;
        git.run("copy", &["fetch", "-q", "--prune"]).await;
        let tip = git.run("work", &["rev-parse", "HEAD"]).await;
        let refs = git.refs("copy").await;
        assert!(refs.starts_with(&format!("refs/heads/main {tip}\nrefs/notes/n {old}\nrefs/tags/light ")), "{refs}");
        assert_eq!(refs.lines().count(), 3);
        git.run("copy", &["fsck", "--strict"]).await;
    })
    .await;
}

async fn an_atomic_push_moves_all_refs_or_none(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("whole").await);
        let url = target.url.as_str();
        git.small("work").await;
        let list = ["main:refs/heads/good-1", "main:refs/pull/1/head", "main:refs/heads/good-2"];
        let stderr = git.fails("work", &[&["push", "--atomic", url], &list[..]].concat()).await;
        assert!(stderr.contains("rejected"), "{stderr}");
        assert_eq!(git.run("work", &["ls-remote", url]).await, "");
        git.fails("work", &[&["push", url], &list[..]].concat()).await;
        assert_eq!(git.run("work", &["ls-remote", "--heads", url]).await.lines().count(), 2);
        git.run("work", &["push", "-q", "--atomic", url, "main", "main:side", ":good-2"]).await;
        let before = git.run("work", &["ls-remote", url]).await;
        git.commit("work", "next", "next").await;
        let stderr = git.fails("work", &["push", "--atomic", url, "main:side", "main:other", ":main", ":good-1"]).await;
        assert_eq!(stderr.matches("rejected]").count(), 4, "{stderr}");
        assert_eq!(git.run("work", &["ls-remote", url]).await, before);
        git.run("work", &["push", "-q", "--atomic", url, "main:side", "main:other", "main"]).await;
    })
    .await;
}

async fn refs_that_are_not_open_are_refused_with_a_reason(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("closed").await);
        let url = target.url.as_str();
        git.small("work").await;
        git.run("work", &["push", "-q", url, "main"]).await;
        for (name, reason) in [
            ("main:refs/pull/1/head", "refs/pull is read-only"),
            ("main:refs/pull/9/merge", "refs/pull is read-only"),
            ("main:refs/ferrite/keep/y", "you cannot push to this ref"),
            ("main:refs/replace/abc", "you cannot push to this ref"),
            ("main:refs/heads/main/below", "the name conflicts with another ref"),
            (":refs/heads/main", "the default branch cannot be deleted"),
            ("main:refs/heads/-x", "you cannot push to this ref"),
            ("main:refs/heads/--upload-pack=x", "you cannot push to this ref"),
            ("main:refs/heads/HEAD", "you cannot push to this ref"),
        ] {
            let stderr = git.fails("work", &["push", url, name]).await;
            assert!(stderr.contains("[remote rejected]") && stderr.contains(reason), "{name}: {stderr}");
        }
        assert_eq!(git.run("work", &["ls-remote", "--refs", url]).await.lines().count(), 1);
    })
    .await;
}

async fn a_mirror_is_kept_the_same(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("mirror").await);
        git.large("origin.git", 220).await;
        git.run("origin.git", &["push", "-q", "--mirror", &target.url]).await;
        git.run("", &["clone", "-q", "--mirror", &target.url, "copy"]).await;
        assert_eq!(git.refs("copy").await, git.refs("origin.git").await);
        git.run("origin.git", &["update-ref", "-d", "refs/heads/fix/other"]).await;
        git.run("origin.git", &["update-ref", "-d", "refs/tags/v100"]).await;
        git.run("origin.git", &["update-ref", "refs/heads/fix", "main~5"]).await;
        git.run("origin.git", &["update-ref", "refs/heads/main", "main~3"]).await;
        git.run("origin.git", &["push", "-q", "--mirror", &target.url]).await;
        git.run("copy", &["fetch", "-q", "--prune"]).await;
        assert_eq!(git.refs("copy").await, git.refs("origin.git").await);
    })
    .await;
}

async fn annotated_tags_follow_their_commits(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("follow").await);
        git.small("work").await;
        git.run("work", &["tag", "-a", "v1", "-m", "One"]).await;
        git.run("work", &["tag", "light"]).await;
        git.run("work", &["checkout", "-q", "-b", "elsewhere"]).await;
        git.commit("work", "x", "x").await;
        git.run("work", &["tag", "-a", "v2", "-m", "Two"]).await;
        git.run("work", &["push", "-q", "--follow-tags", &target.url, "main"]).await;
        let seen = git.run("work", &["ls-remote", "--refs", &target.url]).await;
        let names: Vec<_> = seen.lines().map(|line| line.split_once('\t').unwrap().1).collect();
        assert_eq!(names, ["refs/heads/main", "refs/tags/v1"]);
        git.run("", &["clone", "-q", "--single-branch", &target.url, "copy"]).await;
        assert_eq!(git.run("copy", &["tag", "-l"]).await, "v1");
    })
    .await;
}

/// Waits for `count` events of a repository and returns them, oldest first.
async fn updates(cluster: &Cluster, repository: i64, count: usize) -> Vec<RefsUpdated> {
    let query = format!(
        "SELECT payload FROM outbox WHERE repository_id = {repository} AND subscriber = 'repo-svc' ORDER BY id"
    );
    for _ in 0..400 {
        let facts: Vec<_> = cluster
            .bytes(Role::Git, query.clone())
            .await
            .into_iter()
            .filter_map(|payload| match Event::decode(payload.as_slice()).unwrap().fact {
                Some(Fact::RefsUpdated(fact)) => Some(fact),
                _ => None,
            })
            .collect();
        if facts.len() >= count {
            assert_eq!(facts.len(), count, "{facts:?}");
            return facts;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("no {count} events of {repository}");
}

async fn push_options_are_part_of_the_event(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("options").await);
        git.small("work").await;
        let sent = ["ci.skip", "reviewer=Z\u{f6}e \u{4e16}", "", " spaces ", "--upload-pack=x; $(id)"];
        let options: Vec<_> = sent.iter().flat_map(|option| ["-o", option]).collect();
        for version in ["0", "1", "2"] {
            let (protocol, name) = (format!("protocol.version={version}"), format!("main:refs/heads/v{version}"));
            let push = ["-c", protocol.as_str(), "push", "-q"];
            git.run("work", &[&push[..], &options, &[&target.url, &name, &format!("{name}-too")]].concat()).await;
        }
        git.run("work", &["push", "-q", "--atomic", "-o", "deleted", &target.url, ":v1", ":v1-too"]).await;
        git.run("work", &["push", "-q", &target.url, "main"]).await;
        let events = updates(cluster, target.id, 5).await;
        for update in &events[..3] {
            assert_eq!(update.push_options, sent);
            assert_eq!(update.updates.len(), 2);
        }
        assert_eq!(events[3].push_options, ["deleted"]);
        assert!(events[4].push_options.is_empty());
        transport
            .user
            .put(&transport.user.repo(&target.name, "/contents/x"), &json!({"message": "m", "content": ""}))
            .await
            .expect(201);
        assert!(updates(cluster, target.id, 6).await[5].push_options.is_empty());
    })
    .await;
}

async fn push_options_beyond_the_limits_refuse_every_ref(cluster: &Cluster) {
    over_both(cluster, async |transport: &Transport| {
        let (git, target) = (transport.git(), transport.empty("limits").await);
        git.small("work").await;
        let long = "x".repeat(1025);
        let large = "x".repeat(1000);
        for (options, reason) in [
            (vec!["o"; 65], "the limit is 64"),
            (vec![long.as_str()], "the limit is 1024 bytes"),
            (vec![large.as_str(); 17], "the limit is 16384 bytes in total"),
            (vec!["fine", "red \x1b[31m"], "without control characters"),
            (vec!["\u{85}"], "without control characters"),
        ] {
            let options: Vec<_> = options.into_iter().flat_map(|option| ["-o", option]).collect();
            let push = [&["push"], &options[..], &[target.url.as_str(), "main", "main:side"]].concat();
            let stderr = git.fails("work", &push).await;
            let lines: Vec<_> = stderr.lines().filter(|line| line.starts_with(" ! [remote rejected]")).collect();
            assert!(lines.len() == 2 && lines.iter().all(|line| line.contains(reason)), "{stderr}");
        }
        assert_eq!(git.run("work", &["ls-remote", &target.url]).await, "");
        let most: Vec<_> = std::iter::repeat_n(["-o", "y"], 64).flatten().collect();
        git.run("work", &[&["push", "-q"], &most[..], &[target.url.as_str(), "main"]].concat()).await;
        assert_eq!(updates(cluster, target.id, 1).await[0].push_options.len(), 64);
    })
    .await;
}
