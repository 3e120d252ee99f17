//! Repositories: created, listed, searched, read, deleted.

use reqwest::header::IF_NONE_MATCH;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::{Cluster, Git, User};

on_profiles! {
    both {
        simultaneous_requests_take_a_name_once
        search_is_literal_and_shows_what_the_caller_may_see
        searches_are_narrowed_by_role_star_and_visibility
        a_repository_is_found_by_its_number
        a_deleted_repository_is_gone_from_every_interface
        a_new_repository_begins_with_a_set_of_labels
    }
    production {
        a_new_repository_has_the_shape_of_the_contract
        a_first_commit_is_made_from_templates
        templates_that_do_not_exist_are_named
        a_new_repository_has_the_default_branch_that_it_is_given
        repository_names_follow_the_rules
        a_hidden_repository_looks_like_a_missing_one
        lists_show_what_the_caller_may_see
        only_owners_delete
    }
}

async fn a_new_repository_begins_with_a_set_of_labels(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("labeled", json!({"issue_labels": "Default"})).await;
    let labels = ada.repo("labeled", "/labels");
    let found = ada.eventually(&labels, |labels| labels.as_array().is_some_and(|labels| !labels.is_empty())).await;
    let names: Vec<_> = found.as_array().unwrap().iter().map(|label| label["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bug", "duplicate", "enhancement", "help wanted", "invalid", "question", "wontfix"]);
    ada.new_repository("plain", json!({"issue_labels": ""})).await;
    assert_eq!(ada.get(&ada.repo("plain", "/labels")).await.expect(200).json(), json!([]));
    let unknown = json!({"name": "other", "issue_labels": "Advanced"});
    ada.post("/user/repos", &unknown).await.refused_field("issue_labels");
}

async fn a_new_repository_has_the_shape_of_the_contract(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let made = ada.new_repository("Demo", json!({"description": "<b> & more", "private": true})).await;
    let url = &cluster.url;
    assert_eq!(made["full_name"], format!("{}/Demo", ada.name));
    assert_eq!(made["html_url"], format!("{url}/{}/Demo", ada.name));
    assert_eq!(made["clone_url"], format!("{url}/{}/Demo.git", ada.name));
    assert!(made["ssh_url"].as_str().unwrap().ends_with(&format!("{}/Demo.git", ada.name)), "{made}");
    assert_eq!(made["owner"]["username"], ada.name.as_str());
    assert_eq!(made["permissions"], json!({"admin": true, "push": true, "pull": true}));
    assert_eq!(made["default_branch"], "main");
    for (field, value) in [
        ("private", json!(true)),
        ("fork", json!(false)),
        ("empty", json!(true)),
        ("mirror", json!(false)),
        ("stars_count", json!(0)),
        ("forks_count", json!(0)),
        ("watchers_count", json!(1)),
        ("open_issues_count", json!(0)),
        ("website", json!("")),
        ("description", json!("<b> & more")),
        ("name", json!("Demo")),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert!(made.get("parent").is_none());
    for field in ["created_at", "updated_at"] {
        let time = made[field].as_str().unwrap();
        assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    }
    let response = ada.get(&format!("/repos/{}/dEMO", ada.name.to_uppercase())).await.expect(200);
    assert!(response.text().contains("\\u003cb\\u003e \\u0026 more"), "{}", response.text());
    assert_eq!(response.header("content-type"), "application/json; charset=UTF-8");
    assert_eq!(response.json(), made);
}

async fn a_first_commit_is_made_from_templates(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let more =
        json!({"auto_init": true, "gitignores": "Go,Rust", "license": "MIT License", "description": "What it is"});
    let made = ada.new_repository("templates", more).await;
    assert_eq!(made["empty"], false, "{made}");
    assert!(made["size"].as_i64().unwrap() > 0, "{made}");
    let git = Git::new();
    git.run("", &["clone", "-q", &ada.git_url(&ada.name, "templates"), "work"]).await;
    let file = |name: &str| std::fs::read_to_string(git.path().join("work").join(name)).unwrap();
    assert_eq!(file("README.md").trim_end(), "# templates\n\nWhat it is");
    assert!(file(".gitignore").starts_with("# ---> Go\n") && file(".gitignore").contains("# ---> Rust\n"));
    assert!(file("LICENSE").contains("MIT License"), "{}", file("LICENSE"));
    assert_eq!(git.run("work", &["log", "--format=%s|%ae|%ce"]).await, format!("Initial commit|{0}|{0}", ada.email));
    assert_eq!(git.run("work", &["rev-parse", "--abbrev-ref", "HEAD"]).await, "main");
}

async fn templates_that_do_not_exist_are_named(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for (field, value) in [("gitignores", "Go,Nonsense"), ("license", "No Such License"), ("readme", "Nonsense")] {
        let mut body = json!({"name": "half", "auto_init": true});
        body[field] = json!(value);
        let refused = ada.post("/user/repos", &body).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], field, "{refused}");
        ada.get(&ada.repo("half", "")).await.refused(404);
    }
    let body =
        json!({"name": "half", "auto_init": true, "gitignores": "", "license": "", "readme": "", "description": null});
    ada.post("/user/repos", &body).await.expect(201);
}

async fn a_new_repository_has_the_default_branch_that_it_is_given(cluster: &Cluster) {
    let (ada, git) = (cluster.user("ada").await, Git::new());
    let of_gitea = json!({
        "auto_init": true, "default_branch": "trunk", "object_format_name": "sha1", "trust_model": "default",
        "template": false, "issue_labels": "",
    });
    assert_eq!(ada.new_repository("begun", of_gitea).await["default_branch"], "trunk");
    assert_eq!(ada.get(&ada.repo("begun", "/branches")).await.expect(200).each("name"), ["trunk"]);
    let organization = ada.new_organization("acme").await;
    let body = json!({"name": "later", "default_branch": "a/b"});
    ada.post(&format!("/orgs/{organization}/repos"), &body).await.expect(201);
    let url = ada.git_url(&organization, "later");
    git.run("", &["clone", "-q", &url, "work"]).await;
    git.commit("work", "first", "x").await;
    git.run("work", &["push", "-q", "origin", "HEAD:other", "HEAD:a/b"]).await;
    assert!(git.run("", &["ls-remote", "--symref", &url, "HEAD"]).await.starts_with("ref: refs/heads/a/b\tHEAD"));
    let shown = ada.get(&format!("/repos/{organization}/later")).await.expect(200).json();
    assert_eq!(shown["default_branch"], "a/b");

    ada.post("/user/repos", &json!({"name": "x", "default_branch": "a..b"})).await.refused_field("default_branch");
    let other = json!({
        "name": "x", "object_format_name": "sha256", "trust_model": "committer", "template": true,
        "issue_labels": "Other",
    });
    ada.post("/user/repos", &other).await.refused_fields(&[
        ("object_format_name", "unknown"),
        ("trust_model", "unknown"),
        ("template", "invalid"),
        ("issue_labels", "unknown"),
    ]);
}

async fn a_repository_is_found_by_its_number(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let of = |repository: &Value| format!("/repositories/{}", repository["id"]);
    let open = ada.new_repository("open", json!({})).await;
    let hidden = ada.new_repository("hidden", json!({"private": true})).await;
    for caller in [&ada, &outsider, &cluster.anonymous()] {
        let shown = caller.get(&of(&open)).await.expect(200);
        assert_eq!(shown.json(), caller.get(&ada.repo("open", "")).await.expect(200).json());
        let again = caller.get_with(&of(&open), IF_NONE_MATCH, &shown.header("etag")).await;
        assert_eq!(again.status, 304);
    }
    assert_eq!(ada.get(&of(&hidden)).await.expect(200).json(), hidden);
    for caller in [&outsider, &cluster.anonymous()] {
        let missing = caller.get("/repositories/999999999").await.refused(404);
        assert_eq!(caller.get(&of(&hidden)).await.refused(404).body, missing.body);
    }
    ada.get("/repositories/open").await.refused_with_message(404, "repository does not exist");
    ada.patch(&ada.repo("open", ""), &json!({"name": "renamed"})).await.expect(200);
    assert_eq!(ada.get(&of(&open)).await.expect(200).json()["name"], "renamed");
    ada.delete(&ada.repo("renamed", "")).await.expect(204);
    ada.get(&of(&open)).await.refused(404);
}

async fn repository_names_follow_the_rules(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.post("/user/repos", &json!({})).await.refused_fields(&[("name", "required")]);
    ada.post("/user/repos", &json!({"name": null})).await.refused_fields(&[("name", "required")]);
    let long = "n".repeat(101);
    for wrong in ["a b", "a/b", ".", "..", "...", "-dash", "x.git", "x.WIKI", "ä", "a\u{0}", &long, "../up", "a\nb"] {
        let refused = ada.post("/user/repos", &json!({"name": wrong})).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], "name", "{wrong:?}: {refused}");
    }
    let both = json!({"name": long, "description": "d".repeat(256)});
    ada.post("/user/repos", &both).await.refused_fields(&[("name", "too_long"), ("description", "too_long")]);
    let nameless = json!({"description": "d".repeat(256)});
    ada.post("/user/repos", &nameless).await.refused_fields(&[("name", "required"), ("description", "too_long")]);
    ada.post("/user/repos", &json!({"name": "x", "private": "yes"})).await.refused_fields(&[("private", "type")]);
    for good in ["x.", "new", "settings", "_", "n".repeat(100).as_str()] {
        ada.post("/user/repos", &json!({"name": good, "description": "d".repeat(255)})).await.expect(201);
    }
    cluster.anonymous().post("/user/repos", &json!({"name": "x"})).await.refused(401);
}

async fn simultaneous_requests_take_a_name_once(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..8 {
        let ada = ada.clone();
        let name = if number % 2 == 0 { "same" } else { "SAME" };
        calls.spawn(
            async move { ada.post("/user/repos", &json!({"name": name, "auto_init": true})).await.status.as_u16() },
        );
    }
    let mut statuses = calls.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 422, 422, 422, 422, 422, 422, 422]);
    let again = ada.post("/user/repos", &json!({"name": "Same"})).await.refused(422).json();
    assert!(again["message"].as_str().unwrap().contains("exist"), "{again}");
    assert_eq!((&again["errors"][0]["field"], &again["errors"][0]["code"]), (&json!("name"), &json!("taken")));
    cluster.user("bob").await.new_repository("same", json!({})).await;
}

async fn a_hidden_repository_looks_like_a_missing_one(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("hidden", json!({"private": true, "auto_init": true})).await;
    for caller in [outsider, cluster.anonymous()] {
        for rest in [
            "",
            "/branches",
            "/branches/main",
            "/commits/main",
            "/raw/main/README.md",
            "/contents/README.md",
            "/issues",
            "/hooks",
        ] {
            let hidden = caller.get(&ada.repo("hidden", rest)).await;
            let missing = caller.get(&ada.repo("absent", rest)).await;
            assert_eq!((hidden.status, hidden.text()), (missing.status, missing.text()), "{rest}");
            let wanted = if caller.token.is_none() && rest == "/hooks" { 401 } else { 404 };
            hidden.refused(wanted);
        }
    }
    assert_eq!(
        cluster.admin().await.get(&ada.repo("hidden", "")).await.expect(200).json()["permissions"]["admin"],
        true
    );
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|repository| repository["name"].as_str().unwrap()).collect()
}

async fn lists_show_what_the_caller_may_see(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    for (name, private) in [("one", false), ("two", true), ("three", false)] {
        ada.new_repository(name, json!({"private": private})).await;
    }
    bob.new_repository("other", json!({})).await;
    let mine = ada.get("/user/repos").await.expect(200);
    assert_eq!(names(&mine.json()), ["three", "two", "one"]);
    assert_eq!(mine.header("link"), "");
    assert_eq!(ada.get(&format!("/users/{}/repos", ada.name)).await.expect(200).json(), mine.json());
    let seen = bob.get(&format!("/users/{}/repos", ada.name)).await.expect(200).json();
    assert_eq!(names(&seen), ["three", "one"]);
    assert_eq!(seen[0]["permissions"], json!({"admin": false, "push": false, "pull": true}));
    bob.get("/users/no-such-user/repos").await.refused(404);
    cluster.anonymous().get("/user/repos").await.refused(401);
    let seen = cluster.anonymous().get(&format!("/users/{}/repos", ada.name)).await.expect(200).json();
    assert_eq!(names(&seen), ["three", "one"]);
    assert_eq!(cluster.user("cy").await.get("/user/repos").await.expect(200).text(), "[]");
}

async fn search_is_literal_and_shows_what_the_caller_may_see(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let word = unique("needle");
    ada.new_repository(&format!("a-{word}"), json!({})).await;
    ada.new_repository(&format!("b-{word}"), json!({"private": true})).await;
    ada.new_repository("by-description", json!({"description": format!("100% {} _x", word.to_uppercase())})).await;
    let find = |caller: User, query: String| async move {
        let response = caller.get(&format!("/repos/search?{query}")).await.expect(200).json();
        assert_eq!(response["ok"], true);
        assert!(
            response["data"].as_array().unwrap().iter().all(|found| found["permissions"]["pull"] == true),
            "{response}"
        );
        names(&response["data"]).join(",")
    };
    assert_eq!(find(bob.clone(), format!("q={word}")).await, format!("a-{word},by-description"));
    assert_eq!(find(cluster.anonymous(), format!("q={word}")).await, format!("a-{word},by-description"));
    assert_eq!(find(ada.clone(), format!("q={word}")).await, format!("a-{word},b-{word},by-description"));
    assert_eq!(find(ada.clone(), format!("q=100%25%20{word}")).await, "by-description");
    assert_eq!(find(ada.clone(), format!("q={}_{word}", "a")).await, "");
    assert_eq!(
        find(ada.clone(), format!("q={}/{word}&uid={}", ada.name, ada.id)).await,
        format!("a-{word},b-{word},by-description")
    );
    assert_eq!(find(ada.clone(), format!("q={}/{word}", bob.name)).await, "");
    assert_eq!(find(ada.clone(), format!("q={word}&uid={}", bob.id)).await, "");
    assert_eq!(find(ada.clone(), format!("q={word}&uid=987654321")).await, "");
    assert_eq!(find(ada.clone(), format!("q={word}&limit=1&page=2")).await, format!("b-{word}"));
    assert_ne!(find(ada.clone(), "limit=50".to_owned()).await, "");
}

async fn searches_are_narrowed_by_role_star_and_visibility(cluster: &Cluster) {
    let (ada, bob, word) = (cluster.user("ada").await, cluster.user("bob").await, unique("narrow"));
    for (user, name, private) in [(&ada, "a", false), (&ada, "b", true), (&bob, "c", false), (&bob, "d", true)] {
        user.new_repository(&format!("{name}-{word}"), json!({"private": private})).await;
    }
    for name in ["c", "d"] {
        bob.share(&bob.repo(&format!("{name}-{word}"), ""), &ada, "write").await;
    }
    ada.put_nothing(&format!("/user/starred/{}/c-{word}", bob.name)).await.empty(204);
    let topics = json!({"topics": [word]});
    ada.put(&ada.repo(&format!("a-{word}"), "/topics"), &topics).await.empty(204);
    let find = async |caller: &User, query: &str| {
        let found = caller.get(&format!("/repos/search?q={word}&{query}")).await.expect(200).json();
        names(&found["data"]).iter().map(|name| &name[..1]).collect::<String>()
    };
    let (mine, theirs) = (ada.id, bob.id);
    for (query, expected) in [
        (String::new(), "abcd"),
        (format!("uid={mine}"), "abcd"),
        (format!("uid={mine}&exclusive=true"), "ab"),
        (format!("uid={mine}&mode=collaborative"), "cd"),
        (format!("uid={theirs}"), "cd"),
        ("is_private=true".to_owned(), "bd"),
        ("is_private=false&archived=false".to_owned(), "ac"),
        ("private=false".to_owned(), "ac"),
        ("mode=collaborative&private=true".to_owned(), "cd"),
        (format!("starredBy={mine}"), "c"),
        (format!("starredBy={theirs}"), ""),
        ("topic=true".to_owned(), "a"),
        ("sort=alpha&order=desc".to_owned(), "dcba"),
    ] {
        assert_eq!(find(&ada, &query).await, expected, "{query}");
    }
    assert_eq!(find(&cluster.anonymous(), "is_private=false").await, "ac");
    assert_eq!(find(&cluster.anonymous(), &format!("starredBy={mine}")).await, "c");
    ada.get("/repos/search?is_private=perhaps").await.refused_field("is_private");
}

async fn only_owners_delete(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("kept", json!({})).await;
    ada.new_repository("hidden", json!({"private": true})).await;
    outsider.delete(&ada.repo("kept", "")).await.refused(403);
    outsider.delete(&ada.repo("hidden", "")).await.refused(404);
    cluster.anonymous().delete(&ada.repo("kept", "")).await.refused(401);
    let gone = ada.delete(&ada.repo("kept", "")).await.expect(204);
    assert!(gone.body.is_empty() && gone.header("content-type").is_empty());
    ada.delete(&ada.repo("kept", "")).await.refused(404);
    cluster.admin().await.delete(&ada.repo("hidden", "")).await.expect(204);
}

async fn a_deleted_repository_is_gone_from_every_interface(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let first = ada.new_repository("gone", json!({"auto_init": true})).await;
    ada.post(&ada.repo("gone", "/issues"), &json!({"title": "one"})).await.expect(201);
    ada.delete(&ada.repo("gone", "")).await.expect(204);
    for rest in ["", "/branches", "/contents/README.md", "/raw/main/README.md", "/issues", "/issues/1", "/hooks"] {
        ada.get(&ada.repo("gone", rest)).await.refused(404);
    }
    let git = Git::new();
    git.fails("", &["clone", "-q", &ada.git_url(&ada.name, "gone"), "work"]).await;
    let second = ada.new_repository("gone", json!({})).await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(ada.get(&ada.repo("gone", "/branches")).await.expect(200).text(), "[]");
    assert_eq!(ada.get(&ada.repo("gone", "/issues")).await.expect(200).text(), "[]");
}
