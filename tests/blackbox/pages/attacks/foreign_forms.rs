//! Forms that no page of the visitor's session made (CSRF), sent to every route that takes one.

use std::cell::RefCell;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, ORIGIN};
use serde_json::{Value, json};

use super::{request, routes};
use crate::harness::concurrent::for_each;
use crate::harness::{Cluster, Response, User};
use crate::pages::accounts::{form_token, with_fields};
use crate::pages::page;

on_profiles! {
    embedded {
        a_form_of_elsewhere_changes_nothing
    }
}

const AT_ONCE: usize = 8;
/// What the refusal says; the second text is that of the sign-in.
const REFUSALS: [&str; 2] = ["The form was not sent from a page of your session", "The form was open for too long"];
/// A form takes one of these.
const MEDIA: [&str; 2] = ["application/x-www-form-urlencoded", "multipart/form-data; boundary=xyz"];
const ATTACKS: [Attack; 4] = [Attack::NoToken, Attack::OtherToken, Attack::OtherSite, Attack::CrossSite];

#[derive(Clone, Copy, Debug)]
enum Attack {
    NoToken,
    /// That of another session.
    OtherToken,
    /// With a token that is right, as are the following.
    OtherSite,
    CrossSite,
}

/// An administrator of the site, who may do everything.
struct Victim {
    ada: User,
    repo: String,
    organization: String,
    release: String,
    token: String,
    other_token: String,
}

impl Victim {
    async fn new(cluster: &Cluster) -> Self {
        let ada = cluster.user("ada").await;
        let path = format!("/admin/users/{}", ada.name);
        cluster.admin().await.patch(&path, &json!({"admin": true})).await.expect(200);
        let repo = ada.new_tracker("victim", json!({"auto_init": true})).await;
        let label = ada.new_label(&repo, "bug").await;
        ada.new_issue(&repo, "Title", json!({"labels": [label]})).await;
        let hook = json!({"type": "native", "config": {"url": "https://example.com/x", "content_type": "json"}});
        ada.post(&format!("{repo}/hooks"), &hook).await.expect(201);
        let organization = ada.new_organization("victims").await;
        let release = ada.post(&format!("{repo}/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
        let release = release["id"].to_string();
        let token = async |user: &User| form_token(&page(user, "/repo/create").await.expect(200).text());
        let (token, other_token) = (token(&ada).await, token(&cluster.outsider().await).await);
        Self { ada, repo, organization, release, token, other_token }
    }

    /// What forms could change.
    async fn state(&self) -> Vec<Value> {
        let mut state = Vec::new();
        for rest in ["/branches", "/collaborators", "/hooks", "/issues/1", "/issues/1/timeline", "/keys", "/labels"] {
            state.push(self.ada.get(&format!("{}{rest}", self.repo)).await.expect(200).json());
        }
        for rest in ["", "/teams", "/labels", "/members"] {
            state.push(self.ada.get(&format!("/orgs/{}{rest}", self.organization)).await.expect(200).json());
        }
        for path in ["/user/settings", "/user/orgs", "/user/emails", "/user/keys", "/user/sessions"] {
            state.push(self.ada.get(path).await.expect(200).json());
        }
        state
    }

    async fn send(&self, attack: Attack, path: &str, media: &str) -> Response {
        let token = match attack {
            Attack::NoToken => "",
            Attack::OtherToken => &self.other_token,
            Attack::OtherSite | Attack::CrossSite => &self.token,
        };
        let body = match media.starts_with("multipart") {
            true => {
                format!("--xyz\r\nContent-Disposition: form-data; name=\"form_token\"\r\n\r\n{token}\r\n--xyz--\r\n")
            }
            false => format!("form_token={token}"),
        };
        let request = request(&self.ada, Method::POST, path).header(CONTENT_TYPE, media).body(body);
        let request = match attack {
            Attack::NoToken | Attack::OtherToken => request,
            Attack::OtherSite => request.header(ORIGIN, "https://evil.example"),
            Attack::CrossSite => request.header("sec-fetch-site", "cross-site"),
        };
        Response::of(request).await
    }

    /// Returns other statuses than that of a refusal.
    async fn attack(&self, attack: Attack, path: &str) -> Result<(), Vec<u16>> {
        let mut statuses = Vec::new();
        for media in MEDIA {
            let response = self.send(attack, path, media).await;
            if is_refused(&response) {
                return Ok(());
            }
            statuses.push(response.status.as_u16());
            // Only for these the form may have another format.
            if !matches!(response.status.as_u16(), 400 | 415) {
                break;
            }
        }
        Err(statuses)
    }
}

fn is_refused(response: &Response) -> bool {
    let text = response.text();
    response.status == 403 && REFUSALS.iter().any(|refusal| text.contains(refusal))
}

async fn a_form_of_elsewhere_changes_nothing(cluster: &Cluster) {
    let victim = Victim::new(cluster).await;
    let before = victim.state().await;
    let (name, organization) = (victim.ada.name.as_str(), victim.organization.as_str());
    let names = [
        ("owner", name),
        ("repo", "victim"),
        ("org", organization),
        ("username", name),
        ("member", name),
        ("release", &victim.release),
    ];
    let forms = routes::all().into_iter().filter(|route| route.has_form);
    let paths: Vec<_> = forms.map(|route| routes::filled(&route.path, &names)).collect();
    let faults = RefCell::new(Vec::new());
    for_each(AT_ONCE, paths, async |path: String| {
        for attack in ATTACKS {
            if let Err(statuses) = victim.attack(attack, &path).await {
                faults.borrow_mut().push(format!("{attack:?} {path}: {statuses:?}"));
            }
        }
    })
    .await;
    let faults = faults.into_inner();
    assert!(faults.is_empty(), "{} forms are taken:\n{}", faults.len(), faults.join("\n"));
    assert_eq!(victim.state().await, before);

    // The token is right, and a browser says of its own site where a form is from.
    let labels = request(&victim.ada, Method::POST, &format!("/{name}/victim/labels"));
    let labels = labels.header(ORIGIN, &cluster.url).header("sec-fetch-site", "same-origin");
    let fields = [("form_token", victim.token.as_str()), ("name", "new"), ("color", "#ff8000")];
    Response::of(with_fields(labels, &fields)).await.expect(303);
}
