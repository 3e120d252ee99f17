//! `refs/pull/NUMBER/head`: fetched by git, written by nobody else, and kept.

use serde_json::json;

use super::{SETTLE_TIMEOUT, Work};
use crate::harness::Cluster;
use crate::harness::git_server::GitServer;
use crate::imports::{import, on_outward_installations, outward};

on_profiles! {
    both {
        the_head_of_a_pull_request_is_a_ref_that_git_fetches
        it_stays_when_the_branch_and_the_fork_are_gone
    }
    embedded {
        nobody_writes_it
        lists_of_the_api_leave_it_out
    }
}

mod outward_installations {
    use super::*;

    on_outward_installations! {
        embedded Embedded {
            forks_imports_and_mirrors_do_not_take_it
        }
    }
}

async fn the_head_of_a_pull_request_is_a_ref_that_git_fetches(cluster: &Cluster) {
    let work = Work::new(cluster, "fetched").await;
    let (first, second) = (work.open("first").await, work.open("second").await);
    let heads = [work.tip("first").await, work.tip("second").await];
    let listed = work.run(&["ls-remote", "origin", "refs/pull/*"]).await;
    assert_eq!(listed, format!("{}\trefs/pull/{first}/head\n{}\trefs/pull/{second}/head", heads[0], heads[1]));
    let url = work.owner.git_url(&work.owner.name, &work.name);
    work.git.run("", &["clone", "-q", &url, "clone"]).await;
    assert!(!work.git.refs("clone").await.contains("refs/pull/"));
    work.git.run("clone", &["fetch", "-q", "origin", &format!("refs/pull/{first}/head")]).await;
    assert_eq!(work.git.run("clone", &["rev-parse", "FETCH_HEAD"]).await, heads[0]);
    work.git.run("clone", &["fetch", "-q", "origin", "+refs/pull/*/head:refs/remotes/origin/pull/*"]).await;
    let name = format!("origin/pull/{second}");
    assert_eq!(work.git.run("clone", &["rev-parse", &name]).await, heads[1]);
    // It follows pushes, also by force.
    let moved = work.push_commit("first", "more", "x\n").await;
    work.ref_becomes(first, &moved).await;
    work.run(&["push", "-q", "--force", "origin", "second:first"]).await;
    work.ref_becomes(first, &heads[1]).await;
}

async fn it_stays_when_the_branch_and_the_fork_are_gone(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "kept").await, cluster.user("bob").await);
    let own = work.open("own").await;
    let own_head = work.tip("own").await;
    work.fork(&bob, "fork").await;
    work.git.run("fork", &["checkout", "-q", "-b", "topic"]).await;
    let head = work.git.commit("fork", "from-the-fork", "x\n").await;
    work.git.run("fork", &["push", "-q", "origin", "topic"]).await;
    let body = json!({"head": format!("{}:topic", bob.name), "base": "main", "title": "From a fork"});
    let number = super::number_of(&work.create(&bob, &body).await.expect(201).json());
    work.ref_becomes(number, &head).await;
    work.push(":own").await;
    bob.delete(&bob.repo(&work.name, "")).await.expect(204);
    let pull = work.poll(number, SETTLE_TIMEOUT, |pull| pull["head"]["repo"].is_null()).await;
    assert_eq!(
        (&pull["head"]["repo_id"], &pull["head"]["ref"], &pull["head"]["sha"]),
        (&json!(-1), &json!(format!("refs/pull/{number}/head")), &json!(head))
    );
    let url = work.owner.git_url(&work.owner.name, &work.name);
    work.git.run("", &["clone", "-q", &url, "clone"]).await;
    for (number, head) in [(own, &own_head), (number, &head)] {
        work.git.fails("clone", &["cat-file", "-e", head]).await;
        work.git.run("clone", &["fetch", "-q", "origin", &format!("refs/pull/{number}/head")]).await;
        assert_eq!(work.git.run("clone", &["rev-parse", "FETCH_HEAD"]).await, *head);
        work.merge(number, json!({})).await.empty(200);
    }
    work.git.run("clone", &["pull", "-q", "origin", "main"]).await;
    work.git.run("clone", &["cat-file", "-e", &head]).await;
    // Also after the merge and when it is closed.
    assert_eq!(work.run(&["ls-remote", "origin", "refs/pull/*"]).await.lines().count(), 2);
}

async fn nobody_writes_it(cluster: &Cluster) {
    let work = Work::new(cluster, "read-only").await;
    let number = work.open("topic").await;
    let head = work.tip("topic").await;
    let name = format!("refs/pull/{number}/head");
    for refspec in [
        format!("+main:{name}"),
        format!(":{name}"),
        "main:refs/pull/99/head".to_owned(),
        format!("main:refs/pull/{number}/merge"),
        "main:refs/pull/x".to_owned(),
    ] {
        let refused = work.git.fails("work", &["push", "origin", &refspec]).await;
        assert!(refused.contains("rejected") || refused.contains("refs/pull"), "{refspec}: {refused}");
    }
    assert_eq!(work.run(&["ls-remote", "origin", "refs/pull/*"]).await, format!("{head}\t{name}"));
    // Other refs of the same push are taken.
    work.git.fails("work", &["push", "origin", "main:refs/heads/other", &format!("+main:{name}")]).await;
    assert_eq!(work.tip("other").await, work.tip("main").await);
}

async fn lists_of_the_api_leave_it_out(cluster: &Cluster) {
    let work = Work::new(cluster, "unlisted").await;
    let number = work.open("topic").await;
    let get = async |rest: &str| work.owner.get(&work.path(rest)).await;
    let refs = get("/git/refs").await.expect(200).each("ref");
    assert!(refs.iter().all(|name| !name.starts_with("refs/pull/")), "{refs:?}");
    assert_eq!(get("/branches").await.expect(200).each("name"), ["main", "topic"]);
    get(&format!("/git/refs/pull/{number}/head")).await.refused(404);
    get(&format!("/branches/pull/{number}/head")).await.refused(404);
}

async fn forks_imports_and_mirrors_do_not_take_it(cluster: &Cluster) {
    let (work, bob) = (Work::new(cluster, "source").await, cluster.user("bob").await);
    let number = work.open("topic").await;
    let head = work.tip("topic").await;
    work.ref_becomes(number, &head).await;
    bob.post(&work.path("/forks"), &json!({"name": "forked"})).await.expect(201);
    // Another host that has the refs of its own pull requests.
    work.git.run("", &["clone", "-q", "--bare", "work", "remote.git"]).await;
    work.git.run("remote.git", &["update-ref", "refs/pull/1/head", "topic"]).await;
    let server = GitServer::start(&work.git).await;
    let source = server.url("remote.git");
    import(&bob, &source, "brought", json!({})).await.expect(201);
    import(&bob, &source, "mirrored", json!({"mirror": true, "mirror_interval": "8h"})).await.expect(201);
    for name in ["forked", "brought", "mirrored"] {
        let refs = work.run(&["ls-remote", &bob.git_url(&bob.name, name)]).await;
        assert!(refs.contains("refs/heads/topic") && !refs.contains("refs/pull/"), "{name}: {refs}");
    }
}
