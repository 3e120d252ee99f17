//! Webhooks of repositories, organizations and the site: created, changed, listed and deleted.

use std::collections::BTreeSet;

use reqwest::Method;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, Role, User};

on_profiles! {
    both {
        hooks_are_sealed_in_the_database
    }
    production {
        a_hook_has_the_shape_of_the_contract_and_keeps_its_secret
        hooks_need_admin_level
        hooks_are_checked_field_by_field
        post_hooks_takes_every_type_and_event_by_every_name
        hooks_come_back_as_clients_of_gitea_sent_them
        post_hooks_with_a_key_makes_one_hook
        post_hooks_refuses_addresses_that_are_not_public
        get_hooks_by_id_is_conditional
        patch_hooks_changes_what_the_body_names
        patch_hooks_reads_bodies_without_config_or_content_type
        patch_and_delete_find_hooks_of_their_owner_alone
        hooks_of_organizations_are_for_their_owners
        hooks_of_the_site_are_for_administrators
        changes_of_hooks_are_in_the_audit_log
    }
}

async fn new_hooks(user: &User, name: &str) -> String {
    user.new_repository(name, json!({})).await;
    user.repo(name, "/hooks")
}

/// A hook that is valid for every kind of owner.
fn plain(url: &str) -> Value {
    json!({"type": "native", "config": {"url": url, "content_type": "json", "secret": "very secret"}, "active": true})
}

async fn make(user: &User, path: &str, body: &Value) -> (String, Value) {
    let hook = user.post(path, body).await.expect(201).json();
    (format!("{path}/{}", hook["id"]), hook)
}

async fn a_hook_has_the_shape_of_the_contract_and_keeps_its_secret(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("hooked", json!({})).await;
    let path = ada.repo("hooked", "/hooks");
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    let config = json!({"url": "https://example.com/x", "content_type": "json", "secret": "very secret"});
    let made = ada.post(&path, &json!({"type": "gogs", "config": config, "events": null})).await.expect(201);
    assert!(!made.text().contains("very secret"), "{}", made.text());
    let hook = made.json();
    assert_eq!(hook["config"], json!({"url": "https://example.com/x", "content_type": "json"}));
    assert_eq!((&hook["type"], &hook["events"], &hook["active"]), (&json!("gogs"), &json!(["push"]), &json!(false)));
    let slack = json!({"url": "http://example.com/s", "content_type": "form", "channel": "#general"});
    let body = json!({"type": "slack", "config": slack, "events": ["release", "push", "create"], "active": true});
    let slack = ada.post(&path, &body).await.expect(201).json();
    assert_eq!(slack["events"], json!(["create", "push", "release"]));
    assert_eq!((&slack["config"]["channel"], &slack["active"]), (&json!("#general"), &json!(true)));
    assert_eq!(ada.get(&path).await.expect(200).json(), json!([hook, slack]));
    assert_eq!(ada.get(&format!("{path}/{}", hook["id"])).await.expect(200).json(), hook);
}

async fn hooks_need_admin_level(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    ada.new_repository("open", json!({})).await;
    ada.new_repository("hidden", json!({"private": true})).await;
    let body = json!({"type": "gogs", "config": {"url": "https://example.com", "content_type": "json"}});
    for (caller, repository, status) in
        [(&outsider, "open", 403), (&outsider, "hidden", 404), (&cluster.anonymous(), "open", 401)]
    {
        caller.get(&ada.repo(repository, "/hooks")).await.refused(status);
        caller.post(&ada.repo(repository, "/hooks"), &body).await.refused(status);
        let broken = caller.request(reqwest::Method::POST, &ada.repo(repository, "/hooks")).body("{");
        crate::harness::Response::of(broken.header("content-type", "application/json")).await.refused(status);
    }
    cluster.admin().await.post(&ada.repo("hidden", "/hooks"), &body).await.expect(201);
}

async fn hooks_are_checked_field_by_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("strict", json!({})).await;
    let path = ada.repo("strict", "/hooks");
    let good = json!({"type": "native", "config": {"url": "https://example.com", "content_type": "json", "secret": ""}, "events": ["push"]});
    let cases: [(&str, Value, &str); 14] = [
        ("/type", json!("GOGS"), "type"),
        ("/type", json!(""), "type"),
        ("/type", json!(3), "type"),
        ("/config", json!(null), "config"),
        ("/config", json!([]), "config"),
        ("/config", json!({}), "config.url"),
        ("/config/url", json!("nope"), "config.url"),
        ("/config/url", json!("file:///etc/passwd"), "config.url"),
        ("/config/secret", json!("whsec_?"), "config.secret"),
        ("/config/url", json!(4), "config.url"),
        ("/config/content_type", json!("xml"), "config.content_type"),
        ("/events", json!(["push", "nonsense"]), "events"),
        ("/events", json!("push"), "events"),
        ("/type", json!("slack"), "config.channel"),
    ];
    for (place, value, field) in cases {
        let mut body = good.clone();
        *body.pointer_mut(place).unwrap() = value.clone();
        let refused = ada.post(&path, &body).await.refused(422).json();
        let found = refused["errors"].as_array().unwrap().iter().any(|error| error["field"] == field);
        assert!(found, "{place} = {value}: {refused}");
    }
    assert_eq!(ada.get(&path).await.expect(200).text(), "[]");
    ada.post(&path, &good).await.expect(201);
}

async fn post_hooks_takes_every_type_and_event_by_every_name(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "types").await;
    let all = ["create", "delete", "fork", "push", "issues", "pull_request", "issue_comment", "release", "repository"];
    for kind in ["native", "gogs", "gitea", "forgejo", "slack", "discord", "dingtalk", "chat_a", "chat_b", "chat_c"] {
        let config =
            json!({"url": "https://example.com/x", "content_type": "json", "channel": "#a", "username": "bot"});
        let body = json!({"type": kind, "config": config, "events": all});
        let (_, hook) = make(&ada, &path, &body).await;
        assert_eq!((&hook["type"], &hook["events"]), (&json!(kind), &json!(all)));
        let has = |option: &str| hook["config"].get(option).is_some();
        let expected = match kind {
            "slack" | "chat_a" => (true, true),
            "discord" | "chat_b" => (false, true),
            _ => (false, false),
        };
        assert_eq!((has("channel"), has("username")), expected, "{kind}");
        assert!(hook.get("paused").is_none(), "{hook}");
    }
    for kind in ["slack", "chat_a"] {
        let body = json!({"type": kind, "config": {"url": "https://example.com", "content_type": "json"}});
        let refused = ada.post(&path, &body).await.refused_fields(&[("config.channel", "required")]);
        assert!(refused.json()["message"].as_str().unwrap().starts_with("`config.channel`: "), "{}", refused.text());
    }
}

/// Jenkins makes its hook anew unless it reads what it sent.
async fn hooks_come_back_as_clients_of_gitea_sent_them(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "ci").await;
    let url = "https://ci.example.com/gitea-webhook/post";
    for (kind, events) in [
        ("gitea", &["create", "push", "pull_request", "repository", "delete", "release"][..]),
        ("gitea", &["push", "create", "pull_request", "release"]),
        ("forgejo", &["push", "wiki", "package", "pull_request_sync", "issue_label", "action_run_success"]),
        ("gitea", &["workflow_run", "workflow_job", "status", "pull_request_review_approved"]),
    ] {
        let config = json!({"url": url, "content_type": "json", "secret": "s1"});
        let body = json!({"type": kind, "config": config, "events": events, "active": true,
            "branch_filter": "", "authorization_header": ""});
        let (hook, _) = make(&ada, &path, &body).await;
        let read = ada.get(&hook).await.expect(200).json();
        let names: BTreeSet<_> = read["events"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!((&read["type"], names), (&json!(kind), events.iter().copied().collect()));
        assert_eq!((&read["config"], &read["active"]), (&json!({"url": url, "content_type": "json"}), &json!(true)));
    }
}

async fn post_hooks_with_a_key_makes_one_hook(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "keyed").await;
    let send = async |body: &Value| {
        Response::of(ada.request(Method::POST, &path).header("idempotency-key", "hook-1").json(body)).await
    };
    let body = plain("https://ada:hunter1@example.com/x");
    let first = send(&body).await.expect(201).json();
    assert_eq!(send(&body).await.expect(201).json(), first);
    send(&plain("https://ada:hunter2@example.com/x")).await.refused(422);
    assert_eq!(ada.get(&path).await.expect(200).json(), json!([first]));
}

async fn post_hooks_refuses_addresses_that_are_not_public(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "inside").await;
    let (hook, shown) = make(&ada, &path, &plain("https://example.com/")).await;
    for url in [
        "http://127.0.0.1/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/",
        "http://100.64.0.1/",
        "http://[::1]/",
        "http://[fe80::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://0177.0.0.1/",
        "http://2130706433/",
        "http://127.1/",
        "http://example.com\\@127.0.0.1/",
        "http://example.com/\r\nHost: x",
    ] {
        ada.post(&path, &plain(url)).await.refused_fields(&[("config.url", "invalid")]);
        ada.patch(&hook, &json!({"config": {"url": url}})).await.refused_fields(&[("config.url", "invalid")]);
    }
    assert_eq!(ada.get(&path).await.expect(200).json(), json!([shown]));
}

async fn get_hooks_by_id_is_conditional(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "tagged").await;
    let (hook, _) = make(&ada, &path, &plain("https://example.com/")).await;
    for path in [&hook, &path] {
        let tag = ada.get(path).await.expect(200).header(ETAG.as_str());
        ada.get_with(path, IF_NONE_MATCH, &tag).await.empty(304);
    }
    let tag = ada.get(&hook).await.expect(200).header(ETAG.as_str());
    ada.patch(&hook, &json!({"config": {}, "active": false})).await.expect(200);
    ada.get_with(&hook, IF_NONE_MATCH, &tag).await.expect(200);
}

async fn patch_hooks_changes_what_the_body_names(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "changing").await;
    let config = json!({
        "url": "https://ada:hunter1@example.com/x?y=z", "content_type": "json", "secret": "s1", "channel": "#a",
        "username": "bot", "icon_url": "https://example.com/i.png", "color": "red",
    });
    let body = json!({"type": "slack", "config": config, "events": ["create", "release"], "active": true});
    let (hook, made) = make(&ada, &path, &body).await;
    assert_eq!(made["config"]["url"], "https://ada:***@example.com/x?y=z");
    let unchanged = [
        json!({"config": {}}),
        json!({"config": {"url": null, "secret": null}, "events": null, "active": null}),
        json!({"config": {"url": "https://ada:***@example.com/x?y=z"}}),
        json!({"config": {"unknown": "x"}, "type": "gogs"}),
        // What clients in Go send for what their caller left out.
        json!({"config": null, "events": [], "active": null, "branch_filter": "", "authorization_header": ""}),
    ];
    for body in unchanged {
        assert_eq!(ada.patch(&hook, &body).await.expect(200).json(), made, "{body}");
    }
    let change = async |body: Value, place: &str, value: Value| {
        let before = ada.get(&hook).await.expect(200).json();
        let changed = ada.patch(&hook, &body).await.expect(200).json();
        let mut expected = before;
        *expected.pointer_mut(place).unwrap() = value;
        expected["updated_at"] = changed["updated_at"].clone();
        assert_eq!(changed, expected, "{body}");
        assert_eq!(ada.get(&hook).await.expect(200).json(), changed, "{body}");
    };
    // Each option separately, also without the channel.
    change(json!({"config": {"username": ""}}), "/config/username", json!("")).await;
    change(json!({"config": {"color": "blue"}}), "/config/color", json!("blue")).await;
    change(json!({"config": {"channel": "#b"}}), "/config/channel", json!("#b")).await;
    change(json!({"config": {"content_type": "form"}}), "/config/content_type", json!("form")).await;
    change(json!({"config": {}, "events": ["push"]}), "/events", json!(["push"])).await;
    change(json!({"config": {}, "events": ["fork", "create"]}), "/events", json!(["create", "fork"])).await;
    change(json!({"branch_filter": "release/*"}), "/branch_filter", json!("release/*")).await;
    change(json!({"authorization_header": "Bearer s3"}), "/authorization_header", json!("Bearer ***")).await;
    ada.patch(&hook, &json!({"authorization_header": "Bearer ***", "branch_filter": ""})).await.expect(200);
    change(json!({"drop_authorization_header": true}), "/authorization_header", json!("")).await;
    change(json!({"config": {}, "active": false}), "/active", json!(false)).await;
    change(json!({"config": {"url": "https://example.org/"}}), "/config/url", json!("https://example.org/")).await;
    for body in [json!({"config": {"secret": "s2"}}), json!({"config": {"secret": ""}, "drop_previous_secret": true})] {
        let response = ada.patch(&hook, &body).await.expect(200);
        assert!(
            !response.text().contains("s2") && response.json()["config"].get("secret").is_none(),
            "{}",
            response.text()
        );
    }
    let before = ada.get(&hook).await.expect(200).json();
    for (body, field) in [
        (json!({"config": {"url": ""}}), "config.url"),
        (json!({"config": {"url": 1}}), "config.url"),
        (json!({"config": {"content_type": "xml"}}), "config.content_type"),
        (json!({"config": {"channel": ""}}), "config.channel"),
        (json!({"config": {"secret": "x".repeat(256)}}), "config.secret"),
        (json!({"config": []}), "config"),
        (json!({"config": {}, "events": ["nonsense"]}), "events"),
        (json!({"config": {}, "events": "push"}), "events"),
        (json!({"config": {}, "active": "yes"}), "active"),
        (json!({"branch_filter": "[a"}), "branch_filter"),
        (json!({"authorization_header": "Bearer a\nHost: b"}), "authorization_header"),
    ] {
        ada.patch(&hook, &body).await.refused_field(field);
    }
    assert_eq!(ada.get(&hook).await.expect(200).json(), before);
}

async fn patch_hooks_reads_bodies_without_config_or_content_type(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "untyped").await;
    let (hook, _) = make(&ada, &path, &plain("https://example.com/")).await;
    for (body, is_active, events) in [
        (json!({}), true, json!(["push"])),
        (json!({"config": null, "active": false}), false, json!(["push"])),
        (json!({"events": ["issues"], "active": true}), true, json!(["issues"])),
    ] {
        let changed = ada.patch(&hook, &body).await.expect(200).json();
        assert_eq!((&changed["active"], &changed["events"]), (&json!(is_active), &events), "{body}");
        assert_eq!(changed["config"]["url"], "https://example.com/");
    }
    let untyped = ada.request(Method::PATCH, &hook).body(r#"{"config":{},"active":false}"#);
    assert_eq!(Response::of(untyped).await.expect(200).json()["active"], json!(false));
    Response::of(ada.request(Method::PATCH, &hook).body("{")).await.refused(400);
}

async fn patch_and_delete_find_hooks_of_their_owner_alone(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (one, two) = (new_hooks(&ada, "one").await, new_hooks(&ada, "two").await);
    let organization = ada.new_organization("acme").await;
    let of_organization = format!("/orgs/{organization}/hooks");
    let (hook, made) = make(&ada, &one, &plain("https://example.com/")).await;
    let unknown = [format!("{two}/{}", made["id"]), format!("{of_organization}/{}", made["id"]), format!("{one}/x")];
    for path in &unknown {
        ada.get(path).await.refused(404);
        ada.patch(path, &json!({"config": {}})).await.refused(404);
        ada.delete(path).await.refused(404);
    }
    cluster.admin().await.get(&format!("/admin/hooks/{}", made["id"])).await.refused(404);
    assert_eq!(ada.get(&hook).await.expect(200).json(), made);
    ada.delete(&hook).await.empty(204);
    ada.delete(&hook).await.refused(404);
    ada.get(&hook).await.refused(404);
    ada.patch(&hook, &json!({"config": {}})).await.refused(404);
    assert_eq!(ada.get(&one).await.expect(200).text(), "[]");
}

/// Checks that `owner` can create, change and delete hooks at `path`, and that `others` get these
/// statuses.
async fn check_owner(owner: &User, path: &str, others: &[(&User, u16)]) {
    let (hook, made) = make(owner, path, &plain("https://ada:hunter1@example.com/")).await;
    assert_eq!(made["config"]["url"], "https://ada:***@example.com/");
    for (other, status) in others {
        for path in [path, &hook] {
            other.get(path).await.refused(*status);
        }
        other.post(path, &plain("https://example.com/")).await.refused(*status);
        other.patch(&hook, &json!({"config": {}})).await.refused(*status);
        other.patch(&hook, &json!({})).await.refused(*status);
        other.delete(&hook).await.refused(*status);
    }
    assert!(owner.get(path).await.expect(200).json().as_array().unwrap().contains(&made));
    let changed = owner.patch(&hook, &json!({"config": {}, "events": ["repository"]})).await.expect(200).json();
    assert_eq!(changed["events"], json!(["repository"]));
    assert_eq!(owner.get(&hook).await.expect(200).json(), changed);
    owner.post(path, &json!({"type": "native"})).await.refused_fields(&[("config", "required")]);
    owner.delete(&hook).await.empty(204);
    owner.get(&hook).await.refused(404);
}

async fn hooks_of_organizations_are_for_their_owners(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let organization = ada.new_organization("acme").await;
    ada.put(&format!("/orgs/{organization}/memberships/{}", bob.name), &json!({"role": "member"})).await.empty(204);
    let path = format!("/orgs/{organization}/hooks");
    let (outsider, anonymous) = (cluster.outsider().await, cluster.anonymous());
    let narrow = ada.with_scopes(&["hook", "repo:admin"]).await;
    let others = [(&bob, 403), (&outsider, 403), (&anonymous, 401), (&narrow, 403)];
    check_owner(&ada, &path, &others).await;
    check_owner(&cluster.admin().await, &path, &[]).await;
    check_owner(&ada.with_scopes(&["org"]).await, &path, &[]).await;
    ada.get("/orgs/never-was/hooks").await.refused(404);
    ada.get(&format!("/orgs/{}/hooks", ada.name)).await.refused(404);
}

async fn hooks_of_the_site_are_for_administrators(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let narrow = admin.with_scopes(&["hook", "org", "repo:admin"]).await;
    let anonymous = cluster.anonymous();
    check_owner(&admin, "/admin/hooks", &[(&ada, 403), (&narrow, 403), (&anonymous, 401)]).await;
}

async fn changes_of_hooks_are_in_the_audit_log(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let organization = ada.new_organization("acme").await;
    let of_repository = new_hooks(&ada, "audited").await;
    for path in [&of_repository, &format!("/orgs/{organization}/hooks")] {
        let (hook, _) = make(&ada, path, &plain("https://ada:hunter1@example.com/x?token=hunter2")).await;
        ada.patch(&hook, &json!({"config": {"secret": "hunter3"}})).await.expect(200);
        // Changes nothing, and is not recorded.
        ada.patch(&hook, &json!({"config": {}})).await.expect(200);
        ada.delete(&hook).await.empty(204);
    }
    let query = format!("/admin/audit?action=hook&actor={}", ada.name);
    let log = admin.eventually(&query, |log| log.as_array().is_some_and(|log| log.len() >= 6)).await;
    let events: Vec<_> = log.as_array().unwrap().iter().rev().collect();
    let actions: Vec<_> = events.iter().map(|event| event["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["hook.create", "hook.update", "hook.delete", "hook.create", "hook.update", "hook.delete"]);
    assert_eq!(events[0]["target"]["name"], format!("{}/audited", ada.name));
    assert_eq!(events[3]["target"]["name"], organization);
    let text = log.to_string();
    assert!(text.contains("example.com/x") && !text.contains("hunter"), "{text}");
}

async fn hooks_are_sealed_in_the_database(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let path = new_hooks(&ada, "sealed").await;
    let mut body = plain("https://ada:hunter1@example.com/x");
    body["config"]["secret"] = json!("hunter2");
    body["authorization_header"] = json!("Bearer hunter4");
    let request = ada.request(Method::POST, &path).header("idempotency-key", "sealed-1").json(&body);
    let hook = Response::of(request).await.expect(201).json();
    let hook = format!("{path}/{}", hook["id"]);
    ada.patch(&hook, &json!({"config": {"secret": "hunter3"}})).await.expect(200);
    let contains = |bytes: &[u8]| bytes.windows(6).any(|part| part == b"hunter");
    for query in [
        "SELECT url FROM hooks",
        "SELECT secret FROM hooks WHERE secret IS NOT NULL",
        "SELECT previous_secret FROM hooks WHERE previous_secret IS NOT NULL",
        "SELECT authorization_header FROM hooks WHERE authorization_header IS NOT NULL",
        "SELECT answer FROM idempotency",
        "SELECT payload FROM outbox",
    ] {
        let rows = cluster.bytes(Role::Hook, query.to_owned()).await;
        assert!(!rows.is_empty() && !rows.iter().any(|row| contains(row)), "{query}");
    }
    // The file also contains replaced rows.
    if let Some(file) = cluster.database(Role::Hook).strip_prefix("sqlite://") {
        for suffix in ["", "-wal"] {
            let bytes = std::fs::read(format!("{file}{suffix}")).unwrap_or_default();
            assert!(!contains(&bytes), "hook.db{suffix}");
        }
    }
}
