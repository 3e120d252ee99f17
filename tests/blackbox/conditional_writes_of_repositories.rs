//! Writes with `If-Match` to repositories and their parts, organizations and accounts.

use base64::Engine as _;
use reqwest::Method;
use reqwest::header::IF_MATCH;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::concurrent::join_all;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        each_is_changed_only_with_its_tag_of_today
        each_is_deleted_only_with_its_tag_of_today
        of_writers_with_one_tag_at_once_one_succeeds
        of_changes_of_the_default_branch_with_one_tag_one_is_made
        of_publications_with_one_tag_one_makes_a_tag_of_git
    }
    embedded {
        refusals_for_other_reasons_come_before_the_tag
        what_has_no_body_has_no_tag_that_matches
    }
}

const WRITERS: usize = 8;
const STALE: &str = "\"0123456789abcdef\"";

/// A write to the resource that a GET of the same path returns.
struct Write {
    user: User,
    method: Method,
    path: String,
    /// Null if there is no body.
    body: Value,
}

impl Write {
    fn new(user: &User, method: Method, path: &str, body: Value) -> Self {
        Self { user: user.clone(), method, path: path.to_owned(), body }
    }

    fn delete(user: &User, path: &str) -> Self {
        Self::new(user, Method::DELETE, path, Value::Null)
    }

    async fn send(&self, if_match: &str) -> Response {
        let request = self.user.reconnected().request(self.method.clone(), &self.path).header(IF_MATCH, if_match);
        Response::of(if self.body.is_null() { request } else { request.json(&self.body) }).await
    }

    /// The current ETag, once pending events have arrived.
    async fn tag(&self) -> String {
        let mut tag = String::new();
        for _ in 0..50 {
            let shown = self.user.get(&self.path).await.expect(200).header("etag");
            assert!(shown.starts_with('"') && shown.len() > 2, "{}: {shown}", self.path);
            if shown == tag {
                return tag;
            }
            tag = shown;
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        panic!("{} does not settle", self.path);
    }
}

/// A user with one resource of each kind, and resources of others.
struct World {
    ada: User,
    bob: User,
    admin: User,
    organization: String,
    team: String,
    release: String,
    asset: String,
}

impl World {
    async fn of(cluster: &Cluster) -> Self {
        let (ada, bob, admin) = (cluster.user("ada").await, cluster.user("bob").await, cluster.admin().await);
        ada.new_repository("plain", json!({})).await;
        ada.new_repository("demo", json!({"auto_init": true})).await;
        let organization = ada.new_organization("acme").await;
        ada.put(&format!("/orgs/{organization}/memberships/{}", bob.name), &json!({})).await.empty(204);
        let team = ada.new_team(&organization, "crew", "read").await;
        let made = ada.post(&ada.repo("demo", "/releases"), &json!({"tag_name": "v1"})).await.expect(201).json();
        let release = ada.repo("demo", &format!("/releases/{}", made["id"]));
        let upload = ada.request(Method::POST, &format!("{release}/assets?name=a.txt"));
        let upload = upload.header("content-type", "application/octet-stream").body("content");
        let made = Response::of(upload).await.expect(201).json();
        let asset = format!("{release}/assets/{}", made["id"]);
        Self { ada, bob, admin, organization, team, release, asset }
    }

    fn membership(&self) -> String {
        format!("/orgs/{}/memberships/{}", self.organization, self.bob.name)
    }

    /// Changes that are visible in their resource.
    fn changes(&self) -> Vec<Write> {
        let ada = &self.ada;
        let patch = |path: &str, body: Value| Write::new(ada, Method::PATCH, path, body);
        let quota = format!("/admin/users/{}/quota", self.bob.name);
        vec![
            patch(&ada.repo("plain", ""), json!({"description": "Other"})),
            patch(&format!("/orgs/{}", self.organization), json!({"location": "Paris"})),
            patch("/user/settings", json!({"location": "Paris"})),
            patch(&self.team, json!({"name": "band"})),
            patch(&self.asset, json!({"name": "b.txt"})),
            patch(&self.release, json!({"name": "Other"})),
            Write::new(ada, Method::PUT, &ada.repo("plain", "/topics"), json!({"topics": ["git"]})),
            Write::new(ada, Method::PUT, &self.membership(), json!({"role": "admin"})),
            Write::new(&self.admin, Method::PATCH, &quota, json!({"repositories": 7})),
        ]
    }

    /// Deletions, ordered so that each resource still exists.
    async fn deletions(&self) -> Vec<Write> {
        let ada = &self.ada;
        let key = json!({"title": "key", "key": ed25519("x")});
        let deploy_key = ada.post(&ada.repo("plain", "/keys"), &key).await.expect(201).json();
        let key = json!({"title": "key", "key": ed25519("x")});
        let public_key = ada.post("/user/keys", &key).await.expect(201).json();
        let email = format!("{}@example.org", unique("more"));
        ada.post("/user/emails", &json!({"emails": [email]})).await.expect(201);
        let transfer = ada.repo("plain", "/transfer");
        ada.post(&transfer, &json!({"new_owner": self.bob.name})).await.expect(202);
        vec![
            Write::delete(ada, &ada.repo("plain", "/subscription")),
            Write::delete(ada, &ada.repo("plain", &format!("/keys/{}", deploy_key["id"]))),
            Write::delete(ada, &format!("/user/keys/{}", public_key["id"])),
            Write::new(ada, Method::DELETE, "/user/emails", json!({"emails": [email]})),
            Write::delete(ada, &transfer),
            Write::delete(ada, &self.asset),
            Write::delete(ada, &self.release),
            Write::delete(ada, &self.membership()),
            Write::delete(ada, &self.team),
            Write::delete(ada, &format!("/orgs/{}", self.organization)),
            Write::delete(ada, &ada.repo("plain", "")),
        ]
    }
}

/// Checks that a write with a stale tag fails and changes nothing. Returns the current tag.
async fn refused_when_stale(write: &Write) -> String {
    let today = write.tag().await;
    let before = write.user.get(&write.path).await.expect(200).text();
    let refused = write.send(STALE).await.refused(412);
    assert!(refused.json().get("errors").is_none(), "{}", refused.text());
    assert_eq!(refused.header("etag"), today, "{}", write.path);
    assert_eq!(write.user.get(&write.path).await.expect(200).text(), before, "{}", write.path);
    today
}

fn succeeded(response: &Response) -> bool {
    matches!(response.status.as_u16(), 200 | 204)
}

async fn each_is_changed_only_with_its_tag_of_today(cluster: &Cluster) {
    for write in World::of(cluster).await.changes() {
        let today = refused_when_stale(&write).await;
        let done = write.send(&today).await;
        assert!(succeeded(&done), "{} {}", write.path, done.text());
        assert_ne!(write.user.get(&write.path).await.expect(200).header("etag"), today, "{}", write.path);
        write.send(&today).await.refused(412);
    }
}

async fn each_is_deleted_only_with_its_tag_of_today(cluster: &Cluster) {
    let world = World::of(cluster).await;
    for write in world.deletions().await {
        let today = refused_when_stale(&write).await;
        write.send(&today).await.empty(204);
        if write.path == "/user/emails" {
            assert_eq!(world.ada.get(&write.path).await.expect(200).each("email").len(), 1);
            write.send(&today).await.refused(412);
        } else {
            write.user.get(&write.path).await.refused(404);
            // Deleting a missing subscription succeeds, unless the request requires one.
            write.send(&today).await.refused_any(&[404, 412]);
        }
    }
}

async fn of_writers_with_one_tag_at_once_one_succeeds(cluster: &Cluster) {
    let world = World::of(cluster).await;
    let deletions = world.deletions().await;
    for write in world.changes().into_iter().chain(deletions) {
        let one = &write.tag().await;
        let responses = join_all((0..WRITERS).map(|_| write.send(one))).await;
        let (done, refused): (Vec<_>, Vec<_>) = responses.into_iter().partition(succeeded);
        assert_eq!((done.len(), refused.len()), (1, WRITERS - 1), "{} {}", write.method, write.path);
        for response in refused {
            response.refused_any(&[404, 412]);
        }
    }
}

async fn of_changes_of_the_default_branch_with_one_tag_one_is_made(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let content = base64::engine::general_purpose::STANDARD.encode("x");
    for number in 0..WRITERS {
        let file = json!({"message": "m", "content": content, "branch": format!("branch-{number}")});
        ada.put(&ada.repo("demo", "/contents/x"), &file).await.expect(201);
    }
    let write = |number: usize| {
        let body = json!({"default_branch": format!("branch-{number}"), "description": format!("By {number}")});
        Write::new(&ada, Method::PATCH, &ada.repo("demo", ""), body)
    };
    let one = &write(0).tag().await;
    let writes: Vec<_> = (0..WRITERS).map(write).collect();
    let responses = join_all(writes.iter().map(|write| write.send(one))).await;
    let done: Vec<_> = responses.iter().filter(|response| succeeded(response)).collect();
    assert_eq!(done.len(), 1);
    let made = done[0].json();
    let branch = made["default_branch"].as_str().unwrap();
    assert_eq!(made["description"], branch.replace("branch-", "By "));
    for response in responses {
        if !succeeded(&response) {
            response.refused(412);
        }
    }
    let shown = ada.get(&ada.repo("demo", "")).await.expect(200).json();
    assert_eq!((&shown["default_branch"], &shown["description"]), (&made["default_branch"], &made["description"]));
    let git = Git::new();
    let heads = git.run("", &["ls-remote", "--symref", &ada.git_url(&ada.name, "demo"), "HEAD"]).await;
    assert!(heads.starts_with(&format!("ref: refs/heads/{branch}\tHEAD")), "{heads}");
}

async fn of_publications_with_one_tag_one_makes_a_tag_of_git(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("demo", json!({"auto_init": true})).await;
    let draft = json!({"tag_name": "draft", "draft": true});
    let made = ada.post(&ada.repo("demo", "/releases"), &draft).await.expect(201).json();
    let path = ada.repo("demo", &format!("/releases/{}", made["id"]));
    let write = |number: usize| {
        let body = json!({"draft": false, "tag_name": format!("x-{number}")});
        Write::new(&ada, Method::PATCH, &path, body)
    };
    let one = &write(0).tag().await;
    let writes: Vec<_> = (0..WRITERS).map(write).collect();
    let responses = join_all(writes.iter().map(|write| write.send(one))).await;
    let (done, refused): (Vec<_>, Vec<_>) = responses.into_iter().partition(succeeded);
    assert_eq!((done.len(), refused.len()), (1, WRITERS - 1));
    for response in refused {
        response.refused(412);
    }
    let published = done[0].json()["tag_name"].clone();
    assert_eq!(ada.get(&ada.repo("demo", "/tags")).await.expect(200).each("name"), [published.as_str().unwrap()]);
    // Followers of the repository get an event only for that tag.
    let told = |feed: &Value, event: &str, field: &str| -> Vec<Value> {
        let events = feed["events"].as_array().unwrap().iter().filter(|one| one["event"] == event);
        events.map(|one| one["payload"].pointer(field).cloned().unwrap_or_default()).collect()
    };
    let feed = ada.repo("demo", "/events?after=0&limit=100");
    let feed = ada.eventually(&feed, |feed| !told(feed, "release", "/release/tag_name").is_empty()).await;
    assert_eq!(told(&feed, "release", "/release/tag_name"), std::slice::from_ref(&published));
    assert_eq!(told(&feed, "create", "/ref"), [json!("main"), published]);
}

async fn refusals_for_other_reasons_come_before_the_tag(cluster: &Cluster) {
    let world = World::of(cluster).await;
    let (ada, outsider) = (&world.ada, cluster.outsider().await);
    let organization = format!("/orgs/{}", world.organization);
    ada.new_repository("taken", json!({})).await;
    for if_match in [STALE, "*"] {
        for path in [&ada.repo("plain", ""), &organization, &world.release] {
            let patch = |user: &User| Write::new(user, Method::PATCH, path, json!({"description": "x"}));
            patch(&cluster.anonymous()).send(if_match).await.refused(401);
            patch(&outsider).send(if_match).await.refused(403);
            Write::delete(&outsider, path).send(if_match).await.refused(403);
        }
        for missing in [ada.repo("never", ""), format!("{}9999", world.team), ada.repo("plain", "/keys/999999")] {
            Write::delete(ada, &missing).send(if_match).await.refused(404);
        }
        let wrong = json!({"name": 7});
        Write::new(ada, Method::PATCH, &ada.repo("plain", ""), wrong).send(if_match).await.refused_field("name");
    }
    // The tag is checked before conflicts: a taken name, the last owner, repositories of an
    // organization.
    ada.new_repository_of(&world.organization, "held", false).await;
    let rename = Write::new(ada, Method::PATCH, &ada.repo("plain", ""), json!({"name": "taken"}));
    rename.send(STALE).await.refused(412);
    rename.send("*").await.refused_field("name");
    for path in [organization.clone(), format!("{organization}/memberships/{}", ada.name)] {
        let conflict = Write::delete(ada, &path);
        conflict.send(STALE).await.refused(412);
        conflict.send("*").await.refused(422);
    }
}

async fn what_has_no_body_has_no_tag_that_matches(cluster: &Cluster) {
    let world = World::of(cluster).await;
    let ada = &world.ada;
    ada.share(&ada.repo("plain", ""), &world.bob, "read").await;
    let collaborator = ada.repo("plain", &format!("/collaborators/{}", world.bob.name));
    let member = format!("/orgs/{}/members/{}", world.organization, world.bob.name);
    for write in [
        Write::new(ada, Method::PUT, &collaborator, json!({"permission": "write"})),
        Write::delete(ada, &collaborator),
        Write::delete(ada, &member),
    ] {
        for if_match in [STALE, "*"] {
            write.send(if_match).await.refused(412);
            ada.get(&write.path).await.empty(204);
        }
    }
}
