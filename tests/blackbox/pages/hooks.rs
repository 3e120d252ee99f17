//! Webhooks of repositories, organizations and the site, with a receiver.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::issues::{leads, send};
use super::{page, shows};
use crate::harness::receiver::{LOOPBACK, Received, Receiver, hmac};
use crate::harness::{Cluster, Options, Profile, Response, User, run};

const SECRET: &str = "of the pages";
const CREDENTIALS: &str = "hunter2";
const HOSTILE: &str = "<script>alert(1)</script>";
const ESCAPED: &str = "&#60;script&#62;alert(1)&#60;/script&#62;";

#[test]
fn webhooks_are_managed_on_pages() {
    let cluster = Cluster::start(Profile::Embedded, &Options { settings: LOOPBACK.to_vec(), ..Options::default() });
    run(&cluster, async {
        every_owner_makes_tests_changes_and_deletes_webhooks(&cluster).await;
        deliveries_are_listed_and_replayed(&cluster).await;
        a_form_with_a_mistake_keeps_what_is_no_secret(&cluster).await;
        webhooks_are_for_those_whom_the_api_lets_see_them(&cluster).await;
    });
}

/// Makes a webhook by a form, and returns its id.
async fn new_hook(user: &User, list: &str, kind: &str, fields: &[(&str, &str)]) -> String {
    let made = send(user, &format!("{list}/{kind}/new"), fields).await.expect(303).header("location");
    let id = made.strip_prefix(&format!("{list}/")).and_then(|rest| rest.strip_suffix("/deliveries"));
    id.unwrap_or_else(|| panic!("{made}")).to_owned()
}

/// The names of all events that a form offers.
fn events(html: &str) -> Vec<&str> {
    html.split("name=\"events\" value=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[track_caller]
fn has_no_secret(page: &Response) {
    let html = page.text();
    assert!(!html.contains(SECRET) && !html.contains(CREDENTIALS), "{html}");
}

async fn every_owner_makes_tests_changes_and_deletes_webhooks(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    let repo = ada.new_tracker("hooked", json!({"auto_init": true})).await;
    let acme = ada.new_organization("acme").await;
    for (user, list, api) in [
        (&ada, format!("/{}/hooked/settings/hooks", ada.name), format!("{repo}/hooks")),
        (&ada, format!("/org/{acme}/settings/hooks"), format!("/orgs/{acme}/hooks")),
        (&admin, "/-/admin/hooks".to_owned(), "/admin/hooks".to_owned()),
    ] {
        let receiver = Receiver::start().await;
        let url = receiver.url("/");
        shows(&page(user, &list).await.expect(200), &["There are no webhooks", &format!("{list}/discord/new")]);
        if list.starts_with("/org/") {
            shows(&page(user, &list).await.expect(200), &["aria-label=\"Organization\"", "class=\"avatar\""]);
        }
        let authorization = format!("Bearer {CREDENTIALS}");
        let fields = [
            ("url", url.as_str()),
            ("content_type", "json"),
            ("secret", SECRET),
            ("authorization_header", &authorization),
            ("events", "release"),
            ("events", "issue_label"),
            ("branch_filter", "main"),
            ("active", "1"),
        ];
        let id = new_hook(user, &list, "native", &fields).await;
        let hook = format!("{list}/{id}");
        let shown = page(user, &hook).await.expect(200);
        shows(
            &shown,
            &[&url, "value=\"Bearer ***\"", "value=\"main\"", "value=\"issue_label\" checked", "<details open>"],
        );
        has_no_secret(&shown);
        assert_eq!(shown.header("cache-control"), "no-store");

        let tested = send(user, &format!("{hook}/deliveries"), &[]).await.expect(303).header("location");
        let first = receiver.until(|all| all.len() == 1).await.remove(0);
        assert_eq!(tested, format!("{hook}/deliveries/{}", first.id()));
        let signature = |body: &[u8]| format!("sha256={}", hex::encode(hmac(SECRET.as_bytes(), &[body])));
        assert_eq!(first.header("x-hub-signature-256"), signature(&first.body));
        assert_eq!(first.header("authorization"), authorization);
        let log = format!("{api}/{id}/deliveries");
        user.eventually(&log, |list| list[0]["status"] == "succeeded").await;
        let delivery = page(user, &tested).await.expect(200);
        shows(&delivery, &["Delivered", "Attempt 1", &url, "content-type: application/json", "noted", "Send again"]);
        has_no_secret(&delivery);
        let listed = page(user, &list).await.expect(200);
        shows(&listed, &[&url, "Last delivery", "Delivered", "response 200", &tested]);
        has_no_secret(&listed);

        leads(&send(user, &tested, &[]).await, &tested);
        receiver.until(|all| all.iter().filter(|one| one.id() == first.id()).count() == 2).await;
        user.eventually(&log, |list| list[0]["status"] == "succeeded").await;
        shows(&page(user, &format!("{hook}/deliveries?status=exhausted")).await.expect(200), &["No delivery matches"]);
        let found = format!("{hook}/deliveries?status=succeeded&event={}", first.event());
        shows(&page(user, &found).await.expect(200), &[first.id(), "2 attempts"]);

        let html = shown.text();
        let offered = events(&html);
        let mut fields = vec![("url", url.as_str()), ("content_type", "form"), ("authorization_header", "Bearer ***")];
        fields.extend(offered.iter().map(|name| ("events", *name)));
        leads(&send(user, &hook, &fields).await, &format!("{hook}/deliveries"));
        let changed = user.get(&format!("{api}/{id}")).await.expect(200).json();
        assert_eq!(changed["events"].as_array().map(Vec::len), Some(offered.len()), "{changed}");
        assert_eq!(
            (&changed["active"], &changed["branch_filter"], &changed["authorization_header"]),
            (&json!(false), &json!("*"), &json!("Bearer ***"))
        );
        send(user, &format!("{hook}/deliveries"), &[]).await.expect(303);
        let last = receiver.until(|all| all.len() == 3).await.remove(2);
        assert_eq!(last.header("x-hub-signature-256"), signature(&last.body), "the secret stays");
        assert!(last.body.starts_with(b"payload="));

        shows(&page(user, &format!("{hook}/delete")).await.expect(200), &["Delete the webhook?", &url]);
        leads(&send(user, &format!("{hook}/delete"), &[]).await, &list);
        for gone in [hook.clone(), format!("{hook}/deliveries"), format!("{hook}/delete"), tested] {
            page(user, &gone).await.expect(404);
        }
    }
}

async fn deliveries_are_listed_and_replayed(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("replayed", json!({})).await;
    let respond = |one: &Received| match one.path.as_str() {
        "/bad" => (500, Duration::ZERO),
        _ => (200, Duration::ZERO),
    };
    let receiver = Receiver::answering(respond).await;
    let list = format!("/{}/replayed/settings/hooks", ada.name);
    let url = receiver.url("/good");
    let fields = [("url", url.as_str()), ("content_type", "json"), ("events", "issues"), ("active", "1")];
    let id = new_hook(&ada, &list, "gogs", &fields).await;
    shows(&page(&ada, &format!("{list}/{id}/deliveries")).await.expect(200), &["There are no deliveries"]);
    ada.new_issue(&repo, HOSTILE, json!({})).await;
    let log = ada.eventually(&format!("{repo}/hooks/{id}/deliveries"), |list| list[0]["status"] == "succeeded").await;
    let delivery = format!("{list}/{id}/deliveries/{}", log[0]["id"].as_str().unwrap());
    shows(&page(&ada, &delivery).await.expect(200), &[r"\u003cscript\u003ealert(1)", "x-gogs-event: issues"]);

    let replay = format!("{list}/{id}/replay");
    shows(&page(&ada, &replay).await.expect(200), &["datetime-local"]);
    let wrong = send(&ada, &replay, &[("from", "2026-01-02T00:00"), ("to", "2026-01-01T00:00")]).await.expect(422);
    shows(&wrong, &["flash bad", "value=\"2026-01-02T00:00\""]);
    let sent = send(&ada, &replay, &[("from", "2020-01-01T00:00"), ("to", "2100-01-01T00:00")]).await;
    leads(&sent, &format!("{list}/{id}/deliveries?replayed=1"));
    shows(&page(&ada, &sent.header("location")).await.expect(200), &["1 delivery will be sent again"]);
    receiver.until(|all| all.iter().filter(|one| one.event() == "issues").count() == 2).await;

    let url = receiver.url("/bad");
    let fields = [("url", url.as_str()), ("content_type", "json"), ("events", "push"), ("channel", "#a")];
    let id = new_hook(&ada, &list, "slack", &fields).await;
    let failed = send(&ada, &format!("{list}/{id}/deliveries"), &[]).await.expect(303).header("location");
    ada.eventually(&format!("{repo}/hooks/{id}/deliveries"), |list| list[0]["response_status"] == 500).await;
    shows(&page(&ada, &format!("{failed}?attempt=1")).await.expect(200), &["Attempt 1 <span class=\"badge\">500"]);
    shows(&page(&ada, &list).await.expect(200), &["Slack", "Inactive", "response 500"]);
    page(&ada, &format!("{list}/{id}/deliveries/none")).await.expect(404);
}

async fn a_form_with_a_mistake_keeps_what_is_no_secret(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let repo = ada.new_tracker("strict", json!({})).await;
    let list = format!("/{}/strict/settings/hooks", ada.name);
    let authorization = format!("Bearer {CREDENTIALS}");
    let fields = [
        ("url", "ftp://example.com"),
        ("content_type", "json"),
        ("channel", HOSTILE),
        ("secret", SECRET),
        ("authorization_header", &authorization),
        ("events", "release"),
        ("events", HOSTILE),
    ];
    let refused = send(&ada, &format!("{list}/slack/new"), &fields).await.expect(422);
    shows(&refused, &["flash bad", "config.url", "value=\"ftp://example.com\"", ESCAPED, "value=\"release\" checked"]);
    has_no_secret(&refused);
    let none = [("url", "https://example.com/"), ("content_type", "json")];
    shows(&send(&ada, &format!("{list}/gitea/new"), &none).await.expect(422), &["select at least one"]);
    assert_eq!(ada.get(&format!("{repo}/hooks")).await.expect(200).json(), json!([]));
    for path in ["none/new", "native", "0", "x/deliveries"] {
        page(&ada, &format!("{list}/{path}")).await.expect(404);
    }
}

async fn webhooks_are_for_those_whom_the_api_lets_see_them(cluster: &Cluster) {
    let (ada, eve) = (cluster.user("ada").await, cluster.outsider().await);
    let open = ada.new_tracker("open", json!({})).await;
    ada.new_tracker("hidden", json!({"private": true})).await;
    let acme = ada.new_organization("acme").await;
    let hook = json!({"type": "native", "config": {"url": "https://example.com/x", "content_type": "json"}});
    let id = ada.post(&format!("{open}/hooks"), &hook).await.expect(201).json()["id"].clone();
    for (list, id, status) in [
        (format!("/{}/open/settings/hooks", ada.name), &id, 403),
        (format!("/{}/hidden/settings/hooks", ada.name), &json!(1), 404),
        (format!("/org/{acme}/settings/hooks"), &json!(1), 403),
        ("/-/admin/hooks".to_owned(), &json!(1), 404),
    ] {
        for rest in [String::new(), "/native/new".to_owned(), format!("/{id}"), format!("/{id}/deliveries")] {
            let refused = page(&eve, &format!("{list}{rest}")).await.expect(status);
            assert!(!refused.text().contains("example.com/x"), "{rest}");
            let anonymous = page(&cluster.anonymous(), &format!("{list}{rest}")).await.expect(303);
            assert!(anonymous.header("location").contains("/user/login?redirect_to="), "{rest}");
        }
    }
    // A form of another page has a valid token.
    let html = page(&eve, "/repo/create").await.expect(200).text();
    let (_, rest) = html.split_once("name=\"form_token\" value=\"").expect("a form");
    let token = rest.split('"').next().unwrap();
    let post = eve.raw(Method::POST, &format!("/{}/open/settings/hooks/{id}/delete", ada.name));
    let post = post.header("cookie", format!("ferrite_session={}", eve.token.as_deref().unwrap()));
    let post = post.header("content-type", "application/x-www-form-urlencoded");
    Response::of(post.body(format!("form_token={token}"))).await.expect(403);
    let kept: Value = ada.get(&format!("{open}/hooks/{id}")).await.expect(200).json();
    assert_eq!(kept["id"], id);
}
