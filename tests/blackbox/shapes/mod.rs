//! The exact shape of every resource: each documented field with its type, and no others.

mod git;

use serde_json::{Value, json};

use crate::harness::Cluster;

on_profiles! {
    both {
        repositories_have_every_field_wherever_they_appear
    }
    embedded {
        users_have_every_field_wherever_they_appear
        hooks_have_every_field
        issues_have_every_field
        comments_labels_milestones_and_timelines_have_every_field
    }
}

const USER: &[(&str, &str)] = &[
    ("id", "int"),
    ("username", "str"),
    ("login", "str"),
    ("full_name", "str"),
    ("email", "str"),
    ("avatar_url", "url"),
    ("visibility", "str"),
];

const REPOSITORY: &[(&str, &str)] = &[
    ("id", "int"),
    ("owner", "map"),
    ("name", "str"),
    ("full_name", "str"),
    ("description", "str"),
    ("private", "bool"),
    ("internal", "bool"),
    ("fork", "bool"),
    ("empty", "bool"),
    ("mirror", "bool"),
    ("size", "int"),
    ("url", "url"),
    ("language", "str"),
    ("html_url", "url"),
    ("ssh_url", "str"),
    ("clone_url", "url"),
    ("languages_url", "url"),
    ("website", "str"),
    ("stars_count", "int"),
    ("forks_count", "int"),
    ("watchers_count", "int"),
    ("open_issues_count", "int"),
    ("open_pr_counter", "int"),
    ("release_counter", "int"),
    ("default_branch", "str"),
    ("object_format_name", "str"),
    ("archived", "bool"),
    ("has_issues", "bool"),
    ("has_wiki", "bool"),
    ("has_pull_requests", "bool"),
    ("allow_merge_commits", "bool"),
    ("allow_rebase", "bool"),
    ("allow_rebase_explicit", "bool"),
    ("allow_squash_merge", "bool"),
    ("allow_fast_forward_only_merge", "bool"),
    ("allow_rebase_update", "bool"),
    ("default_delete_branch_after_merge", "bool"),
    ("default_merge_style", "str"),
    ("autodetect_manual_merge", "bool"),
    ("allow_manual_merge", "bool"),
    ("has_releases", "bool"),
    ("topics", "list"),
    ("created_at", "time"),
    ("updated_at", "time"),
    ("permissions", "map"),
];

/// Fails unless an object has exactly these fields, of these types.
#[track_caller]
fn shaped(value: &Value, fields: &[(&str, &str)]) {
    let mut found: Vec<_> = value.as_object().unwrap().keys().map(String::as_str).collect();
    let mut wanted: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{value}");
    for (name, kind) in fields {
        assert!(is_a(&value[name], kind), "{name} is not a {kind}: {value}");
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "int" => value.is_i64(),
        "str" => value.is_string(),
        "bool" => value.is_boolean(),
        "map" => value.is_object(),
        "list" => value.is_array(),
        "null" => value.is_null(),
        "sha" => {
            value.as_str().is_some_and(|text| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
        }
        "url" => value.as_str().is_some_and(|text| text.starts_with("http://127.")),
        "time" => value.as_str().is_some_and(is_time),
        _ => panic!("{kind}"),
    }
}

/// Whether the text has the form `YYYY-MM-DDTHH:MM:SSZ`.
fn is_time(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:ddZ";
    text.len() == form.len()
        && form
            .chars()
            .zip(text.chars())
            .all(|(form, char)| if form == 'd' { char.is_ascii_digit() } else { form == char })
}

async fn repositories_have_every_field_wherever_they_appear(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let made = ada.new_repository("shape", json!({"auto_init": true})).await;
    shaped(&made, REPOSITORY);
    shaped(&made["owner"], USER);
    shaped(&made["permissions"], &[("admin", "bool"), ("push", "bool"), ("pull", "bool")]);
    for caller in [&ada, &outsider, &cluster.anonymous(), &cluster.admin().await] {
        let shown = caller.get(&ada.repo("shape", "")).await.expect(200).json();
        shaped(&shown, REPOSITORY);
        let email = if caller.token.is_some() { ada.email.clone() } else { ada.no_reply_address() };
        assert_eq!(shown["owner"]["email"], email.as_str());
        let query = format!("/repos/search?q={}/shape", ada.name);
        let found = caller.get(&query).await.expect(200).json();
        shaped(&found, &[("data", "list"), ("ok", "bool")]);
        shaped(&found["data"][0], REPOSITORY);
        assert_eq!(found["data"][0]["owner"]["email"], email.as_str());
    }
    for path in ["/user/repos".to_owned(), format!("/users/{}/repos", ada.name.to_uppercase())] {
        let list = ada.get(&path).await.expect(200).json();
        shaped(&list[0], REPOSITORY);
        assert_eq!(list[0]["permissions"], json!({"admin": true, "push": true, "pull": true}));
    }
}

async fn users_have_every_field_wherever_they_appear(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let url = format!("{}/avatars/{}", cluster.url, ada.id);
    let expected = |email: &str| {
        json!({
            "id": ada.id, "username": ada.name, "login": ada.name, "full_name": "The ada", "email": email, "avatar_url": url,
            "visibility": "public",
        })
    };
    let profile = format!("/users/{}", ada.name.to_uppercase());
    let mut own = expected(&ada.email);
    own["is_admin"] = json!(false);
    assert_eq!(ada.get("/user").await.expect(200).json(), own);
    let seen = cluster.admin().await.get(&profile).await.expect(200).json();
    let rights = [("is_admin", "bool"), ("active", "bool"), ("prohibit_login", "bool")];
    let about = [("website", "str"), ("location", "str"), ("description", "str")];
    let details = [("login_name", "str"), ("created", "time")];
    shaped(&seen, &[USER, &rights, &about, &details].concat());
    let seen = |email: &str| {
        let mut expected = expected(email);
        about.iter().for_each(|(name, _)| expected[*name] = json!(""));
        expected
    };
    assert_eq!(cluster.user("bob").await.get(&profile).await.expect(200).json(), seen(&ada.email));
    assert_eq!(cluster.anonymous().get(&profile).await.expect(200).json(), seen(&ada.no_reply_address()));
}

async fn hooks_have_every_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("hooked", json!({})).await;
    let path = ada.repo("hooked", "/hooks");
    let url = "https://example.com/x";
    let slack = json!({
        "url": url, "content_type": "json", "channel": "#dev", "username": "bot", "icon_url": "https://example.com/i.png",
        "color": "#36a64f",
    });
    let mut discord = slack.clone();
    discord.as_object_mut().unwrap().remove("channel");
    let plain = json!({"url": url, "content_type": "form"});
    let all = ["create", "delete", "fork", "push", "issues", "pull_request", "issue_comment", "release", "repository"];
    let backwards: Vec<_> = all.iter().rev().collect();
    for (kind, config, events, expected) in [
        ("slack", &slack, json!([]), json!(["push"])),
        ("discord", &discord, Value::Null, json!(["push"])),
        ("dingtalk", &plain, json!(["issues", "create", "issues"]), json!(["create", "issues"])),
        ("native", &plain, json!(backwards), json!(all)),
        ("gogs", &plain, json!(["release"]), json!(["release"])),
    ] {
        let made = ada.post(&path, &json!({"type": kind, "config": config, "events": events})).await.expect(201).json();
        shaped(
            &made,
            &[
                ("id", "int"),
                ("type", "str"),
                ("config", "map"),
                ("events", "list"),
                ("branch_filter", "str"),
                ("authorization_header", "str"),
                ("active", "bool"),
                ("created_at", "time"),
                ("updated_at", "time"),
            ],
        );
        assert_eq!((&made["type"], &made["config"], &made["events"]), (&json!(kind), config, &expected));
    }
    let list = ada.get(&path).await.expect(200).json();
    let ids: Vec<_> = list.as_array().unwrap().iter().map(|hook| hook["id"].as_i64().unwrap()).collect();
    assert!(ids.len() == 5 && ids.is_sorted(), "{ids:?}");
}

async fn issues_have_every_field(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("tracker", json!({})).await;
    let path = ada.repo("tracker", "/issues");
    // Bodies with every field, empty and null.
    let zeros = json!({"title": "First", "body": "", "assignee": "", "milestone": 0, "labels": [], "closed": false});
    let nulls =
        json!({"title": "First", "body": null, "assignee": null, "milestone": null, "labels": null, "closed": null});
    for body in [zeros, nulls] {
        let made = ada.post(&path, &body).await.expect(201).json();
        shaped(
            &made,
            &[
                ("id", "int"),
                ("number", "int"),
                ("user", "map"),
                ("title", "str"),
                ("body", "str"),
                ("labels", "list"),
                ("milestone", "null"),
                ("assignee", "null"),
                ("assignees", "list"),
                ("repository", "map"),
                ("state", "str"),
                ("comments", "int"),
                ("created_at", "time"),
                ("updated_at", "time"),
                ("closed_at", "null"),
                ("due_date", "null"),
                ("html_url", "url"),
            ],
        );
        shaped(&made["user"], USER);
        assert_eq!(bob.get(&format!("{path}/{}", made["number"])).await.expect(200).json(), made);
    }
    for (field, wrong) in [
        ("labels", json!(["bug"])),
        ("labels", json!(1)),
        ("milestone", json!("1")),
        ("assignee", json!(1)),
        ("closed", json!("no")),
    ] {
        let mut body = json!({"title": "x"});
        body[field] = wrong;
        ada.post(&path, &body).await.refused_fields(&[(field, "type")]);
        bob.post(&path, &body).await.refused_fields(&[(field, "type")]);
    }
    for (field, unknown) in [("labels", json!([9])), ("milestone", json!(9))] {
        let mut body = json!({"title": "x"});
        body[field] = unknown;
        ada.post(&path, &body).await.refused_fields(&[(field, "unknown")]);
        bob.post(&path, &body).await.expect(201);
    }
    for wrong in ["0", "-1", "abc", "1.5", "99", "99999999999999999999"] {
        ada.get(&format!("{path}/{wrong}")).await.refused(404);
    }
}

async fn comments_labels_milestones_and_timelines_have_every_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("tracker", json!({})).await;
    let body = json!({"title": "One", "due_on": "2030-01-01T00:00:00Z"});
    let milestone = ada.post(&format!("{repo}/milestones"), &body).await.expect(201).json();
    let label = ada.new_label(&repo, "bug").await;
    let more = json!({"assignee": ada.name, "milestone": milestone["id"], "closed": true});
    ada.new_issue(&repo, "Full", more).await;
    ada.put(&format!("{repo}/issues/1/labels"), &json!({"labels": [label]})).await.expect(200);
    ada.new_comment(&repo, 1, "Text").await;
    let issue = ada.issue(&repo, 1).await;
    assert!(is_a(&issue["closed_at"], "time"), "{issue}");
    shaped(&issue["assignee"], USER);
    shaped(
        &issue["labels"][0],
        &[("id", "int"), ("name", "str"), ("color", "str"), ("description", "str"), ("url", "url")],
    );
    let closed = ada.patch(&format!("{repo}/milestones/{}", milestone["id"]), &json!({"state": "closed"})).await;
    for (shown, closed_at) in
        [(&issue["milestone"], "null"), (&milestone, "null"), (&closed.expect(200).json(), "time")]
    {
        let fields = [
            ("id", "int"),
            ("title", "str"),
            ("description", "str"),
            ("state", "str"),
            ("open_issues", "int"),
            ("closed_issues", "int"),
            ("closed_at", closed_at),
            ("due_on", "time"),
        ];
        shaped(shown, &fields);
    }
    let comments = ada.get(&format!("{repo}/issues/1/comments")).await.expect(200).json();
    let fields = [
        ("id", "int"),
        ("html_url", "url"),
        ("user", "map"),
        ("body", "str"),
        ("created_at", "time"),
        ("updated_at", "time"),
    ];
    shaped(&comments[0], &fields);
    shaped(&comments[0]["user"], USER);
    let timeline = ada.timeline(&repo, 1).await;
    let fields = [
        ("id", "int"),
        ("action", "str"),
        ("type", "str"),
        ("user", "map"),
        ("created_at", "time"),
        ("updated_at", "time"),
        ("issue_url", "url"),
        ("body", "str"),
        ("label", "map"),
    ];
    shaped(timeline.last().unwrap(), &fields);
}
