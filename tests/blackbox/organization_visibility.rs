//! Organizations that are not public: who sees them, and everything that belongs to them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        what_a_private_organization_has_is_hidden_wherever_it_could_be_shown
    }
    production {
        a_limited_organization_is_seen_by_those_who_signed_in
        visibility_is_set_by_owners_and_shown
        a_fork_of_a_private_organizations_repository_is_lost_with_it
        a_team_can_have_all_repositories_and_create_more
    }
}

/// An organization of `ada` with a member `bob` and one repository that is not private. `eve` starred,
/// watched and forked it, and has an issue in it.
struct Hidden {
    ada: User,
    bob: User,
    eve: User,
    name: String,
    id: i64,
    repo: String,
}

impl Hidden {
    async fn new(cluster: &Cluster) -> Self {
        let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
        let name = ada.new_organization("acme").await;
        let id = ada.get(&format!("/orgs/{name}")).await.expect(200).json()["id"].as_i64().unwrap();
        ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "member"})).await.empty(204);
        for member in [&ada, &bob] {
            member.put_nothing(&format!("/orgs/{name}/public_members/{}", member.name)).await.empty(204);
        }
        let library = unique("lib");
        ada.new_repository_of(&name, &library, false).await;
        let repo = format!("/repos/{name}/{library}");
        ada.put(&format!("{repo}/collaborators/{}", eve.name), &json!({"permission": "read"})).await.empty(204);
        ada.new_issue(&repo, "For eve", json!({"assignee": eve.name})).await;
        eve.post(&format!("{repo}/forks"), &json!({})).await.expect(201);
        eve.put_nothing(&format!("/user/starred/{name}/{library}")).await.empty(204);
        eve.put_nothing(&format!("{repo}/subscription")).await.expect(200);
        ada.post(&format!("{repo}/releases"), &json!({"tag_name": "v1", "target_commitish": "main"})).await.expect(201);
        ada.delete(&format!("{repo}/collaborators/{}", eve.name)).await.empty(204);
        Self { ada, bob, eve, name, id, repo }
    }

    async fn set(&self, visibility: &str) {
        let body = json!({"visibility": visibility});
        let shown = self.ada.patch(&format!("/orgs/{}", self.name), &body).await.expect(200).json();
        assert_eq!(shown["visibility"], visibility);
        let account = self.ada.get(&format!("/users/{}", self.name)).await.expect(200).json();
        let repository = self.ada.get(&self.repo).await.expect(200).json();
        assert_eq!(
            (&account["visibility"], &repository["owner"]["visibility"]),
            (&shown["visibility"], &shown["visibility"])
        );
    }

    fn library(&self) -> &str {
        self.repo.rsplit('/').next().unwrap()
    }

    /// Reads that are refused to those who may not see the organization.
    fn places(&self) -> Vec<String> {
        let Self { name, repo, ada, .. } = self;
        let mut places = vec![
            format!("/orgs/{name}"),
            format!("/users/{name}"),
            format!("/users/{name}/repos"),
            format!("/orgs/{name}/repos"),
            format!("/orgs/{name}/members"),
            format!("/orgs/{name}/members/{}", ada.name),
            format!("/orgs/{name}/public_members"),
            format!("/orgs/{name}/public_members/{}", ada.name),
            format!("/orgs/{name}/labels"),
            repo.clone(),
        ];
        for rest in [
            "branches",
            "branches/main",
            "commits",
            "tags",
            "languages",
            "contents/README.md",
            "raw/main/README.md",
            "archive/main.zip",
            "git/trees/main",
            "releases",
            "releases/latest",
            "issues",
            "issues/1",
            "labels",
            "milestones",
            "forks",
            "stargazers",
            "subscribers",
            "events",
            "topics",
            "collaborators",
            "teams",
        ] {
            places.push(format!("{repo}/{rest}"));
        }
        places
    }

    async fn assert_seen_by(&self, caller: &User) {
        for place in self.places() {
            let status = caller.get(&place).await.status.as_u16();
            assert!([200, 204].contains(&status), "{place} {status}");
        }
        let query = format!("/repos/search?q={}", self.library());
        let found = caller.get(&query).await.expect(200).json();
        assert!(found["data"].as_array().unwrap().iter().any(|one| self.is_shown(one)), "{found}");
        assert_eq!(self.avatar(caller).await.expect(200).header("cache-control"), "private, no-cache");
    }

    async fn assert_hidden_from(&self, caller: &User) {
        for place in self.places() {
            // Anonymous callers must not do some of these anywhere.
            let refused = caller.get(&place).await;
            let statuses: &[u16] = if caller.token.is_some() { &[404] } else { &[401, 404] };
            assert!(statuses.contains(&refused.status.as_u16()), "{place} {}", refused.text());
        }
        let missing = caller.get("/orgs/no-such-organization").await.refused(404);
        assert_eq!(caller.get(&format!("/orgs/{}", self.name)).await.text(), missing.text());
        self.avatar(caller).await.expect(404);
        for query in ["/repos/search?limit=50&q=".to_owned(), format!("/repos/search?uid={}&q=", self.id)] {
            let found = caller.get(&format!("{query}{}", self.library())).await.expect(200).json();
            assert!(!found["data"].as_array().unwrap().iter().any(|one| self.is_shown(one)), "{found}");
        }
        let fork = caller.get(&self.eve.repo(self.library(), "")).await.expect(200).json();
        assert_eq!((&fork["fork"], fork.get("parent")), (&json!(true), None), "{fork}");
    }

    fn is_shown(&self, repository: &Value) -> bool {
        repository["owner"]["login"] == self.name.as_str()
            || repository["parent"]["owner"]["login"] == self.name.as_str()
    }

    async fn avatar(&self, caller: &User) -> Response {
        let request = caller.raw(Method::GET, &format!("/avatars/{}", self.id));
        Response::of(match &caller.token {
            Some(token) => request.header("authorization", format!("token {token}")),
            None => request,
        })
        .await
    }

    /// Names of organizations and repositories in lists of others.
    async fn lists(&self, caller: &User) -> [Vec<String>; 4] {
        let eve = &self.eve.name;
        [
            caller.get(&format!("/users/{}/orgs", self.bob.name)).await.expect(200).each("username"),
            caller.get(&format!("/users/{eve}/starred")).await.expect(200).each("name"),
            caller.get(&format!("/users/{eve}/subscriptions")).await.expect(200).each("full_name"),
            caller.get(&format!("/users/{eve}/repos")).await.expect(200).each("name"),
        ]
    }
}

async fn what_a_private_organization_has_is_hidden_wherever_it_could_be_shown(cluster: &Cluster) {
    let hidden = &Hidden::new(cluster).await;
    let Hidden { ada, bob, eve, name, repo, .. } = hidden;
    let library = hidden.library();
    let admin = cluster.admin().await;
    let before = eve.get("/user/issues").await.expect(200).each("title");
    assert_eq!(before, ["For eve"]);
    hidden.set("private").await;

    for caller in [ada, bob, &admin] {
        hidden.assert_seen_by(caller).await;
    }
    bob.new_repository("own", json!({})).await;
    let elsewhere = bob.with_new_token(json!({"repositories": [format!("{}/own", bob.name)]})).await;
    for caller in [eve, &cluster.anonymous(), &elsewhere] {
        hidden.assert_hidden_from(caller).await;
    }
    // Scopes limit what a membership gives, as other roles.
    let scoped = bob.with_scopes(&["org"]).await;
    scoped.get(&format!("/orgs/{name}")).await.expect(200);
    scoped.get(repo).await.refused(404);
    let covered = bob.with_new_token(json!({"repositories": [format!("{name}/{library}")]})).await;
    covered.get(repo).await.expect(200);
    covered.get(&format!("/orgs/{name}")).await.refused(404);

    let shown = [vec![name.clone()], vec![library.to_owned()]];
    let [organizations, starred, ..] = hidden.lists(ada).await;
    assert_eq!([organizations, starred], shown);
    let [organizations, starred, watched, repositories] = hidden.lists(eve).await;
    assert_eq!((organizations, starred), (vec![], vec![]));
    assert!(!watched.iter().any(|full_name| full_name.starts_with(name.as_str())), "{watched:?}");
    assert_eq!(repositories, [library], "the fork that was public stays");
    assert_eq!(eve.get("/user/issues").await.expect(200).json(), json!([]));
    assert_eq!(eve.get("/user/orgs").await.expect(200).json(), json!([]));
    assert!(!eve.get("/orgs?limit=100").await.expect(200).each("username").contains(name));
    eve.get(&format!("/users/{}/orgs/{name}/permissions", eve.name)).await.refused(404);

    for (caller, status) in [(bob, 200), (eve, 404)] {
        let token = caller.token.as_deref().unwrap();
        assert_eq!(caller.git_status("upload-pack", name, library, token).await, status);
    }
    let path = format!("/{name}/{library}.git/info/refs?service=git-upload-pack");
    assert_eq!(Response::of(eve.raw(Method::GET, &path)).await.status, 401);

    // The name is taken, and is nobody to give something to.
    eve.post("/user/orgs", &json!({"username": name})).await.refused_field("username");
    let mine = eve.repo(library, "");
    eve.post(&format!("{mine}/transfer"), &json!({"new_owner": name})).await.refused_field("new_owner");
    eve.post(&format!("{mine}/forks"), &json!({"organization": name})).await.refused_field("organization");
    eve.post(&format!("/orgs/{name}/repos"), &json!({"name": "x"})).await.refused(404);
    eve.post(&format!("/orgs/{name}/teams"), &json!({"name": "x"})).await.refused(404);

    hidden.set("public").await;
    cluster.anonymous().get(repo).await.expect(200);
    assert_eq!(hidden.avatar(&cluster.anonymous()).await.expect(200).header("cache-control"), "public, max-age=300");
    let fork = eve.get(&mine).await.expect(200).json();
    assert_eq!(fork["parent"]["owner"]["login"], name.as_str());
}

async fn a_limited_organization_is_seen_by_those_who_signed_in(cluster: &Cluster) {
    let hidden = &Hidden::new(cluster).await;
    hidden.set("limited").await;
    let elsewhere = hidden.eve.with_new_token(json!({"scopes": ["user"]})).await;
    elsewhere.get(&hidden.repo).await.expect(200);
    elsewhere.get(&format!("/orgs/{}", hidden.name)).await.expect(200);
    hidden.assert_seen_by(&hidden.eve).await;
    hidden.assert_hidden_from(&cluster.anonymous()).await;
    let path = format!("/{}/{}.git/info/refs?service=git-upload-pack", hidden.name, hidden.library());
    assert_eq!(Response::of(hidden.eve.raw(Method::GET, &path)).await.status, 401);
}

async fn visibility_is_set_by_owners_and_shown(cluster: &Cluster) {
    let (ada, bob, admin) = (cluster.user("ada").await, cluster.user("bob").await, cluster.admin().await);
    for (visibility, path) in
        [("private", "/user/orgs".to_owned()), ("limited", format!("/admin/users/{}/orgs", ada.name))]
    {
        let (caller, name) = if path == "/user/orgs" { (&ada, unique("own")) } else { (&admin, unique("given")) };
        let body = json!({"username": name, "visibility": visibility, "repo_admin_change_team_access": true});
        let made = caller.post(&path, &body).await.expect(201).json();
        assert_eq!(
            (&made["visibility"], &made["email"], &made["name"]),
            (&json!(visibility), &json!(""), &json!(name))
        );
        assert_eq!(made["repo_admin_change_team_access"], true);
        assert_eq!(ada.get(&format!("/orgs/{name}")).await.expect(200).json(), made);
        let listed = ada.get("/user/orgs").await.expect(200).json();
        assert!(listed.as_array().unwrap().contains(&made), "{listed}");
    }
    ada.post("/user/orgs", &json!({"username": unique("x"), "visibility": "secret"})).await.refused_field("visibility");
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{name}");
    assert_eq!(ada.get(&path).await.expect(200).json()["visibility"], "public");
    ada.patch(&path, &json!({"visibility": "open"})).await.refused_field("visibility");
    assert_eq!(ada.patch(&path, &json!({"visibility": ""})).await.expect(200).json()["visibility"], "public");
    bob.patch(&path, &json!({"visibility": "private"})).await.refused(403);
    assert_eq!(ada.patch(&path, &json!({"visibility": "private"})).await.expect(200).json()["visibility"], "private");
    let query = format!("/admin/audit?limit=1&action=organization.update&actor={}", ada.name);
    let entries = admin.get(&query).await.expect(200).json();
    assert_eq!(entries[0]["details"], json!({"fields": "visibility", "visibility": "private"}), "{entries}");
    bob.patch(&path, &json!({"visibility": "public"})).await.refused(404);
    // To hide needs less than to show.
    let narrow = ada.with_scopes(&["org"]).await;
    for shows in [json!({"visibility": "limited"}), json!({"repo_admin_change_team_access": true})] {
        narrow.patch(&path, &shows).await.refused_with_message(403, "`repo:admin`");
    }
    ada.patch(&path, &json!({"visibility": "limited"})).await.expect(200);
    narrow.patch(&path, &json!({"visibility": "private", "repo_admin_change_team_access": false})).await.expect(200);
}

async fn a_fork_of_a_private_organizations_repository_is_lost_with_it(cluster: &Cluster) {
    let hidden = &Hidden::new(cluster).await;
    let Hidden { ada, bob, name, .. } = hidden;
    hidden.set("private").await;
    let made = bob.post(&format!("{}/forks", hidden.repo), &json!({"name": "mine"})).await.expect(201).json();
    assert_eq!((&made["private"], &made["parent"]["internal"]), (&json!(true), &json!(true)));
    let mine = bob.repo("mine", "");
    bob.patch(&mine, &json!({"private": false})).await.refused_field("private");
    ada.delete(&format!("/orgs/{name}/members/{}", bob.name)).await.empty(204);
    bob.get(&mine).await.refused(404);
    bob.get(&hidden.repo).await.refused(404);
    hidden.set("public").await;
    bob.patch(&mine, &json!({"private": false})).await.expect(200);
}

async fn a_team_can_have_all_repositories_and_create_more(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    let name = ada.new_organization("acme").await;
    let units =
        ["repo.code", "repo.issues", "repo.ext_issues", "repo.wiki", "repo.pulls", "repo.releases", "repo.projects"];
    let body = json!({
        "name": "crew", "permission": "write", "units": units, "includes_all_repositories": true,
        "can_create_org_repo": true,
    });
    let team = ada.post(&format!("/orgs/{name}/teams"), &body).await.expect(201).json();
    assert_eq!((&team["includes_all_repositories"], &team["can_create_org_repo"]), (&json!(true), &json!(true)));
    assert_eq!((&team["organization"]["username"], &team["units_map"]["repo.code"]), (&json!(name), &json!("write")));
    let path = format!("/teams/{}", team["id"]);
    assert_eq!(ada.get(&path).await.expect(200).json(), team);
    ada.put_nothing(&format!("{path}/members/{}", bob.name)).await.empty(204);
    let plain = ada.new_team(&name, "readers", "read").await;
    ada.put_nothing(&format!("{plain}/members/{}", eve.name)).await.empty(204);

    ada.new_repository_of(&name, "later", true).await;
    let later = format!("/repos/{name}/later");
    let permissions = bob.get(&later).await.expect(200).json()["permissions"].clone();
    assert_eq!(permissions, json!({"admin": false, "push": true, "pull": true}));
    eve.get(&later).await.refused(404);
    assert_eq!(ada.get(&format!("{path}/repos")).await.expect(200).each("name"), ["later"]);
    ada.delete(&format!("{path}/repos/later")).await.refused(422);

    let made = bob.post(&format!("/orgs/{name}/repos"), &json!({"name": "made", "private": true})).await.expect(201);
    assert_eq!(made.json()["permissions"], json!({"admin": true, "push": true, "pull": true}));
    eve.post(&format!("/orgs/{name}/repos"), &json!({"name": "more"})).await.refused(403);
    bob.patch(&format!("/orgs/{name}"), &json!({"description": "Mine"})).await.refused(403);

    let narrowed = json!({"includes_all_repositories": false, "can_create_org_repo": false});
    ada.patch(&path, &narrowed).await.expect(200);
    bob.get(&later).await.refused(404);
    bob.get(&format!("/repos/{name}/made")).await.expect(200);
    bob.post(&format!("/orgs/{name}/repos"), &json!({"name": "more"})).await.refused(403);
    let owners = ada.team_of_owners(&name).await;
    ada.patch(&owners, &narrowed).await.refused(422);
    ada.patch(&owners, &json!({"includes_all_repositories": true, "description": "All"})).await.expect(200);
}
