//! Stars, watches and topics.

use serde_json::json;

use crate::harness::Cluster;
use crate::harness::client::unique;

on_profiles! {
    both {
        stars_are_counted_while_accounts_and_repositories_come_and_go
        a_search_has_the_order_the_kind_and_the_topic_that_it_asks_for
    }
    embedded {
        stars_are_given_and_taken_and_lists_show_what_the_caller_may_see
        watches_have_the_shape_of_gitea_and_begin_with_the_repository
        stars_and_watches_take_the_scope_of_profiles
        topics_are_set_added_and_removed
        own_repositories_are_listed_alike_by_name
    }
}

async fn stars_are_given_and_taken_and_lists_show_what_the_caller_may_see(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("Open", json!({})).await;
    ada.new_repository("hidden", json!({"private": true})).await;
    let star = |name: &str| format!("/user/starred/{}/{name}", ada.name);
    ada.get(&star("open")).await.refused(404);
    for _ in 0..2 {
        ada.put_nothing(&star("open")).await.empty(204);
        ada.put_nothing(&star("HIDDEN")).await.empty(204);
        bob.put_nothing(&star("Open")).await.empty(204);
    }
    bob.get(&star("open")).await.empty(204);
    for path in [star("hidden"), star("no-such"), "/user/starred/no-such-user/x".to_owned()] {
        let missing = bob.put_nothing(&path).await.refused(404);
        assert!(missing.text().contains("repository does not exist"), "{}", missing.text());
        bob.get(&path).await.refused(404);
        bob.delete(&path).await.refused(404);
    }
    assert_eq!(ada.get(&ada.repo("open", "")).await.expect(200).json()["stars_count"], 2);
    let stargazers = bob.get(&ada.repo("open", "/stargazers")).await.expect(200);
    assert_eq!(stargazers.each("username"), [ada.name.clone(), bob.name.clone()]);
    let second = bob.get(&ada.repo("open", "/stargazers?limit=1&page=2")).await.expect(200);
    assert_eq!((second.each("username"), second.header("x-total-count")), (vec![bob.name.clone()], "2".to_owned()));
    bob.get(&ada.repo("hidden", "/stargazers")).await.refused(404);
    assert_eq!(ada.get("/user/starred").await.expect(200).each("name"), ["hidden", "Open"], "last starred first");
    let of_ada = format!("/users/{}/starred", ada.name);
    assert_eq!(ada.get(&of_ada).await.expect(200).each("name"), ["hidden", "Open"]);
    let seen = bob.get(&of_ada).await.expect(200);
    assert_eq!((seen.each("name"), seen.header("x-total-count")), (vec!["Open".to_owned()], "1".to_owned()));
    assert_eq!(seen.json()[0]["permissions"], json!({"admin": false, "push": false, "pull": true}));
    for unknown in ["/users/no-such-user/starred", "/users/no-such-user/subscriptions"] {
        bob.get(unknown).await.refused(404);
    }
    for _ in 0..2 {
        bob.delete(&star("open")).await.empty(204);
    }
    assert_eq!(bob.get("/user/starred").await.expect(200).text(), "[]");
    // A repository that becomes hidden leaves the lists of users who can no longer see it, and
    // returns with its star.
    bob.put_nothing(&star("open")).await.empty(204);
    ada.patch(&ada.repo("open", ""), &json!({"private": true})).await.expect(200);
    assert_eq!(bob.get("/user/starred").await.expect(200).text(), "[]");
    ada.share(&ada.repo("open", ""), &bob, "read").await;
    assert_eq!(bob.get("/user/starred").await.expect(200).each("name"), ["Open"]);
    cluster.anonymous().get("/user/starred").await.refused(401);
    cluster.anonymous().get(&ada.repo("open", "/stargazers")).await.refused(404);
}

async fn stars_are_counted_while_accounts_and_repositories_come_and_go(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    for name in ["one", "two"] {
        ada.new_repository(name, json!({})).await;
        for user in [&bob, &eve] {
            user.put_nothing(&format!("/user/starred/{}/{name}", ada.name)).await.empty(204);
            user.put_nothing(&ada.repo(name, "/subscription")).await.expect(200);
        }
    }
    let counts = async |name: &str| {
        let shown = ada.get(&ada.repo(name, "")).await.expect(200).json();
        (shown["stars_count"].as_i64().unwrap(), shown["watchers_count"].as_i64().unwrap())
    };
    assert_eq!((counts("one").await, counts("two").await), ((2, 3), (2, 3)));
    cluster.admin().await.delete(&format!("/admin/users/{}", eve.name)).await.expect(204);
    assert_eq!((counts("one").await, counts("two").await), ((1, 2), (1, 2)));
    ada.delete(&ada.repo("two", "")).await.expect(204);
    assert_eq!(bob.get("/user/starred").await.expect(200).each("name"), ["one"]);
    assert_eq!(bob.get("/user/subscriptions").await.expect(200).each("name"), ["one"]);
    assert_eq!(ada.get(&ada.repo("one", "/subscribers")).await.expect(200).each("login").len(), 2);
}

async fn watches_have_the_shape_of_gitea_and_begin_with_the_repository(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("Demo", json!({})).await;
    let path = ada.repo("demo", "/subscription");
    let mut watch = ada.get(&path).await.expect(200).json();
    let created_at = watch["created_at"].take();
    assert!(created_at.as_str().is_some_and(|time| time.len() == 20 && time.ends_with('Z')), "{created_at}");
    let repository_url = format!("{}/api/v1/repos/{}/Demo", cluster.url, ada.name);
    let expected = json!({
        "subscribed": true, "ignored": false, "reason": null, "created_at": null,
        "url": format!("{repository_url}/subscription"), "repository_url": repository_url,
    });
    assert_eq!(watch, expected);
    bob.get(&path).await.refused(404);
    let begun = bob.put_nothing(&path).await.expect(200).json();
    assert_eq!(bob.put(&path, &json!({})).await.expect(200).json(), begun, "once");
    assert_eq!(
        ada.get(&ada.repo("demo", "/subscribers")).await.expect(200).each("username"),
        [ada.name.clone(), bob.name.clone()]
    );
    let listed = ada.get(&format!("/users/{}/subscriptions", bob.name)).await.expect(200);
    assert_eq!(listed.each("full_name"), [format!("{}/Demo", ada.name)]);
    assert_eq!(ada.get("/user/subscriptions").await.expect(200).each("name"), ["Demo"]);
    for _ in 0..2 {
        bob.delete(&path).await.empty(204);
    }
    bob.get(&path).await.refused(404);
    // The creator of an organization's repository watches it.
    let organization = ada.new_organization("watched").await;
    ada.new_repository_of(&organization, "own", true).await;
    let watchers = ada.get(&format!("/repos/{organization}/own/subscribers")).await.expect(200);
    assert_eq!(watchers.each("username"), std::slice::from_ref(&ada.name));
    bob.get(&format!("/repos/{organization}/own/subscription")).await.refused(404);
    bob.put_nothing(&format!("/repos/{organization}/own/subscription")).await.refused(404);
}

async fn stars_and_watches_take_the_scope_of_profiles(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("open", json!({})).await;
    ada.new_repository("hidden", json!({"private": true})).await;
    let star = |name: &str| format!("/user/starred/{}/{name}", ada.name);
    let repo_only = ada.with_scopes(&["repo:admin", "issue", "hook"]).await;
    repo_only.put_nothing(&star("open")).await.refused_with_message(403, "`user`");
    repo_only.delete(&ada.repo("open", "/subscription")).await.refused_with_message(403, "`user`");
    repo_only.get(&ada.repo("hidden", "/subscription")).await.expect(200);
    let profile = ada.with_scopes(&["user"]).await;
    profile.put_nothing(&star("open")).await.empty(204);
    profile.put_nothing(&star("hidden")).await.refused(404);
    profile.get(&ada.repo("hidden", "/subscription")).await.refused(404);
    assert_eq!(profile.get("/user/subscriptions").await.expect(200).each("name"), ["open"]);
    let both = ada.with_scopes(&["user", "repo:read"]).await;
    both.put_nothing(&star("hidden")).await.empty(204);
}

async fn topics_are_set_added_and_removed(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let made = ada.new_repository("demo", json!({})).await;
    assert_eq!(made["topics"], json!([]));
    let path = ada.repo("demo", "/topics");
    let topics = async || bob.get(&path).await.expect(200).json();
    assert_eq!(topics().await, json!({"topics": []}));
    ada.put(&path, &json!({"topics": ["Web", "rust", "WEB"]})).await.empty(204);
    assert_eq!(topics().await, json!({"topics": ["web", "rust"]}));
    ada.put_nothing(&format!("{path}/API")).await.empty(204);
    ada.put_nothing(&format!("{path}/api")).await.empty(204);
    ada.delete(&format!("{path}/rust")).await.empty(204);
    ada.delete(&format!("{path}/rust")).await.refused(404);
    assert_eq!(bob.get(&ada.repo("demo", "")).await.expect(200).json()["topics"], json!(["web", "api"]));
    ada.put(&path, &json!({"topics": ["ok", "a b"]})).await.refused_field("topics[1]");
    ada.put(&path, &json!({"topics": [""]})).await.refused_field("topics[0]");
    ada.put(&path, &json!({"topics": ["x".repeat(36)]})).await.refused_field("topics[0]");
    let many: Vec<_> = (0..26).map(|number| format!("t{number}")).collect();
    ada.put(&path, &json!({"topics": many})).await.refused_field("topics");
    for body in [json!({}), json!({"topics": null}), json!({"topics": "web"}), json!({"topics": [1]})] {
        ada.put(&path, &body).await.refused_field("topics");
    }
    for wrong in ["-a", "a%20b", &"x".repeat(36)] {
        ada.put_nothing(&format!("{path}/{wrong}")).await.refused_field("topic");
    }
    ada.put(&path, &json!({"topics": many[..25]})).await.empty(204);
    ada.put_nothing(&format!("{path}/one-more")).await.refused_field("topic");
    ada.put(&path, &json!({"topics": []})).await.empty(204);
    assert_eq!(topics().await, json!({"topics": []}));
    ada.share(&ada.repo("demo", ""), &bob, "write").await;
    bob.put(&path, &json!({"topics": ["x"]})).await.refused(403);
    bob.delete(&format!("{path}/x")).await.refused(403);
    assert_eq!(cluster.anonymous().get(&path).await.expect(200).json(), json!({"topics": []}));
}

async fn a_search_has_the_order_the_kind_and_the_topic_that_it_asks_for(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let word = unique("needle");
    for (name, more) in [("b", json!({"auto_init": true})), ("c", json!({})), ("a", json!({}))] {
        ada.new_repository(&format!("{name}-{word}"), more).await;
    }
    ada.new_repository(&format!("d-{word}"), json!({"private": true})).await;
    for user in [&ada, &bob] {
        user.put_nothing(&format!("/user/starred/{}/c-{word}", ada.name)).await.empty(204);
    }
    bob.put_nothing(&format!("/user/starred/{}/a-{word}", ada.name)).await.empty(204);
    for (name, topics) in [("a", json!(["rust", "web"])), ("b", json!(["rust"])), ("d", json!(["rust"]))] {
        let path = ada.repo(&format!("{name}-{word}"), "/topics");
        ada.put(&path, &json!({"topics": topics})).await.empty(204);
    }
    let find = async |query: &str| {
        let found = bob.get(&format!("/repos/search?q={word}&{query}")).await.expect(200).json();
        let names = found["data"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()[..1].to_owned());
        names.collect::<String>()
    };
    for (query, expected) in [
        ("", "bca"),
        ("sort=id&order=desc", "acb"),
        ("sort=created", "bca"),
        ("sort=alpha", "abc"),
        ("sort=alpha&order=desc", "cba"),
        ("sort=stars&order=desc", "cab"),
        ("sort=stars", "bac"),
        ("sort=size&order=desc&limit=1", "b"),
        ("sort=forks", "bca"),
        ("sort=updated&order=asc&limit=1", "c"),
        ("mode=source", "bca"),
        ("mode=fork", ""),
        ("mode=mirror", ""),
        ("topic=rust", "ba"),
        ("topic=RUST&sort=alpha", "ab"),
        ("topic=web", "a"),
        ("topic=other", ""),
        ("archived=false", "bca"),
        ("archived=true", ""),
        ("sort=&order=&mode=&topic=&archived=", "bca"),
    ] {
        assert_eq!(find(query).await, expected, "{query}");
    }
    for (query, field) in [
        ("sort=name", "sort"),
        ("order=down", "order"),
        ("mode=all", "mode"),
        ("archived=x", "archived"),
        ("topic=a%20b", "topic"),
    ] {
        bob.get(&format!("/repos/search?{query}")).await.refused_field(field);
    }
    bob.get("/repos/search?sort=x&order=y").await.refused_fields(&[("sort", "unknown"), ("order", "unknown")]);
    let unknown = bob.with_token(Some(&"0".repeat(40)));
    unknown.get("/repos/search?sort=x").await.refused(401);
    let first = bob.get(&format!("/repos/search?q={word}&sort=alpha&limit=1")).await.expect(200);
    assert!(first.header("link").contains(&format!("q={word}&sort=alpha&limit=1&page=2")), "{}", first.header("link"));
}

async fn own_repositories_are_listed_alike_by_name(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    bob.new_repository("own", json!({})).await;
    ada.new_repository("shared", json!({"private": true})).await;
    ada.share(&ada.repo("shared", ""), &bob, "read").await;
    let organization = bob.new_organization("teams").await;
    bob.new_repository_of(&organization, "of-team", true).await;
    let own = bob.get("/user/repos").await.expect(200);
    assert_eq!(own.each("name"), ["of-team", "shared", "own"]);
    for name in [bob.name.clone(), bob.name.to_uppercase()] {
        let by_name = bob.get(&format!("/users/{name}/repos")).await.expect(200);
        assert_eq!((by_name.json(), by_name.header("x-total-count")), (own.json(), "3".to_owned()));
    }
    assert_eq!(ada.get(&format!("/users/{}/repos", bob.name)).await.expect(200).each("name"), ["own"]);
}
