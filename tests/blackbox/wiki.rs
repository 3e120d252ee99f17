//! Wikis: their settings, and their pages over git.

use serde_json::{Value, json};

use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        the_first_push_makes_a_wiki_that_is_cloned_and_changed
        a_wiki_is_deleted_with_its_repository
    }
    embedded {
        patch_wiki_takes_any_of_its_fields_and_names_the_wrong_ones
        a_wiki_has_the_level_of_its_repository_and_a_public_one_is_for_everybody
        ssh_serves_wikis_and_deploy_keys_reach_those_of_their_repository
        no_service_is_told_of_a_wiki
    }
}

async fn set(user: &User, repo: &str, body: Value) {
    user.patch(&format!("{repo}/wiki"), &body).await.empty(204);
}

async fn push_page(git: &Git, folder: &str, url: &str) {
    git.run("", &["init", "-q", "-b", "main", folder]).await;
    git.commit(folder, "Home.md", "welcome").await;
    git.run(folder, &["push", "-q", url, "main"]).await;
}

async fn the_first_push_makes_a_wiki_that_is_cloned_and_changed(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let made = ada.new_repository("Demo", json!({"auto_init": true})).await;
    assert_eq!(made["has_wiki"], true);
    let git = Git::new();
    let url = ada.git_url(&ada.name, "Demo.wiki");
    assert!(git.fails("", &["clone", "-q", &url, "none"]).await.contains("not found"));
    push_page(&git, "work", &url).await;
    // Any spelling works, also for readers without a role.
    for (user, name, folder) in [(&ada, "demo.wiki", "one"), (&bob, "DEMO.Wiki", "two")] {
        git.run("", &["clone", "-q", &user.git_url(&ada.name, name), folder]).await;
        assert_eq!(std::fs::read_to_string(git.path().join(folder).join("Home.md")).unwrap(), "welcome");
    }
    git.commit("one", "Home.md", "changed").await;
    git.run("one", &["push", "-q"]).await;
    git.run("two", &["pull", "-q"]).await;
    assert_eq!(std::fs::read_to_string(git.path().join("two/Home.md")).unwrap(), "changed");
    git.commit("two", "Home.md", "by a reader").await;
    assert!(git.fails("two", &["push", "-q"]).await.contains("403"));
    // The wiki is not a repository in the API, and shares nothing with its repository.
    ada.get(&ada.repo("Demo.wiki", "")).await.refused(404);
    assert_eq!(ada.get(&ada.repo("Demo", "/commits")).await.expect(200).json().as_array().unwrap().len(), 1);
}

async fn a_wiki_is_deleted_with_its_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let git = Git::new();
    for folder in ["first", "second"] {
        ada.new_repository("demo", json!({})).await;
        let url = ada.git_url(&ada.name, "demo.wiki");
        git.fails("", &["ls-remote", &url]).await;
        push_page(&git, folder, &url).await;
        assert!(git.run("", &["ls-remote", &url]).await.contains("refs/heads/main"));
        ada.delete(&ada.repo("demo", "")).await.expect(204);
        git.fails("", &["ls-remote", &url]).await;
        git.fails(folder, &["push", "-q", &url, "main"]).await;
    }
}

async fn patch_wiki_takes_any_of_its_fields_and_names_the_wrong_ones(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("demo", json!({})).await;
    let repo = ada.repo("demo", "");
    for body in [json!({}), json!({"enable_wiki": null, "allow_public_wiki": null, "external_wiki_url": null})] {
        set(&ada, &repo, body).await;
    }
    set(&ada, &repo, json!({"external_wiki_url": "https://wiki.example.com/x?y=1"})).await;
    let shown = ada.get(&repo).await.expect(200).json();
    assert_eq!((&shown["has_wiki"], shown.get("external_wiki")), (&json!(true), None));
    set(&ada, &repo, json!({"enable_external_wiki": true})).await;
    let shown = ada.get(&repo).await.expect(200).json();
    assert_eq!(shown["has_wiki"], false);
    assert_eq!(shown["external_wiki"], json!({"external_wiki_url": "https://wiki.example.com/x?y=1"}));
    for (field, wrong) in [
        ("external_wiki_url", json!("wiki.example.com")),
        ("external_wiki_url", json!("javascript:alert(1)")),
        ("external_wiki_url", json!(format!("https://example.com/{}", "x".repeat(2_048)))),
        ("external_wiki_url", json!("")),
        ("external_wiki_url", json!(1)),
        ("enable_wiki", json!("no")),
        ("allow_public_wiki", json!(0)),
        ("enable_external_wiki", json!([])),
    ] {
        let mut body = json!({"enable_wiki": false});
        body[field] = wrong.clone();
        ada.patch(&format!("{repo}/wiki"), &body).await.refused_field(field);
    }
    set(&ada, &repo, json!({"enable_external_wiki": false, "external_wiki_url": ""})).await;
    assert_eq!(ada.get(&repo).await.expect(200).json()["has_wiki"], true, "invalid requests changed nothing");
    set(&ada, &repo, json!({"enable_wiki": false})).await;
    assert_eq!(ada.get(&repo).await.expect(200).json()["has_wiki"], false);
    ada.share(&repo, &bob, "write").await;
    bob.patch(&format!("{repo}/wiki"), &json!({"enable_wiki": true})).await.refused(403);
    cluster.anonymous().patch(&format!("{repo}/wiki"), &json!({})).await.refused(401);
}

async fn a_wiki_has_the_level_of_its_repository_and_a_public_one_is_for_everybody(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("demo", json!({"private": true})).await;
    let (repo, git) = (ada.repo("demo", ""), Git::new());
    let url = |user: &User| user.git_url(&ada.name, "demo.wiki");
    let open = format!("{}/{}/demo.wiki.git", cluster.url, ada.name);
    push_page(&git, "work", &url(&ada)).await;
    for url in [url(&bob), open.clone()] {
        git.fails("", &["ls-remote", &url]).await;
    }
    set(&ada, &repo, json!({"allow_public_wiki": true})).await;
    for url in [url(&bob), open.clone()] {
        assert!(git.run("", &["ls-remote", &url]).await.contains("refs/heads/main"));
        git.fails("work", &["push", "-q", &url, "main:other"]).await;
        let of_repository = url.replace("demo.wiki", "demo");
        git.fails("", &["ls-remote", &of_repository]).await;
    }
    bob.get(&repo).await.refused(404);
    ada.share(&repo, &bob, "write").await;
    git.run("work", &["push", "-q", &url(&bob), "main:other"]).await;
    for (off, on) in [
        (json!({"enable_wiki": false}), json!({"enable_wiki": true})),
        (
            json!({"enable_external_wiki": true, "external_wiki_url": "https://wiki.example.com"}),
            json!({"enable_external_wiki": false}),
        ),
    ] {
        set(&ada, &repo, off).await;
        for url in [url(&ada), url(&bob), open.clone()] {
            git.fails("", &["ls-remote", &url]).await;
        }
        git.fails("work", &["push", "-q", &url(&ada), "main:third"]).await;
        set(&ada, &repo, on).await;
        assert!(git.run("", &["ls-remote", &open]).await.contains("refs/heads/other"), "pages stay");
    }
}

async fn ssh_serves_wikis_and_deploy_keys_reach_those_of_their_repository(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for name in ["demo", "other"] {
        ada.new_repository(name, json!({"private": true})).await;
    }
    let (client, key) = (client_of(cluster, &ada, "ed25519").await, Client::new(cluster, "ed25519").await);
    let wiki = |client: &Client, name: &str| client.url(&ada.name, &format!("{name}.wiki"));
    let missing = "Ferrite: Repository does not exist or you do not have access\n";
    assert!(client.fails("", &["ls-remote", &wiki(&client, "demo")]).await.starts_with(missing));
    let git = &client.git;
    git.run("", &["init", "-q", "-b", "main", "work"]).await;
    git.commit("work", "Home.md", "welcome").await;
    client.git("work", &["push", "-q", &wiki(&client, "demo"), "main"]).await;
    client.git("work", &["push", "-q", &wiki(&client, "other"), "main"]).await;
    let body = json!({"title": "bot", "key": key.public(), "read_only": false});
    ada.post(&ada.repo("demo", "/keys"), &body).await.expect(201);
    assert!(key.git("", &["ls-remote", &wiki(&key, "demo")]).await.contains("refs/heads/main"));
    key.git.run("", &["init", "-q", "-b", "main", "work"]).await;
    key.git.commit("work", "Bot.md", "page").await;
    key.git("work", &["push", "-q", &wiki(&key, "demo"), "main:bot"]).await;
    assert!(key.fails("", &["ls-remote", &wiki(&key, "other")]).await.starts_with(missing));
}

async fn no_service_is_told_of_a_wiki(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let made = ada.new_repository("demo", json!({"auto_init": true})).await;
    let repo = ada.repo("demo", "");
    ada.post(&format!("{repo}/issues"), &json!({"title": "stays open"})).await.expect(201);
    let git = Git::new();
    git.run("", &["init", "-q", "-b", "main", "work"]).await;
    git.commit("work", "Home.md", "welcome").await;
    git.run("work", &["commit", "-q", "--allow-empty", "-m", "fixes #1"]).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "demo.wiki"), "main"]).await;
    // A later update of the repository itself emits events.
    let file = json!({"message": "m", "content": ""});
    ada.put(&format!("{repo}/contents/a"), &file).await.expect(201);
    let pushes =
        |page: &Value| page["events"].as_array().unwrap().iter().filter(|event| event["event"] == "push").count();
    let page = ada.eventually(&format!("{repo}/events?limit=50"), |page| pushes(page) >= 2).await;
    assert_eq!(pushes(&page), 2, "the first commit and the file: {page}");
    assert_eq!(ada.get(&format!("{repo}/issues/1")).await.expect(200).json()["state"], "open");
    assert_eq!(ada.get(&repo).await.expect(200).json()["default_branch"], made["default_branch"]);
}
