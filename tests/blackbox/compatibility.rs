//! Behavior that existing clients rely on: tokens in the query, wildcard searches, pagination.

use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::{Cluster, Options, Response, Role};

on_profiles! {
    both {
        a_search_for_wildcards_alone_finds_everything
    }
    embedded {
        the_go_client_sends_null_and_zero_for_every_unset_field
    }
    production {
        a_token_in_the_query_is_ignored
        every_list_has_pages_and_ends
        links_keep_the_query_and_put_the_page_last
        put_without_a_body_or_content_type_is_accepted
    }
}

mod alone {
    use super::*;

    fn with_query_tokens() -> Options {
        let settings = vec![("FERRITE_GATEWAY_ALLOW_QUERY_TOKEN", "true")];
        Options { settings, ..Options::default() }
    }

    on_own_installations! {
        @profile embedded Embedded
        a_token_in_the_query_is_accepted_where_the_operator_allows_it(with_query_tokens())
    }
}

#[track_caller]
fn never_logged(cluster: &Cluster, secret: &str) {
    let lines = cluster.log().all();
    let line = lines.iter().find(|line| line.contains(secret));
    assert!(line.is_none(), "{line:?}");
}

async fn a_token_in_the_query_is_ignored(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("hidden", json!({"private": true})).await;
    ada.new_repository("open", json!({"auto_init": true})).await;
    let token = ada.token.clone().unwrap();
    let anonymous = cluster.anonymous();
    for name in ["token", "access_token", "%74oken"] {
        anonymous.get(&format!("/user?{name}={token}")).await.refused(401);
        anonymous.get(&ada.repo("open", &format!("/collaborators?{name}={token}"))).await.refused(401);
        anonymous.get(&ada.repo("hidden", &format!("?{name}={token}"))).await.refused(404);
        anonymous.post(&format!("/user/repos?{name}={token}"), &json!({"name": "x"})).await.refused(401);
        anonymous.get(&ada.repo("open", &format!("?{name}={token}"))).await.expect(200);
    }
    ada.get(&format!("/user?token={}", "0".repeat(40))).await.expect(200);
    let found = anonymous.get(&format!("/repos/search?limit=1&token={token}")).await.expect(200);
    assert!(!found.header("link").contains(&token), "{}", found.header("link"));
    never_logged(cluster, &token);
}

async fn a_token_in_the_query_is_accepted_where_the_operator_allows_it(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    for name in ["one", "two"] {
        ada.new_repository(name, json!({"private": true, "auto_init": true})).await;
    }
    let (token, his) = (ada.token.clone().unwrap(), bob.token.clone().unwrap());
    let (anonymous, zeros) = (cluster.anonymous(), "0".repeat(40));
    for name in ["token", "access_token", "%74oken"] {
        assert_eq!(anonymous.get(&format!("/user?{name}={token}")).await.expect(200).json()["login"], ada.name);
        anonymous.get(&ada.repo("one", &format!("/branches?limit=1&{name}={token}"))).await.expect(200);
        // The query takes precedence over the header.
        assert_eq!(bob.get(&format!("/user?{name}={token}")).await.expect(200).json()["login"], ada.name);
        ada.get(&format!("/user?{name}={zeros}")).await.refused(401);
        ada.get(&format!("/user?{name}=")).await.expect(200);
    }
    let query = format!("token={token}&access_token={his}");
    assert_eq!(anonymous.get(&format!("/user?{query}")).await.expect(200).json()["login"], ada.name);
    let body = json!({"title": "By the query"});
    anonymous.post(&ada.repo("one", &format!("/issues?token={token}")), &body).await.expect(201);
    let page = anonymous.get(&format!("/user/repos?limit=1&token={token}&x=1")).await.expect(200);
    let next = format!("<{}/api/v1/user/repos?limit=1&x=1&page=2>", cluster.url);
    assert_eq!(page.header("link"), format!("{next}; rel=\"next\",{next}; rel=\"last\""));
    // Routes for tokens accept only a password, and git sends its own credentials.
    let list = format!("/users/{}/tokens?token={token}", ada.name);
    anonymous.get(&list).await.refused(401);
    let by_password = anonymous.raw(Method::GET, &format!("/api/v1{list}"));
    Response::of(by_password.basic_auth(&ada.name, Some(&ada.password))).await.expect(200);
    let refs = format!("/{}/one.git/info/refs?service=git-upload-pack&token={token}", ada.name);
    Response::of(anonymous.raw(Method::GET, &refs)).await.expect(401);
    // The token appears in no response and in no log.
    let answered = anonymous.get(&format!("/nope?token={token}")).await;
    assert!(!answered.text().contains(&token) && !has(&answered.headers, &token), "{answered:?}");
    for role in Role::ALL {
        assert!(cluster.process_id(role).is_some());
    }
    never_logged(cluster, &token);
    never_logged(cluster, &his);
}

fn has(headers: &HeaderMap, secret: &str) -> bool {
    headers.values().any(|value| value.to_str().is_ok_and(|text| text.contains(secret)))
}

async fn a_search_for_wildcards_alone_finds_everything(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (plain, special) = (unique("plain"), unique("with_line"));
    ada.new_repository(&plain, json!({})).await;
    ada.new_repository(&special, json!({"description": "a hundred% sure"})).await;
    let id = ada.id;
    let found = async |query: &str| {
        let found = ada.get(&format!("/repos/search?uid={id}&q={query}")).await.expect(200).json();
        assert_eq!(found["ok"], true);
        let names = found["data"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    for query in ["h_l", "d%25%20s", "DRED%25"] {
        assert_eq!(found(query).await, [special.as_str()], "{query}");
    }
    for query in ["p_ain", "pl%25n", "*", "%22", "%27", "%5C", "%00"] {
        assert_eq!(found(query).await, Vec::<String>::new(), "{query}");
    }
    for query in ["", "_", "__", "%25", "%25_%25"] {
        assert_eq!(found(query).await.len(), 2, "{query}");
    }
}

async fn every_list_has_pages_and_ends(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "read").await;
    let repo = ada.new_tracker("listed", json!({"auto_init": true})).await;
    ada.new_issue(&repo, "One", json!({"assignee": ada.name})).await;
    ada.new_comment(&repo, 1, "Text").await;
    ada.new_label(&repo, "bug").await;
    ada.new_milestone(&repo, "One").await;
    ada.edit_issue(&repo, 1, json!({"title": "First"})).await;
    let lists = [
        "/user/repos".to_owned(),
        "/user/emails".to_owned(),
        "/user/followers".to_owned(),
        "/user/following".to_owned(),
        "/user/keys".to_owned(),
        "/user/orgs".to_owned(),
        format!("/users/{}/repos", ada.name),
        format!("/users/{}/keys", ada.name),
        format!("/users/{}/orgs", ada.name),
        format!("/users/{}/followers", ada.name),
        format!("/users/{}/following", ada.name),
        format!("/orgs/{name}/repos"),
        format!("/orgs/{name}/teams"),
        format!("/orgs/{name}/members"),
        format!("/orgs/{name}/public_members"),
        format!("{team}/members"),
        format!("{team}/repos"),
        format!("{repo}/branches"),
        format!("{repo}/collaborators"),
        format!("{repo}/keys"),
        format!("{repo}/hooks"),
        format!("{repo}/issues"),
        format!("{repo}/issues/comments"),
        format!("{repo}/issues/1/comments"),
        format!("{repo}/issues/1/timeline"),
        format!("{repo}/labels"),
        format!("{repo}/milestones"),
        "/user/issues".to_owned(),
        "/issues".to_owned(),
    ];
    for path in lists {
        let first = ada.get(&path).await.expect(200);
        assert!(first.json().is_array(), "{path}");
        let total: usize = first.header("x-total-count").parse().unwrap();
        assert_eq!(first.json().as_array().unwrap().len(), total, "{path}");
        for query in ["page=2", "page=99999999999999999999", "page=7&limit=3"] {
            let past = ada.get(&format!("{path}?{query}")).await.expect(200);
            assert_eq!(past.json(), Value::Array(Vec::new()), "{path}?{query}");
            assert_eq!(past.header("x-total-count"), total.to_string(), "{path}?{query}");
        }
        for query in ["page=0", "page=-1", "page=x", "limit=0", "limit=-5", "limit=x", "page=&limit="] {
            assert_eq!(ada.get(&format!("{path}?{query}")).await.expect(200).body, first.body, "{path}?{query}");
        }
    }
}

async fn links_keep_the_query_and_put_the_page_last(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for number in 0..3 {
        ada.new_repository(&format!("linked-{number}"), json!({})).await;
    }
    let query = format!("q=LINKED-&uid={}&limit=1", ada.id);
    let link = |number: u8, relation: &str| {
        format!("<{}/api/v1/repos/search?{query}&page={number}>; rel=\"{relation}\"", cluster.url)
    };
    let middle = ada.get(&format!("/repos/search?page=2&{query}")).await.expect(200);
    let expected = [link(3, "next"), link(3, "last"), link(1, "first"), link(1, "prev")];
    assert_eq!(middle.header("link"), expected.join(","));
    let next = expected[0].trim_start_matches('<').split('>').next().unwrap();
    let path = next.strip_prefix(&cluster.url).unwrap();
    let request = ada.raw(Method::GET, path).header(AUTHORIZATION, format!("token {}", ada.token.as_deref().unwrap()));
    let last = Response::of(request).await.expect(200);
    assert_eq!(last.json()["data"][0]["name"], "linked-2");
    assert_eq!(last.header("link"), format!("{},{}", link(1, "first"), link(2, "prev")));
    let past = ada.get(&format!("/repos/search?{query}&page=9")).await.expect(200);
    assert_eq!(past.json(), json!({"data": [], "ok": true}));
    assert_eq!(past.header("link"), format!("{},{}", link(1, "first"), link(3, "prev")));
}

async fn put_without_a_body_or_content_type_is_accepted(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "read").await;
    ada.new_repository("shared", json!({})).await;
    ada.new_repository_of(&name, "tools", false).await;
    for path in [
        ada.repo("shared", &format!("/collaborators/{}", bob.name)),
        format!("/user/following/{}", bob.name),
        format!("/orgs/{name}/memberships/{}", bob.name),
        format!("/orgs/{name}/public_members/{}", ada.name),
        format!("{team}/members/{}", bob.name),
        format!("{team}/repos/tools"),
    ] {
        ada.put_nothing(&path).await.empty(204);
        let typed = ada.request(Method::PUT, &path).header("content-type", "application/json");
        Response::of(typed).await.empty(204);
    }
}

async fn the_go_client_sends_null_and_zero_for_every_unset_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    // The client's options for creation hold plain values, those for edits hold pointers, and unset
    // lists become null.
    let made =
        ada.post(&format!("{repo}/labels"), &json!({"name": "bug", "color": "#e11d21"})).await.expect(201).json();
    let label = format!("{repo}/labels/{}", made["id"]);
    assert_eq!(ada.patch(&label, &json!({"name": null, "color": null})).await.expect(200).json(), made);
    let due = json!("2030-01-01T00:00:00Z");
    let body = json!({"title": "v1", "description": "", "due_on": due});
    let milestone = ada.post(&format!("{repo}/milestones"), &body).await.expect(201).json();
    let path = format!("{repo}/milestones/{}", milestone["id"]);
    let unset = json!({"title": "", "description": null, "state": null, "due_on": null});
    assert_eq!(ada.patch(&path, &unset).await.expect(200).json(), milestone);
    let body = json!({"title": "v2", "description": "", "due_on": null});
    assert_eq!(ada.post(&format!("{repo}/milestones"), &body).await.expect(201).json()["due_on"], Value::Null);
    let unset = json!({"title": "One", "body": "", "assignee": "", "milestone": 0, "labels": null, "closed": false});
    let issue = ada.post(&format!("{repo}/issues"), &unset).await.expect(201).json();
    assert_eq!((&issue["state"], &issue["labels"], &issue["milestone"]), (&json!("open"), &json!([]), &Value::Null));
    let path = format!("{repo}/issues/1");
    let set =
        json!({"title": "", "body": "Text", "assignee": ada.name, "milestone": milestone["id"], "state": "closed"});
    let set = ada.patch(&path, &set).await.expect(200).json();
    let unset = json!({"title": "", "body": null, "assignee": null, "milestone": null, "state": null});
    assert_eq!(ada.patch(&path, &unset).await.expect(200).json(), set);
    assert_eq!((&set["title"], &set["body"], &set["state"]), (&json!("One"), &json!("Text"), &json!("closed")));
    let labels = format!("{path}/labels");
    ada.post(&labels, &json!({"labels": [made["id"]]})).await.expect(200);
    assert_eq!(ada.post(&labels, &json!({"labels": null})).await.expect(200).json(), json!([made]));
    assert_eq!(ada.put(&labels, &json!({"labels": null})).await.expect(200).text(), "[]");
    ada.post(&format!("{path}/comments"), &json!({"body": "Text"})).await.expect(201);
}
