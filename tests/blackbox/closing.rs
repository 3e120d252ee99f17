//! Commit messages close and reopen issues, however the commits arrive.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        every_word_closes_or_opens_its_issue
        two_closing_commits_at_once_leave_one_entry
        a_commit_acts_once_however_often_it_arrives
        commits_close_across_repositories_by_the_right_of_the_pusher
        commits_by_api_close_as_pushed_ones_do
    }
    embedded {
        a_first_push_into_an_empty_repository_counts
        commits_on_other_branches_wait_for_the_default_one
        the_last_word_of_a_push_counts
        commits_pushed_over_ssh_close_by_the_user_of_the_key
        commits_close_by_the_right_of_the_pusher_not_of_the_author
        posters_close_their_own_issues_from_elsewhere
        tokens_close_no_further_than_they_reach
        deploy_keys_close_nothing
        commits_close_nothing_where_issues_are_off
        a_commit_that_names_an_issue_is_in_its_timeline
    }
}

/// A user's repository with issues, and its work tree.
struct Work {
    user: User,
    git: Git,
    name: &'static str,
    /// Below `/api/v1`.
    repo: String,
}

impl Work {
    async fn new(user: &User, name: &'static str, issues: usize) -> Self {
        let repo = user.new_tracker(name, json!({"auto_init": true})).await;
        for number in 1..=issues {
            user.new_issue(&repo, &format!("Issue {number}"), json!({})).await;
        }
        let git = Git::new();
        git.run("", &["clone", "-q", &user.git_url(&user.name, name), "work"]).await;
        Self { user: user.clone(), git, name, repo }
    }

    async fn commit(&self, message: &str) -> String {
        self.git.run("work", &["commit", "-q", "--allow-empty", "-m", message]).await;
        self.git.run("work", &["rev-parse", "HEAD"]).await
    }

    async fn push(&self, arguments: &[&str]) {
        self.git.run("work", &[&["push", "-q"], arguments].concat()).await;
    }

    async fn push_commit(&self, message: &str) -> String {
        let id = self.commit(message).await;
        self.push(&["origin", "HEAD:main"]).await;
        id
    }

    /// Waits until all commits pushed so far have taken effect. Commits of a repository are
    /// processed in order, so this pushes one more, which closes its own issue.
    async fn settled(&self) {
        let number = self.user.new_issue(&self.repo, "Last", json!({})).await["number"].as_i64().unwrap();
        self.push_commit(&format!("Closes #{number}")).await;
        self.closed(number).await;
    }

    async fn closed(&self, number: i64) -> Value {
        closed(&self.user, &self.repo, number).await
    }

    async fn state(&self, number: i64) -> String {
        self.user.issue(&self.repo, number).await["state"].as_str().unwrap().to_owned()
    }
}

async fn closed(user: &User, repo: &str, number: i64) -> Value {
    user.eventually(&format!("{repo}/issues/{number}"), |issue| issue["state"] == "closed").await
}

/// Waits for a number of open issues. A commit closes issues after its response.
async fn open_issues_become(user: &User, repo: &str, count: i64) {
    user.eventually(repo, |repository| repository["open_issues_count"] == count).await;
}

async fn entries(user: &User, repo: &str, number: i64, action: &str) -> Vec<Value> {
    let mut timeline = user.timeline(repo, number).await;
    timeline.retain(|entry| entry["action"] == action);
    timeline
}

async fn every_word_closes_or_opens_its_issue(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let work = Work::new(&ada, "tracker", 10).await;
    let mut ids = Vec::new();
    for line in [
        "Close #1",
        "It closes #2.",
        "(CLOSED #3)",
        "fix: #4",
        "Fixes: #5\n",
        "x\n\nfixed #6, all of it",
        "resolve #7",
        "resolves #8",
    ] {
        ids.push(work.commit(line).await);
    }
    ids.push(work.commit("All of it\n\nResolved: #9\nfixes #99999").await);
    for nothing in [
        "prefixes #10",
        "encloses #10",
        "closing #10",
        "see #10",
        "#10",
        "closes x#10",
        "closes #10a",
        "closes issue #10",
        "closes 10",
        "closes\u{e9} #10",
        "close # 10",
        "reopen #10",
    ] {
        work.commit(nothing).await;
    }
    work.push(&["origin", "HEAD:main"]).await;
    work.settled().await;
    assert_eq!(ada.issue_numbers(&work.repo, "").await, [10]);
    open_issues_become(&ada, &work.repo, 1).await;
    for (number, id) in (1..).zip(&ids) {
        assert!(!ada.issue(&work.repo, number).await["closed_at"].is_null());
        let entries = entries(&ada, &work.repo, number, "closed").await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        let commit = json!({
            "repository": format!("{}/tracker", ada.name), "sha": id,
            "url": format!("{}/api/v1{}/commits/{id}", cluster.url, work.repo),
            "html_url": format!("{}/{}/tracker/commits/{id}", cluster.url, ada.name),
        });
        assert_eq!((&entries[0]["commit"], &entries[0]["user"]["username"]), (&commit, &json!(ada.name)));
    }
    for line in ["reopen #1", "Reopens: #2", "REOPENED #3"] {
        work.push_commit(line).await;
    }
    work.settled().await;
    assert_eq!(ada.issue_numbers(&work.repo, "").await, [10, 3, 2, 1]);
    for number in 1..=3 {
        assert_eq!(ada.issue(&work.repo, number).await["closed_at"], Value::Null);
        assert_eq!(entries(&ada, &work.repo, number, "reopened").await.len(), 1);
    }
    open_issues_become(&ada, &work.repo, 4).await;
}

async fn commits_by_api_close_as_pushed_ones_do(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({"auto_init": true})).await;
    for _ in 0..4 {
        ada.new_issue(&repo, "Issue", json!({})).await;
    }
    let file = format!("{repo}/contents/file");
    let put = ada.put(&file, &json!({"message": "Fixes #1", "content": "eA=="})).await.expect(201).json();
    let create = json!({"operation": "create", "path": "x", "content": "eA=="});
    let many = json!({"message": "Closes #2", "files": [create]});
    let many = ada.post(&format!("{repo}/contents"), &many).await.expect(201).json();
    let delete = ada.request(Method::DELETE, &file).json(&json!({"message": "Resolves #3"}));
    let delete = Response::of(delete).await.expect(200).json();
    let side = json!({"message": "Closes #4", "content": "eA==", "branch": "side"});
    ada.put(&format!("{repo}/contents/other"), &side).await.expect(201);
    for (number, commit) in [(1, put), (2, many), (3, delete)] {
        closed(&ada, &repo, number).await;
        let entries = entries(&ada, &repo, number, "closed").await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!(entries[0]["commit"]["sha"], commit["commit"]["sha"]);
    }
    assert_eq!(ada.issue(&repo, 4).await["state"], "open");
    open_issues_become(&ada, &repo, 1).await;
}

async fn a_first_push_into_an_empty_repository_counts(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for branch in ["main", "trunk"] {
        let repo = ada.new_tracker(branch, json!({})).await;
        for _ in 0..2 {
            ada.new_issue(&repo, "Issue", json!({})).await;
        }
        let git = Git::new();
        git.small("work").await;
        git.run("work", &["commit", "-q", "--allow-empty", "-m", "Fixes #1"]).await;
        git.run("work", &["commit", "-q", "--allow-empty", "-m", "Fixes #2"]).await;
        git.run("work", &["push", "-q", &ada.git_url(&ada.name, branch), &format!("HEAD:{branch}")]).await;
        closed(&ada, &repo, 1).await;
        closed(&ada, &repo, 2).await;
    }
}

async fn commits_on_other_branches_wait_for_the_default_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let work = Work::new(&ada, "tracker", 2).await;
    work.git.run("work", &["checkout", "-q", "-b", "topic"]).await;
    let id = work.commit("Fixes #1").await;
    work.push(&["origin", "topic", "topic:refs/tags/v1", "topic:refs/heads/main-2"]).await;
    work.git.run("work", &["checkout", "-q", "main"]).await;
    work.settled().await;
    assert_eq!((work.state(1).await, work.state(2).await), ("open".to_owned(), "open".to_owned()));
    work.git.run("work", &["merge", "-q", "--no-ff", "-m", "Merge, which resolves #2", "topic"]).await;
    work.push(&["origin", "main"]).await;
    assert_eq!(work.closed(1).await["state"], "closed");
    work.closed(2).await;
    assert_eq!(entries(&ada, &work.repo, 1, "closed").await[0]["commit"]["sha"], id);
}

async fn a_commit_acts_once_however_often_it_arrives(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let work = Work::new(&ada, "tracker", 2).await;
    let base = work.git.run("work", &["rev-parse", "HEAD"]).await;
    let id = work.push_commit("Fixes #1").await;
    work.closed(1).await;
    ada.edit_issue(&work.repo, 1, json!({"state": "open"})).await;
    for _ in 0..3 {
        work.push(&["--force", "origin", &format!("{base}:main")]).await;
        work.push(&["origin", &format!("{id}:main")]).await;
    }
    work.push(&["origin", &format!("{id}:refs/heads/again")]).await;
    work.settled().await;
    assert_eq!(work.state(1).await, "open");
    assert_eq!(entries(&ada, &work.repo, 1, "closed").await.len(), 1);
    ada.edit_issue(&work.repo, 2, json!({"state": "closed"})).await;
    work.push_commit("Closes #2").await;
    work.settled().await;
    assert_eq!(entries(&ada, &work.repo, 2, "closed").await.len(), 1);
    // Another commit with the same message takes effect.
    work.push_commit("Fixes #1").await;
    work.closed(1).await;
}

async fn the_last_word_of_a_push_counts(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let work = Work::new(&ada, "tracker", 3).await;
    for message in ["Fixes #1", "Reopens #1", "Closes #2", "Reopen #2", "Fix #2\n\nreopens #3\ncloses #3"] {
        work.commit(message).await;
    }
    work.push(&["origin", "HEAD:main"]).await;
    work.settled().await;
    assert_eq!([work.state(1).await, work.state(2).await, work.state(3).await], ["open", "closed", "closed"]);
    let states = ada.actions(&work.repo, 2).await;
    let states: Vec<_> = states.iter().filter(|action| ["closed", "reopened"].contains(&action.as_str())).collect();
    assert_eq!(states, ["closed", "reopened", "closed"]);
}

async fn commits_pushed_over_ssh_close_by_the_user_of_the_key(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let work = Work::new(&ada, "tracker", 1).await;
    ada.share(&work.repo, &bob, "write").await;
    let client = client_of(cluster, &bob, "ed25519").await;
    client.git("", &["clone", "-q", &client.url(&ada.name, "tracker"), "work"]).await;
    client.git("work", &["commit", "-q", "--allow-empty", "-m", "Fixes #1"]).await;
    client.git("work", &["push", "-q", "origin", "main"]).await;
    work.closed(1).await;
    assert_eq!(entries(&ada, &work.repo, 1, "closed").await[0]["user"]["username"], bob.name);
}

async fn commits_close_by_the_right_of_the_pusher_not_of_the_author(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let work = Work::new(&ada, "tracker", 1).await;
    // Author and committer of the commit are bob, who cannot even see the repository.
    ada.new_tracker("hidden", json!({"private": true})).await;
    let mut commit = work.git.command("work", &["commit", "-q", "--allow-empty", "-m", "Fixes #1"]);
    commit.envs([("GIT_AUTHOR_EMAIL", &bob.email), ("GIT_COMMITTER_EMAIL", &bob.email)]);
    assert!(commit.status().await.unwrap().success());
    work.push(&["origin", "HEAD:main"]).await;
    work.closed(1).await;
    assert_eq!(entries(&ada, &work.repo, 1, "closed").await[0]["user"]["username"], ada.name);
    // The reverse: ada's commit, pushed by bob to his own repository, does not close her issue.
    let number = ada.new_issue(&work.repo, "Next", json!({})).await["number"].as_i64().unwrap();
    let his = Work::new(&bob, "own", 0).await;
    let message = format!("Fixes {}/tracker#{number}", ada.name);
    let mut commit = his.git.command("work", &["commit", "-q", "--allow-empty", "-m", &message]);
    commit.envs([("GIT_AUTHOR_EMAIL", &ada.email), ("GIT_COMMITTER_EMAIL", &ada.email)]);
    assert!(commit.status().await.unwrap().success());
    his.push(&["origin", "HEAD:main"]).await;
    his.settled().await;
    assert_eq!(work.state(number).await, "open");
}

async fn commits_close_across_repositories_by_the_right_of_the_pusher(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (open, hidden) =
        (ada.new_tracker("open", json!({})).await, ada.new_tracker("hidden", json!({"private": true})).await);
    for repo in [&open, &hidden] {
        for _ in 0..2 {
            ada.new_issue(repo, "Issue", json!({})).await;
        }
    }
    let his = Work::new(&bob, "own", 1).await;
    let both = |number: i64| {
        let name = &ada.name;
        format!("Fixes {name}/open#{number}\n\ncloses: {}/HIDDEN#{number}, fixes nobody/nothing#1", name.to_uppercase())
    };
    his.push_commit(&both(1)).await;
    his.settled().await;
    assert_eq!(ada.issue_numbers(&open, "").await, [2, 1], "bob only reads here");
    assert_eq!(ada.issue_numbers(&hidden, "").await, [2, 1], "bob cannot see this");
    assert_eq!(ada.actions(&hidden, 1).await, [""; 0]);
    assert_eq!(his.state(1).await, "open", "a full name is not the commit's own repository");
    for repo in [&open, &hidden] {
        ada.share(repo, &bob, "write").await;
    }
    let id = his.push_commit(&both(2)).await;
    for repo in [&open, &hidden] {
        closed(&ada, repo, 2).await;
        let entries = entries(&ada, repo, 2, "closed").await;
        assert_eq!((entries.len(), &entries[0]["commit"]["sha"]), (1, &json!(id)), "{entries:?}");
        assert_eq!(entries[0]["commit"]["repository"], format!("{}/own", bob.name));
        assert_eq!(ada.issue_numbers(repo, "").await, [1], "the first commit is not processed again");
    }
    open_issues_become(&ada, &open, 1).await;
    open_issues_become(&ada, &hidden, 1).await;
}

async fn posters_close_their_own_issues_from_elsewhere(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let repo = ada.new_tracker("open", json!({})).await;
    ada.new_issue(&repo, "By ada", json!({})).await;
    bob.new_issue(&repo, "By bob", json!({})).await;
    let his = Work::new(&bob, "own", 0).await;
    his.push_commit(&format!("Fixes {0}/open#1, fixes {0}/open#2", ada.name)).await;
    his.settled().await;
    assert_eq!(ada.issue_numbers(&repo, "").await, [1]);
    assert_eq!(entries(&ada, &repo, 2, "closed").await[0]["user"]["username"], bob.name);
}

async fn tokens_close_no_further_than_they_reach(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let work = Work::new(&ada, "tracker", 3).await;
    let elsewhere = ada.new_tracker("elsewhere", json!({})).await;
    ada.new_issue(&elsewhere, "Issue", json!({})).await;
    let both = |number: i64| format!("Fixes #{number} and fixes {}/elsewhere#1", ada.name);
    let push = async |user: &User, message: &str| {
        work.commit(message).await;
        work.push(&[&user.git_url(&ada.name, work.name), "HEAD:main"]).await;
    };
    let limits = json!({"repositories": [format!("{}/tracker", ada.name)]});
    push(&ada.with_scopes(&["repo:write"]).await, &both(1)).await;
    push(&ada.with_new_token(limits).await, &both(2)).await;
    let message = json!({"message": both(3), "content": "eA=="});
    let put = format!("{}/contents/file", work.repo);
    ada.with_scopes(&["repo:write"]).await.put(&put, &message).await.expect(201);
    work.git.run("work", &["pull", "-q", "--no-edit", "origin", "main"]).await;
    work.settled().await;
    assert_eq!([work.state(1).await, work.state(2).await, work.state(3).await], ["open", "closed", "open"]);
    assert_eq!(ada.issue(&elsewhere, 1).await["state"], "open");
    // With the scope, and with the password, all references work.
    push(&ada.with_scopes(&["repo:write", "issue"]).await, &both(1)).await;
    closed(&ada, &elsewhere, 1).await;
    work.commit("Fixes #3").await;
    work.push(&[&ada.git_url_with_password(&ada.name, work.name), "HEAD:main"]).await;
    work.closed(3).await;
}

async fn deploy_keys_close_nothing(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let work = Work::new(&ada, "tracker", 1).await;
    let client = Client::new(cluster, "ed25519").await;
    let key = json!({"title": "ci", "key": client.public(), "read_only": false});
    ada.post(&format!("{}/keys", work.repo), &key).await.expect(201);
    client.git("", &["clone", "-q", &client.url(&ada.name, "tracker"), "work"]).await;
    client.git("work", &["commit", "-q", "--allow-empty", "-m", "Fixes #1"]).await;
    client.git("work", &["push", "-q", "origin", "main"]).await;
    work.git.run("work", &["pull", "-q", "origin", "main"]).await;
    work.settled().await;
    assert_eq!(work.state(1).await, "open");
}

async fn commits_close_nothing_where_issues_are_off(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let work = Work::new(&ada, "code", 0).await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    ada.new_issue(&repo, "Issue", json!({})).await;
    let tracker = async |body: Value| drop(ada.patch(&format!("{repo}/issue-tracker"), &body).await.expect(204));
    tracker(json!({"enable_issues": false})).await;
    work.push_commit(&format!("Fixes {}/tracker#1", ada.name)).await;
    work.settled().await;
    tracker(json!({"enable_issues": true})).await;
    assert_eq!(ada.issue(&repo, 1).await["state"], "open");
    assert_eq!(ada.actions(&repo, 1).await, [""; 0]);
    // The deleted repository leaves no work behind.
    ada.delete(&repo).await.expect(204);
    work.push_commit(&format!("Closes {}/tracker#1", ada.name)).await;
    work.settled().await;
}

async fn a_commit_that_names_an_issue_is_in_its_timeline(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let work = Work::new(&ada, "tracker", 2).await;
    let id = work.push_commit("Part of #1, see #1 and #2").await;
    work.settled().await;
    for number in [1, 2] {
        let entries = entries(&ada, &work.repo, number, "referenced").await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        assert_eq!((&entries[0]["commit"]["sha"], &entries[0]["user"]["username"]), (&json!(id), &json!(ada.name)));
        assert_eq!(work.state(number).await, "open");
    }
    // From a repository that bob cannot see.
    let private = ada.new_tracker("private", json!({"private": true, "auto_init": true})).await;
    let body = json!({"message": format!("See {}/tracker#1", ada.name), "content": "eA=="});
    ada.put(&format!("{private}/contents/x"), &body).await.expect(201);
    let path = format!("{}/issues/1/timeline", work.repo);
    ada.eventually(&path, |timeline| timeline.as_array().unwrap().len() == 2).await;
    let seen = bob.get(&path).await.expect(200);
    assert!(seen.json().as_array().unwrap().len() == 1 && !seen.text().contains("private"), "{}", seen.text());
}

async fn two_closing_commits_at_once_leave_one_entry(cluster: &Cluster) {
    const COMMITS: usize = 4;
    let ada = &cluster.user("ada").await;
    let repo = &ada.new_tracker("tracker", json!({"auto_init": true})).await;
    let mut sources = Vec::new();
    for name in ["one", "two"] {
        sources.push(ada.new_tracker(name, json!({"auto_init": true})).await);
    }
    for round in 1..=3 {
        ada.new_issue(repo, "Contested", json!({})).await;
        // From two repositories at once, and several times from this one.
        let own = async |index: usize| {
            let body = json!({"message": format!("Fixes #{round}"), "content": "eA=="});
            ada.put(&format!("{repo}/contents/file-{round}-{index}"), &body).await.expect(201);
        };
        let cross = async |source: &String| {
            let body = json!({"message": format!("Fixes {}/tracker#{round}", ada.name), "content": "eA=="});
            ada.put(&format!("{source}/contents/file-{round}"), &body).await.expect(201);
        };
        tokio::join!(cross(&sources[0]), cross(&sources[1]), own(1), own(2));
        closed(ada, repo, round).await;
        // When all commits are processed, all of them are in the timeline.
        let path = format!("{repo}/issues/{round}/timeline");
        let timeline = ada
            .eventually(&path, |timeline| {
                let entries = timeline.as_array().unwrap();
                let shas: std::collections::BTreeSet<_> =
                    entries.iter().filter_map(|entry| entry["commit"]["sha"].as_str()).collect();
                shas.len() == COMMITS
            })
            .await;
        let closings = timeline.as_array().unwrap().iter().filter(|entry| entry["action"] == "closed").count();
        assert_eq!(closings, 1, "{timeline:#}");
        assert_eq!(ada.issue(repo, round).await["state"], "closed");
    }
    open_issues_become(ada, repo, 0).await;
}
