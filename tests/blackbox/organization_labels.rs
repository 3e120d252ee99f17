//! Labels of organizations: for the issues of their repositories, and for no others.

use reqwest::Method;
use reqwest::header::IF_MATCH;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        labels_of_an_organization_are_made_read_changed_and_deleted
        issues_of_its_repositories_can_have_labels_of_an_organization
        a_repository_that_leaves_an_organization_loses_its_labels
    }
    embedded {
        labels_of_an_organization_name_the_field_that_is_wrong
        owners_change_the_labels_of_an_organization_and_all_users_see_them
        labels_of_an_organization_have_tags_and_repeats_are_recognized
    }
}

/// An organization with a repository, and the paths of its labels and of the repository.
async fn organization(owner: &User) -> (String, String, String) {
    let name = owner.new_organization("acme").await;
    owner.new_repository_of(&name, "tools", false).await;
    (format!("/orgs/{name}/labels"), format!("/repos/{name}/tools"), name)
}

async fn new_label(owner: &User, labels: &str, name: &str) -> i64 {
    let made = owner.post(labels, &json!({"name": name, "color": "#00aabb"})).await.expect(201).json();
    made["id"].as_i64().unwrap()
}

async fn labels_of_an_organization_are_made_read_changed_and_deleted(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (labels, repo, organization) = organization(&ada).await;
    assert_eq!(ada.get(&labels).await.expect(200).text(), "[]");
    let response = ada.post(&labels, &json!({"name": "Help wanted", "color": "#e11d21"})).await.expect(201);
    let made = response.json();
    let path = format!("{labels}/{}", made["id"]);
    let url = format!("{}/api/v1/orgs/{organization}/labels/{}", cluster.url, made["id"]);
    assert_eq!(
        made,
        json!({"id": made["id"], "name": "Help wanted", "color": "e11d21", "description": "", "url": url})
    );
    assert_eq!(response.header("location"), url);
    for one in [&path, &format!("{labels}/help%20WANTED")] {
        assert_eq!(ada.get(one).await.expect(200).json(), made, "{one}");
    }
    let bug = new_label(&ada, &labels, "bug").await;
    let listed = ada.get(&labels).await.expect(200);
    assert_eq!(
        (listed.each("name"), listed.header("x-total-count").as_str()),
        (["bug", "Help wanted"].map(str::to_owned).into(), "2")
    );
    assert_eq!(ada.get(&format!("{labels}?limit=1&page=2")).await.expect(200).json(), json!([made]));
    assert_eq!(ada.get(&format!("{repo}/labels")).await.expect(200).text(), "[]", "repositories list their own alone");
    for absent in [format!("{repo}/labels/{bug}"), format!("{repo}/labels/bug")] {
        ada.get(&absent).await.refused(404);
    }

    let changed = ada.patch(&path, &json!({"name": "wanted"})).await.expect(200).json();
    assert_eq!(changed, json!({"id": made["id"], "name": "wanted", "color": "e11d21", "description": "", "url": url}));
    let changed = ada.patch(&path, &json!({"color": "#000000", "name": ""})).await.expect(200).json();
    assert_eq!((&changed["name"], &changed["color"]), (&json!("wanted"), &json!("000000")));
    assert_eq!(ada.get(&path).await.expect(200).json(), changed);
    ada.delete(&path).await.empty(204);
    ada.get(&path).await.refused(404);
    ada.patch(&path, &json!({"name": "x"})).await.refused(404);
    ada.delete(&path).await.refused(404);
    assert_eq!(ada.get(&labels).await.expect(200).ids("id"), [bug]);
}

/// Fails unless issue 1 has these labels, wherever they show.
async fn has(user: &User, repo: &str, names: &[&str]) {
    assert_eq!(user.labels_of(repo, 1).await, names);
    let shown = user.get(&format!("{repo}/issues/1/labels")).await.expect(200).json();
    assert_eq!(user.issue(repo, 1).await["labels"], shown);
    assert_eq!(user.get(&format!("{repo}/issues")).await.expect(200).json()[0]["labels"], shown);
}

/// Fails unless a list of issues by a label has these, as many as it says.
async fn lists(user: &User, repo: &str, label: &str, numbers: &[i64]) {
    let listed = user.get(&format!("{repo}/issues?state=all&labels={label}")).await.expect(200);
    assert_eq!((listed.ids("number"), listed.header("x-total-count")), (numbers.to_vec(), numbers.len().to_string()));
}

async fn issues_of_its_repositories_can_have_labels_of_an_organization(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (labels, repo, organization) = organization(&ada).await;
    let (bug, slow) = (new_label(&ada, &labels, "bug").await, new_label(&ada, &labels, "slow").await);
    let own = ada.new_label(&repo, "own").await;
    let made = ada.new_issue(&repo, "One", json!({"labels": [bug, own]})).await;
    assert_eq!(made["labels"][0]["url"], format!("{}/api/v1/orgs/{organization}/labels/{bug}", cluster.url));
    ada.new_issue(&repo, "Two", json!({"labels": [bug], "closed": true})).await;
    has(&ada, &repo, &["bug", "own"]).await;
    let path = format!("{repo}/issues/1/labels");
    assert_eq!(ada.post(&path, &json!({"labels": ["SLOW"]})).await.expect(200).each("name"), ["bug", "own", "slow"]);
    assert_eq!(ada.put(&path, &json!({"labels": [slow, "bug"]})).await.expect(200).each("name"), ["bug", "slow"]);
    ada.delete(&format!("{path}/{slow}")).await.empty(204);
    has(&ada, &repo, &["bug"]).await;
    for (label, numbers) in
        [("bug", &[2, 1][..]), (&bug.to_string(), &[2, 1]), ("slow", &[]), ("own", &[]), ("none", &[])]
    {
        lists(&ada, &repo, label, numbers).await;
    }
    lists(&ada, &repo, "bug,slow", &[]).await;

    // A name is that of the label of the repository first.
    let same = ada.new_label(&repo, "Bug").await;
    assert_eq!(ada.put(&path, &json!({"labels": ["bug"]})).await.expect(200).ids("id"), [same]);
    assert_eq!(ada.post(&path, &json!({"labels": [bug]})).await.expect(200).ids("id").len(), 2);
    lists(&ada, &repo, "bug", &[1]).await;
    lists(&ada, &repo, &bug.to_string(), &[2, 1]).await;
    ada.put(&path, &json!({"labels": [bug]})).await.expect(200);

    ada.new_repository_of(&organization, "second", false).await;
    let second = format!("/repos/{organization}/second");
    ada.new_issue(&second, "One", json!({"labels": [bug]})).await;
    lists(&ada, &second, "bug", &[1]).await;
    // Neither users nor other organizations have the labels of this one.
    let (_, other, _) = self::organization(&ada).await;
    for stranger in [other, ada.new_tracker("mine", json!({})).await] {
        ada.new_issue(&stranger, "One", json!({})).await;
        for wrong in [json!([bug]), json!(["slow"])] {
            ada.post(&format!("{stranger}/issues/1/labels"), &json!({"labels": wrong})).await.refused_field("labels");
        }
        ada.post(&format!("{stranger}/issues"), &json!({"title": "x", "labels": [bug]})).await.refused_field("labels");
        ada.delete(&format!("{stranger}/issues/1/labels/{bug}")).await.refused(404);
    }

    ada.patch(&format!("{labels}/{bug}"), &json!({"name": "fault"})).await.expect(200);
    has(&ada, &repo, &["fault"]).await;
    lists(&ada, &second, "fault", &[1]).await;
    ada.delete(&format!("{labels}/{bug}")).await.empty(204);
    for repo in [&repo, &second] {
        has(&ada, repo, &[]).await;
        lists(&ada, repo, &bug.to_string(), &[]).await;
    }
    new_label(&ada, &labels, "fault").await;
    lists(&ada, &repo, "fault", &[]).await;
}

async fn a_repository_that_leaves_an_organization_loses_its_labels(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (labels, repo, organization) = organization(&ada).await;
    let bug = new_label(&ada, &labels, "bug").await;
    let own = ada.new_label(&repo, "own").await;
    ada.new_issue(&repo, "One", json!({"labels": [bug, own]})).await;
    let moved = ada.post(&format!("{repo}/transfer"), &json!({"new_owner": ada.name})).await.expect(202).json();
    assert_eq!(moved["owner"]["username"], ada.name.as_str());
    let mine = ada.repo("tools", "");
    let is_own = |labels: &Value| labels.as_array().is_some_and(|labels| labels.len() == 1);
    ada.eventually(&format!("{mine}/issues/1/labels"), is_own).await;
    has(&ada, &mine, &["own"]).await;
    lists(&ada, &mine, "bug", &[]).await;
    lists(&ada, &mine, "own", &[1]).await;
    for label in [json!(bug), json!("bug")] {
        ada.post(&format!("{mine}/issues/1/labels"), &json!({"labels": [label]})).await.refused_field("labels");
    }
    ada.get(&format!("{labels}/{bug}")).await.expect(200);

    // They do not come back with the repository.
    ada.post(&format!("{mine}/transfer"), &json!({"new_owner": organization})).await.expect(202);
    has(&ada, &repo, &["own"]).await;
    lists(&ada, &repo, "bug", &[]).await;
    ada.post(&format!("{repo}/issues/1/labels"), &json!({"labels": ["bug"]})).await.expect(200);
    has(&ada, &repo, &["bug", "own"]).await;
    lists(&ada, &repo, "bug", &[1]).await;
}

async fn labels_of_an_organization_name_the_field_that_is_wrong(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (labels, repo, _) = organization(&ada).await;
    let bug = new_label(&ada, &labels, "Bug").await;
    let path = format!("{labels}/{}", new_label(&ada, &labels, "slow").await);
    ada.post(&labels, &json!({})).await.refused_fields(&[("name", "required"), ("color", "required")]);
    for (body, field) in [
        (json!({"name": "x".repeat(51), "color": "#123456"}), "name"),
        (json!({"name": " ", "color": "#123456"}), "name"),
        (json!({"name": "x", "color": "123456"}), "color"),
        (json!({"name": 1, "color": "#123456"}), "name"),
    ] {
        ada.post(&labels, &body).await.refused_field(field);
        ada.patch(&path, &body).await.refused_field(field);
    }
    ada.post(&labels, &json!({"name": "bUG", "color": "#123456"})).await.refused(422);
    ada.patch(&path, &json!({"name": "bUG"})).await.refused(422);
    ada.patch(&format!("{labels}/{bug}"), &json!({"name": "bUG"})).await.expect(200);
    assert_eq!(ada.get(&labels).await.expect(200).each("name"), ["bUG", "slow"]);
    // A repository of the organization can have the same name.
    ada.new_label(&repo, "bug").await;
    for absent in ["999999999", "0", "none"] {
        let path = format!("{labels}/{absent}");
        ada.get(&path).await.refused(404);
        ada.patch(&path, &json!({"name": "x"})).await.refused(404);
        ada.delete(&path).await.refused(404);
    }
    for missing in ["no-such-organization", ada.name.as_str()] {
        ada.get(&format!("/orgs/{missing}/labels")).await.refused(404);
        ada.post(&format!("/orgs/{missing}/labels"), &json!({"name": "x", "color": "#000000"})).await.refused(404);
    }
}

async fn owners_change_the_labels_of_an_organization_and_all_users_see_them(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let (labels, _, organization) = organization(&ada).await;
    let team = ada.new_team(&organization, "crew", "admin").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    let one = format!("{labels}/{}", new_label(&ada, &labels, "bug").await);
    let new = json!({"name": "new", "color": "#000000"});
    for (caller, status) in [(&bob, 403), (&outsider, 403), (&cluster.anonymous(), 401)] {
        for (method, path, body) in [
            (Method::POST, &labels, &new),
            (Method::POST, &labels, &json!({"color": "nonsense"})),
            (Method::PATCH, &one, &new),
            (Method::DELETE, &one, &Value::Null),
        ] {
            Response::of(caller.request(method, path).json(body)).await.refused(status);
        }
        for path in [&labels, &one] {
            let read = if status == 401 { 401 } else { 200 };
            assert_eq!(caller.get(path).await.status, read, "{path}");
        }
    }
    let scoped = ada.with_scopes(&["issue", "repo:admin"]).await;
    scoped.post(&labels, &new).await.refused_with_message(403, "`org`");
    ada.put(&format!("/orgs/{organization}/memberships/{}", bob.name), &json!({"role": "admin"})).await.empty(204);
    let made = bob.post(&labels, &new).await.expect(201).json();
    cluster.admin().await.delete(&format!("{labels}/{}", made["id"])).await.empty(204);
    assert_eq!(ada.get(&labels).await.expect(200).each("name"), ["bug"]);
}

async fn labels_of_an_organization_have_tags_and_repeats_are_recognized(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (labels, _, _) = organization(&ada).await;
    let create = async || {
        let request = ada.request(Method::POST, &labels).header("idempotency-key", "once");
        Response::of(request.json(&json!({"name": "bug", "color": "#123456"}))).await.expect(201).json()
    };
    let made = create().await;
    assert_eq!(create().await, made);
    assert_eq!(ada.get(&labels).await.expect(200).ids("id").len(), 1);

    let path = format!("{labels}/{}", made["id"]);
    let send = async |method: Method, tag: &str| {
        let request = ada.request(method, &path).header(IF_MATCH, tag);
        Response::of(request.json(&json!({"name": "fault"}))).await
    };
    let before = ada.get(&path).await.expect(200).header("etag");
    for method in [Method::PATCH, Method::DELETE] {
        let refused = send(method, "\"0123456789abcdef\"").await.refused(412);
        assert_eq!(refused.header("etag"), before);
    }
    send(Method::PATCH, &before).await.expect(200);
    send(Method::DELETE, &before).await.refused(412);
    let today = ada.get(&path).await.expect(200).header("etag");
    send(Method::DELETE, &today).await.empty(204);
}
