//! Webhooks: made and listed.

use serde_json::{Value, json};

use crate::harness::Cluster;

on_profiles! {
    production {
        a_hook_has_the_shape_of_the_contract_and_keeps_its_secret
        hooks_need_admin_level
        hooks_are_checked_field_by_field
    }
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
    ada.get(&format!("{path}/{}", hook["id"])).await.refused_any(&[404, 405]);
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
        crate::harness::Answer::of(broken.header("content-type", "application/json")).await.refused(status);
    }
    cluster.admin().await.post(&ada.repo("hidden", "/hooks"), &body).await.expect(201);
}

async fn hooks_are_checked_field_by_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("strict", json!({})).await;
    let path = ada.repo("strict", "/hooks");
    let good =
        json!({"type": "native", "config": {"url": "https://example.com", "content_type": "json"}, "events": ["push"]});
    let cases: [(&str, Value, &str); 13] = [
        ("/type", json!("GOGS"), "type"),
        ("/type", json!(""), "type"),
        ("/type", json!(3), "type"),
        ("/config", json!(null), "config"),
        ("/config", json!([]), "config"),
        ("/config", json!({}), "config.url"),
        ("/config/url", json!("nope"), "config.url"),
        ("/config/url", json!("file:///etc/passwd"), "config.url"),
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
