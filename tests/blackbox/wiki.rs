//! Wikis: their settings, and their pages over git and the API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::ssh::{Client, client_of};
use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        the_first_push_makes_a_wiki_that_is_cloned_and_changed
        a_wiki_is_deleted_with_its_repository
        pages_are_written_and_read_over_the_api
    }
    embedded {
        patch_wiki_takes_any_of_its_fields_and_names_the_wrong_ones
        a_wiki_has_the_level_of_its_repository_and_a_public_one_is_for_everybody
        ssh_serves_wikis_and_deploy_keys_reach_those_of_their_repository
        no_service_is_told_of_a_wiki
        pages_that_were_pushed_are_found_by_their_titles
        pages_have_the_rights_of_their_repository
        pages_that_cannot_be_written_are_refused
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

async fn pages_are_written_and_read_over_the_api(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("paged", json!({})).await;
    let wiki = ada.repo("paged", "/wiki");
    ada.get(&format!("{wiki}/pages")).await.refused_with_message(404, "wiki does not exist");
    ada.get(&format!("{wiki}/page/Home")).await.refused(404);
    let new = json!({"title": "Getting started", "content_base64": "b25l", "message": "Say how"});
    let made = ada.post(&format!("{wiki}/new"), &new).await.expect(201).json();
    assert_eq!((&made["title"], &made["sub_url"]), (&json!("Getting started"), &json!("Getting-started")));
    assert_eq!((&made["content_base64"], &made["commit_count"]), (&json!("b25l"), &json!(1)));
    let commit = &made["last_commit"];
    assert_eq!((&commit["message"], &commit["author"]["email"]), (&json!("Say how"), &json!(ada.email)));
    assert_eq!(made["html_url"], format!("{}/{}/paged/wiki/Getting-started", cluster.url, ada.name));
    for (title, text) in [("_Sidebar", "c2lkZQ=="), ("_Footer", "Zm9vdA==")] {
        let beside = json!({"title": title, "content_base64": text});
        ada.post(&format!("{wiki}/new"), &beside).await.expect(201);
    }
    let page = format!("{wiki}/page/Getting-started");
    let stale = json!({"content_base64": "eA==", "sha": "0".repeat(40)});
    ada.patch(&page, &stale).await.refused(409);
    let changed = json!({"title": "First steps", "content_base64": "dHdv", "sha": made["sha"]});
    let changed = ada.patch(&page, &changed).await.expect(200).json();
    assert_eq!((&changed["sub_url"], &changed["sidebar"]), (&json!("First-steps"), &json!("c2lkZQ==")));
    ada.get(&page).await.refused(404);
    let page = format!("{wiki}/page/First-steps");
    assert_eq!(ada.get(&page).await.expect(200).json(), changed);
    ada.patch(&page, &json!({"content_base64": "dGhyZWU="})).await.expect(200);
    let revisions = ada.get(&format!("{wiki}/revisions/First-steps?limit=1")).await.expect(200).json();
    assert_eq!((&revisions["count"], revisions["commits"].as_array().unwrap().len()), (&json!(2), 1));
    let listed = ada.get(&format!("{wiki}/pages")).await.expect(200);
    assert_eq!(listed.each("title"), ["First steps", "_Footer", "_Sidebar"]);
    assert!(listed.json()[0]["last_commit"]["sha"].is_string());
    let second = ada.get(&format!("{wiki}/pages?limit=2&page=2")).await.expect(200);
    assert_eq!((second.each("title"), second.header("x-total-count")), (vec!["_Sidebar".to_owned()], "3".to_owned()));

    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "paged.wiki"), "work"]).await;
    assert_eq!(std::fs::read_to_string(git.path().join("work/First-steps.md")).unwrap(), "three");
    ada.delete(&page).await.empty(204);
    ada.delete(&page).await.refused_with_message(404, "wiki page not found");
    git.run("work", &["pull", "-q"]).await;
    assert!(!git.path().join("work/First-steps.md").exists());
}

async fn pages_that_were_pushed_are_found_by_their_titles(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    ada.new_repository("imported", json!({})).await;
    let wiki = ada.repo("imported", "/wiki");
    git.run("", &["init", "-q", "-b", "main", "work"]).await;
    for file in ["hello world.md", "2000-01-02 meeting.-.md", "C%2B%2B.md", "dir/Page.md", "picture.png"] {
        let place = git.path().join("work").join(file);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, file).unwrap();
    }
    git.run("work", &["add", "-A"]).await;
    git.run("work", &["commit", "-q", "-m", "Import"]).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "imported.wiki"), "main"]).await;
    let listed = ada.get(&format!("{wiki}/pages")).await.expect(200);
    assert_eq!(listed.each("title"), ["2000-01-02 meeting", "C++", "hello world"]);
    for page in listed.json().as_array().unwrap() {
        let found = ada.get(&format!("{wiki}/page/{}", page["sub_url"].as_str().unwrap())).await.expect(200).json();
        assert_eq!((&found["title"], &found["sha"]), (&page["title"], &page["sha"]));
    }
    for (name, title) in [("hello%20world.md", "hello world"), ("C++", "C++"), ("dir%2FPage", "dir/Page")] {
        assert_eq!(ada.get(&format!("{wiki}/page/{name}")).await.expect(200).json()["title"], title);
    }
    let raw = ada.get(&format!("{wiki}/raw/picture.png")).await.expect(200);
    assert_eq!(raw.text(), "picture.png");
    assert!(raw.header("content-security-policy").contains("sandbox"));
    assert_eq!(ada.get(&format!("{wiki}/raw/dir/Page.md")).await.expect(200).text(), "dir/Page.md");
    ada.get(&format!("{wiki}/raw/none.png")).await.refused(404);
    // A page keeps its file, and a new title gives it a new one.
    ada.patch(&format!("{wiki}/page/hello-world"), &json!({"content_base64": "eA=="})).await.expect(200);
    assert_eq!(ada.get(&format!("{wiki}/raw/hello%20world.md")).await.expect(200).text(), "x");
    ada.patch(&format!("{wiki}/page/hello-world"), &json!({"title": "Hello"})).await.expect(200);
    assert_eq!(ada.get(&format!("{wiki}/raw/Hello.md")).await.expect(200).text(), "x");
}

async fn pages_have_the_rights_of_their_repository(cluster: &Cluster) {
    let (ada, bob, anonymous) = (cluster.user("ada").await, cluster.user("bob").await, cluster.anonymous());
    ada.new_repository("guarded", json!({"private": true})).await;
    let (repo, wiki) = (ada.repo("guarded", ""), ada.repo("guarded", "/wiki"));
    ada.post(&format!("{wiki}/new"), &json!({"title": "Home", "content_base64": "aGk="})).await.expect(201);
    let reads = ["pages", "page/Home", "revisions/Home", "raw/Home.md"].map(|read| format!("{wiki}/{read}"));
    for (user, read) in [&bob, &anonymous].into_iter().flat_map(|user| reads.iter().map(move |read| (user, read))) {
        user.get(read).await.refused_with_message(404, "repository does not exist");
    }
    set(&ada, &repo, json!({"allow_public_wiki": true})).await;
    for (user, read) in [&bob, &anonymous].into_iter().flat_map(|user| reads.iter().map(move |read| (user, read))) {
        user.get(read).await.expect(200);
    }
    let change = json!({"content_base64": "eA=="});
    bob.patch(&reads[1], &change).await.refused(403);
    anonymous.patch(&reads[1], &change).await.refused(401);
    ada.share(&repo, &bob, "write").await;
    bob.patch(&reads[1], &change).await.expect(200);
    ada.patch(&repo, &json!({"archived": true})).await.expect(200);
    ada.post(&format!("{wiki}/new"), &json!({"title": "New"})).await.refused(403);
    ada.patch(&reads[1], &json!({"title": "Other"})).await.refused(403);
    ada.delete(&reads[1]).await.refused(403);
    ada.patch(&repo, &json!({"archived": false})).await.expect(200);
    set(&ada, &repo, json!({"enable_wiki": false})).await;
    ada.get(&reads[0]).await.refused_with_message(404, "wiki does not exist");
    ada.post(&format!("{wiki}/new"), &json!({"title": "New"})).await.refused(404);
    anonymous.get(&reads[0]).await.refused_with_message(404, "repository does not exist");
}

async fn pages_that_cannot_be_written_are_refused(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("strict", json!({})).await;
    let wiki = ada.repo("strict", "/wiki");
    let new = format!("{wiki}/new");
    ada.patch(&format!("{wiki}/page/Home"), &json!({"title": "x"})).await.refused(404);
    ada.post(&new, &json!({"title": "Home"})).await.expect(201);
    let long = STANDARD.encode("x".repeat((1 << 20) + 1));
    for (body, field) in [
        (json!({}), "title"),
        (json!({"title": "Home"}), "title"),
        (json!({"title": "_new"}), "title"),
        (json!({"title": "a\nb"}), "title"),
        (json!({"title": "ü".repeat(100)}), "title"),
        (json!({"title": "x", "content_base64": "?"}), "content_base64"),
        (json!({"title": "x", "content_base64": long}), "content_base64"),
        (json!({"title": "x", "message": "m".repeat(20_000)}), "message"),
    ] {
        ada.post(&new, &body).await.refused_field(field);
    }
    let page = format!("{wiki}/page/Home");
    ada.post(&new, &json!({"title": "Other"})).await.expect(201);
    for (body, field) in [
        (json!({"title": "Other"}), "title"),
        (json!({"content_base64": ""}), "content_base64"),
        (json!({"sha": "x"}), "sha"),
    ] {
        ada.patch(&page, &body).await.refused_field(field);
    }
    for name in ["None", "%ff", "x.png", "..%2Fx"] {
        ada.get(&format!("{wiki}/page/{name}")).await.refused(404);
        ada.get(&format!("{wiki}/revisions/{name}")).await.refused(404);
    }
}
