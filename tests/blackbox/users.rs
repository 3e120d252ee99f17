//! Users, and lists of repositories as seen by different callers.

use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::{Cluster, User};

on_profiles! {
    both {
        get_users_search_finds_parts_of_names_and_full_names
        get_users_search_takes_wildcards_literally_unless_there_is_nothing_else
        get_repos_search_finds_what_the_caller_may_see
    }
    production {
        get_users_search_shows_addresses_to_those_who_signed_in
        get_users_search_has_pages_of_at_most_fifty
        get_users_search_of_nothing_finds_nothing
        get_users_search_finds_one_user_by_id
        get_user_returns_the_caller
        get_users_name_needs_no_credential_and_finds_organizations
        get_user_repos_lists_own_and_reachable_ones_with_real_permissions
        get_users_repos_lists_what_the_caller_may_see
    }
}

async fn search(caller: &User, query: &str) -> Vec<Value> {
    let found = caller.get(&format!("/users/search?{query}")).await.expect(200).json();
    assert_eq!(found["ok"], true);
    found["data"].as_array().unwrap().clone()
}

fn names(found: &[Value]) -> Vec<&str> {
    found.iter().map(|user| user["username"].as_str().unwrap()).collect()
}

async fn get_users_search_finds_parts_of_names_and_full_names(cluster: &Cluster) {
    let ada = cluster.user("needle-in").await;
    let organization = ada.new_organization("needle-org").await;
    for part in [&ada.name[1..], &ada.name.to_uppercase(), &ada.name] {
        assert!(names(&search(&ada, &format!("q={part}&limit=50")).await).contains(&ada.name.as_str()), "{part}");
    }
    let full = search(&ada, "q=HE%20needle-i&limit=50").await;
    assert!(names(&full).contains(&ada.name.as_str()), "{full:?}");
    assert!(search(&ada, &format!("q={organization}")).await.is_empty(), "organizations are not found");
    let found = search(&ada, &format!("q={}", ada.name)).await;
    assert_eq!((&found[0]["login"], &found[0]["id"]), (&json!(ada.name), &json!(ada.id)));
}

async fn get_users_search_shows_addresses_to_those_who_signed_in(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("addressee").await, cluster.user("bob").await);
    let query = format!("q={}", ada.name);
    assert_eq!(search(&bob, &query).await[0]["email"], ada.email);
    assert_eq!(search(&cluster.anonymous(), &query).await[0]["email"], ada.no_reply_address());
    bob.with_token(Some(&"0".repeat(40))).get(&format!("/users/search?{query}")).await.refused(401);
}

async fn get_users_search_takes_wildcards_literally_unless_there_is_nothing_else(cluster: &Cluster) {
    let ada = cluster.user("under_score").await;
    let found = search(&ada, "q=r_s&limit=50").await;
    assert!(names(&found).contains(&ada.name.as_str()), "{found:?}");
    let has = |user: &Value, field: &str| user[field].as_str().unwrap().contains("r_s");
    assert!(found.iter().all(|user| has(user, "username") || has(user, "full_name")), "{found:?}");
    for query in ["q=under%25score", "q=n_er_score", "q=%25score", "q=%00", "q=%22", "q=%27%20OR%201", "q=*"] {
        assert!(search(&ada, query).await.is_empty(), "{query}");
    }
    // Existing importers list all users with these queries.
    for query in ["q=_", "q=%25", "q=__"] {
        let everybody = search(&ada, query).await;
        assert_eq!((everybody.len(), &everybody[0]["id"]), (10, &json!(1)), "{query}");
    }
}

async fn get_users_search_has_pages_of_at_most_fifty(cluster: &Cluster) {
    let (admin, outsider) = (cluster.admin().await, cluster.outsider().await);
    let stem = unique("paged");
    for number in 0..11 {
        let name = format!("{stem}-{number}");
        let body = json!({"username": name, "email": format!("{name}@example.com"), "password": "long enough"});
        admin.post("/admin/users", &body).await.expect(201);
    }
    let path = format!("/users/search?q={stem}-");
    let first = outsider.get(&path).await.expect(200);
    assert_eq!(first.json()["data"].as_array().unwrap().len(), 10);
    let link = format!("<{}/api/v1{path}&page=2>; rel=\"next\",<{0}/api/v1{path}&page=2>; rel=\"last\"", cluster.url);
    assert_eq!(first.header("link"), link);
    let second = outsider.get(&format!("{path}&page=2")).await.expect(200).json();
    assert_eq!(second["data"][0]["username"], format!("{stem}-10"), "by id");
    assert_eq!(outsider.get(&format!("{path}&page=3")).await.expect(200).json(), json!({"data": [], "ok": true}));
    assert_eq!(search(&outsider, &format!("q={stem}-&limit=50")).await.len(), 11);
    assert!(search(&outsider, "q=e&limit=1000").await.len() <= 50);
    for (limit, count) in [("0", 11), ("-1", 10), ("x", 10)] {
        assert_eq!(search(&outsider, &format!("q={stem}-&limit={limit}")).await.len(), count, "{limit}");
    }
}

async fn get_users_search_of_nothing_finds_nothing(cluster: &Cluster) {
    let anonymous = cluster.anonymous();
    for query in ["", "q=", "limit=5", "q=no-such-user-anywhere"] {
        assert!(search(&anonymous, query).await.is_empty(), "{query}");
    }
}

async fn get_users_search_finds_one_user_by_id(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = format!("/users/search?uid={}", ada.id);
    let found = cluster.anonymous().get(&path).await.expect(200);
    assert_eq!(
        (found.json()["data"][0]["username"].clone(), found.header("x-total-count").as_str()),
        (json!(ada.name), "1")
    );
    let details = |user: &Value| (user["active"].clone(), user["is_admin"].clone());
    let seen = cluster.admin().await.get(&path).await.expect(200).json();
    assert_eq!(details(&seen["data"][0]), (json!(true), json!(false)));
    assert_eq!(details(&search(&ada, &format!("uid={}", ada.id)).await[0]), (Value::Null, Value::Null));
    assert_eq!(names(&search(&ada, &format!("uid=0&q={}", ada.name)).await), [ada.name.as_str()]);
    let organization = ada.new_organization("acme").await;
    let id = ada.get(&format!("/orgs/{organization}")).await.expect(200).json()["id"].clone();
    for absent in [format!("uid={id}"), "uid=999999999".to_owned(), format!("uid={}&page=2", ada.id)] {
        assert!(search(&ada, &absent).await.is_empty(), "{absent}");
    }
    ada.get("/users/search?uid=x").await.refused_field("uid");
}

async fn get_user_returns_the_caller(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let me = ada.get("/user").await.expect(200).json();
    assert_eq!((&me["id"], &me["email"], &me["is_admin"]), (&json!(ada.id), &json!(ada.email), &json!(false)));
    assert_eq!(cluster.admin().await.get("/user").await.expect(200).json()["is_admin"], true);
    cluster.anonymous().get("/user").await.refused(401);
}

async fn get_users_name_needs_no_credential_and_finds_organizations(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let organization = ada.new_organization("shown").await;
    let anonymous = cluster.anonymous();
    let seen = anonymous.get(&format!("/users/{}", ada.name)).await.expect(200).json();
    assert_eq!(seen["email"], ada.no_reply_address());
    let shown = anonymous.get(&format!("/users/{organization}")).await.expect(200).json();
    assert_eq!((&shown["login"], &shown["email"]), (&json!(organization), &json!("")));
    for wrong in ["no-such-user", "a%2Fb", "%00"] {
        anonymous.get(&format!("/users/{wrong}")).await.refused(404);
    }
}

async fn get_user_repos_lists_own_and_reachable_ones_with_real_permissions(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let organization = bob.new_organization("lists").await;
    ada.new_repository("own", json!({"private": true, "auto_init": true})).await;
    bob.new_repository("shared", json!({"private": true})).await;
    bob.new_repository("others", json!({})).await;
    bob.new_repository_of(&organization, "team", true).await;
    bob.new_repository_of(&organization, "closed", false).await;
    let collaborator = bob.repo("shared", &format!("/collaborators/{}", ada.name));
    bob.put(&collaborator, &json!({"permission": "write"})).await.expect(204);
    let team = bob.new_team(&organization, "readers", "read").await;
    bob.put_nothing(&format!("{team}/members/{}", ada.name)).await.expect(204);
    bob.put_nothing(&format!("{team}/repos/team")).await.expect(204);
    let listed = ada.get("/user/repos").await.expect(200);
    let permissions: Vec<_> = listed.json().as_array().unwrap().iter().map(|one| one["permissions"].clone()).collect();
    let mut pairs: Vec<_> = listed.each("name").into_iter().zip(permissions).collect();
    pairs.sort_by(|one, other| one.0.cmp(&other.0));
    let may = |admin: bool, push: bool| json!({"admin": admin, "push": push, "pull": true});
    let expected = [("own", may(true, true)), ("shared", may(false, true)), ("team", may(false, false))];
    assert_eq!(pairs, expected.map(|(name, may)| (name.to_owned(), may)));
    // The most recently updated repository comes first.
    ada.put(&ada.repo("own", "/contents/x"), &json!({"message": "x", "content": ""})).await.expect(201);
    ada.eventually("/user/repos", |list| list[0]["name"] == "own").await;
    let pages = [("?limit=2", 2), ("?limit=2&page=2", 1), ("?limit=2&page=3", 0), ("?page=9223372036854775808", 0)];
    for (query, count) in pages {
        let page = ada.get(&format!("/user/repos{query}")).await.expect(200);
        assert_eq!(page.json().as_array().unwrap().len(), count, "{query}");
    }
    let owners = bob.get("/user/repos").await.expect(200).each("name");
    assert_eq!(owners.len(), 4, "owners can access everything in their organization: {owners:?}");
}

async fn get_users_repos_lists_what_the_caller_may_see(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    ada.new_repository("open", json!({})).await;
    ada.new_repository("shared", json!({"private": true})).await;
    ada.new_repository("hidden", json!({"private": true})).await;
    let collaborator = ada.repo("shared", &format!("/collaborators/{}", bob.name));
    ada.put(&collaborator, &json!({"permission": "admin"})).await.expect(204);
    let path = format!("/users/{}/repos", ada.name);
    let (admin, anonymous) = (cluster.admin().await, cluster.anonymous());
    let all = vec!["hidden", "shared", "open"];
    for (caller, expected) in [
        (&ada, all.clone()),
        (&bob, vec!["shared", "open"]),
        (&outsider, vec!["open"]),
        (&anonymous, vec!["open"]),
        (&admin, all),
    ] {
        assert_eq!(caller.get(&path).await.expect(200).each("name"), expected, "{}", caller.name);
    }
    let seen = bob.get(&path).await.expect(200).json();
    assert_eq!(seen[0]["permissions"], json!({"admin": true, "push": true, "pull": true}));
    assert_eq!(seen[1]["permissions"], json!({"admin": false, "push": false, "pull": true}));
    assert_eq!(anonymous.get(&path).await.json()[0]["owner"]["email"], ada.no_reply_address());
    outsider.get("/users/no-such-user/repos").await.refused(404);
    let organization = ada.new_organization("listed").await;
    ada.new_repository_of(&organization, "tools", false).await;
    assert_eq!(outsider.get(&format!("/users/{organization}/repos")).await.expect(200).each("name"), ["tools"]);
}

async fn get_repos_search_finds_what_the_caller_may_see(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let organization = ada.new_organization("searched").await;
    let name = unique("sought");
    ada.new_repository_of(&organization, &name, true).await;
    let team = ada.new_team(&organization, "readers", "read").await;
    ada.put_nothing(&format!("{team}/repos/{name}")).await.expect(204);
    let path = format!("/repos/search?q={}", name.to_uppercase());
    let found = async |user: &User| user.get(&path).await.expect(200).json()["data"].as_array().unwrap().len();
    assert_eq!((found(&ada).await, found(&bob).await, found(&cluster.anonymous()).await), (1, 0, 0));
    assert_eq!(found(&cluster.admin().await).await, 1);
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.expect(204);
    assert_eq!(found(&bob).await, 1);
    ada.delete(&format!("{team}/members/{}", bob.name)).await.expect(204);
    assert_eq!(found(&bob).await, 0);
}
