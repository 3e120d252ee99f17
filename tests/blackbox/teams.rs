//! Teams, their members and their repositories.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        a_team_opens_its_repositories_over_git_and_the_api
    }
    production {
        get_orgs_teams_is_for_members
        post_orgs_teams_makes_a_team
        post_orgs_teams_names_the_field_that_is_wrong
        get_teams_hides_a_team_from_outsiders
        patch_teams_changes_what_is_there
        delete_teams_takes_away_what_it_gave
        the_team_of_owners_stays_as_it_is
        put_and_delete_teams_members_are_idempotent
        put_and_delete_teams_repos_are_idempotent
        get_teams_repos_lists_what_a_team_holds
        teams_are_managed_by_owners
        the_highest_of_all_levels_counts
    }
}

async fn get_orgs_teams_is_for_members(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{}/teams", name.to_uppercase());
    ada.new_team(&name, "crew", "write").await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    for member in [&ada, &bob, &cluster.admin().await] {
        assert_eq!(member.get(&path).await.expect(200).each("name"), ["Owners", "crew"], "{}", member.name);
    }
    outsider.get(&path).await.refused(403);
    cluster.anonymous().get(&path).await.refused(401);
    bob.with_scopes(&["repo:admin"]).await.get(&path).await.refused_with_message(403, "`org`");
    for missing in ["no-such-user", ada.name.as_str()] {
        ada.get(&format!("/orgs/{missing}/teams")).await.refused(404);
    }
    let page = ada.get(&format!("/orgs/{name}/teams?limit=1&page=2")).await.expect(200);
    assert_eq!(page.each("name"), ["crew"]);
    assert!(page.header("link").ends_with("/teams?limit=1&page=1>; rel=\"prev\""));
}

async fn post_orgs_teams_makes_a_team(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{name}/teams");
    for (number, (given, expected)) in
        [(json!(null), "read"), (json!(""), "read"), (json!("read"), "read"), (json!("write"), "write")]
            .into_iter()
            .chain([(json!("admin"), "admin")])
            .enumerate()
    {
        let body = json!({"name": format!("Team_{number}.x"), "description": "Of people", "permission": given});
        let made = ada.post(&path, &body).await.expect(201).json();
        let id = made["id"].as_i64().unwrap();
        let shape = json!({
            "id": id, "name": body["name"], "description": "Of people", "permission": expected,
            "includes_all_repositories": false, "can_create_org_repo": false, "organization": made["organization"],
            "units": made["units"], "units_map": made["units_map"],
        });
        assert_eq!(made, shape);
        assert_eq!(
            (&made["organization"]["username"], &made["units_map"]["repo.code"]),
            (&json!(name), &json!(expected))
        );
        assert_eq!(ada.get(&format!("/teams/{id}")).await.expect(200).json(), shape);
        assert_eq!(ada.get(&format!("/teams/{id}/members")).await.expect(200).json(), json!([]));
    }
}

async fn post_orgs_teams_names_the_field_that_is_wrong(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{name}/teams");
    ada.post(&path, &json!({})).await.refused_fields(&[("name", "required")]);
    let long = "t".repeat(31);
    for wrong in ["a b", "a/b", "new", "NEW", "..", "-x", "\u{e9}", long.as_str()] {
        ada.post(&path, &json!({"name": wrong})).await.refused_field("name");
    }
    for wrong in ["owner", "none", "READ", "all"] {
        ada.post(&path, &json!({"name": "crew", "permission": wrong})).await.refused_field("permission");
    }
    ada.post(&path, &json!({"name": "crew", "description": "d".repeat(256)}))
        .await
        .refused_fields(&[("description", "too_long")]);
    ada.post(&path, &json!({"name": "t".repeat(30), "description": "d".repeat(255)})).await.expect(201);
    for taken in ["T".repeat(30).as_str(), "Owners", "owners"] {
        ada.post(&path, &json!({"name": taken})).await.refused_fields(&[("name", "taken")]);
    }
    let broken = ada.request(Method::POST, &path).header("content-type", "application/json").body("{");
    Response::of(broken).await.refused(400);
    let other = ada.new_organization("other").await;
    ada.new_team(&other, "crew", "read").await;
    ada.new_team(&name, "crew", "read").await;
}

async fn get_teams_hides_a_team_from_outsiders(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "read").await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    for rest in ["", "/members", "/repos"] {
        for member in [&ada, &bob, &cluster.admin().await] {
            member.get(&format!("{team}{rest}")).await.expect(200);
        }
        let hidden = outsider.get(&format!("{team}{rest}")).await.refused(404);
        let missing = outsider.get(&format!("/teams/987654321{rest}")).await.refused(404);
        assert_eq!(hidden.body, missing.body);
        cluster.anonymous().get(&format!("{team}{rest}")).await.refused(401);
    }
    outsider.patch(&team, &json!({"name": 7})).await.refused(404);
    outsider.delete(&team).await.refused(404);
    outsider.put_nothing(&format!("{team}/members/{}", outsider.name)).await.refused(404);
    outsider.put_nothing(&format!("{team}/repos/x")).await.refused(404);
    for wrong in ["0", "-1", "x", "99999999999999999999"] {
        ada.get(&format!("/teams/{wrong}")).await.refused(404);
    }
}

async fn patch_teams_changes_what_is_there(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "read").await;
    ada.new_team(&name, "other", "read").await;
    let edit = async |body: Value| ada.patch(&team, &body).await.expect(200).json();
    let first = edit(json!({"description": "Of people"})).await;
    assert_eq!(edit(json!({})).await, first);
    assert_eq!(edit(json!({"name": null, "description": null, "permission": null})).await, first);
    assert_eq!(edit(json!({"permission": "admin"})).await["permission"], "admin");
    assert_eq!(edit(json!({"name": "Crew"})).await["name"], "Crew", "a different spelling of its name");
    let last = edit(json!({"name": "sailors", "description": ""})).await;
    assert_eq!((&last["name"], &last["description"], &last["id"]), (&json!("sailors"), &json!(""), &first["id"]));
    assert_eq!(ada.get(&team).await.expect(200).json(), last);
    ada.patch(&team, &json!({"name": "OTHER"})).await.refused_fields(&[("name", "taken")]);
    for (field, wrong) in [("name", "a b"), ("name", "new"), ("permission", "owner"), ("permission", "x")] {
        ada.patch(&team, &json!({ field: wrong })).await.refused_field(field);
    }
    assert_eq!(ada.get(&team).await.expect(200).json(), last);
}

async fn delete_teams_takes_away_what_it_gave(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "write").await;
    ada.new_repository_of(&name, "hidden", true).await;
    ada.put_nothing(&format!("{team}/repos/hidden")).await.empty(204);
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    bob.get(&format!("/repos/{name}/hidden")).await.expect(200);
    ada.delete(&team).await.empty(204);
    bob.get(&format!("/repos/{name}/hidden")).await.refused(404);
    ada.delete(&team).await.refused(404);
    ada.get(&team).await.refused(404);
    ada.get(&format!("/orgs/{name}/members/{}", bob.name)).await.empty(204);
    ada.new_team(&name, "crew", "read").await;
}

async fn the_team_of_owners_stays_as_it_is(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    ada.new_repository_of(&name, "hidden", true).await;
    let owners = ada.team_of_owners(&name).await;
    ada.delete(&owners).await.refused(422);
    ada.patch(&owners, &json!({"name": "kings"})).await.refused(422);
    ada.patch(&owners, &json!({"permission": "read"})).await.refused(422);
    assert_eq!(ada.patch(&owners, &json!({"description": "Kings"})).await.expect(200).json()["description"], "Kings");
    assert_eq!(ada.get(&format!("{owners}/repos")).await.expect(200).each("name"), ["hidden"]);
    ada.put_nothing(&format!("{owners}/repos/hidden")).await.empty(204);
    ada.delete(&format!("{owners}/repos/hidden")).await.refused(422);
    assert_eq!(ada.get(&format!("{owners}/repos")).await.expect(200).each("name"), ["hidden"]);
}

async fn put_and_delete_teams_members_are_idempotent(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "read").await;
    let path = format!("{team}/members/{}", bob.name.to_uppercase());
    for _ in 0..2 {
        ada.put_nothing(&path).await.empty(204);
        assert_eq!(ada.get(&format!("{team}/members")).await.expect(200).each("username"), [bob.name.as_str()]);
        ada.get(&format!("/orgs/{name}/members/{}", bob.name)).await.empty(204);
    }
    for _ in 0..2 {
        ada.delete(&path).await.empty(204);
        assert_eq!(ada.get(&format!("{team}/members")).await.expect(200).json(), json!([]));
    }
    ada.get(&format!("/orgs/{name}/members/{}", bob.name)).await.empty(204);
    for unknown in ["no-such-user", name.as_str()] {
        ada.put_nothing(&format!("{team}/members/{unknown}")).await.refused(404);
        ada.delete(&format!("{team}/members/{unknown}")).await.refused(404);
    }
    ada.put_nothing(&format!("/teams/987654321/members/{}", bob.name)).await.refused(404);
}

async fn put_and_delete_teams_repos_are_idempotent(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (name, other) = (ada.new_organization("acme").await, ada.new_organization("other").await);
    let team = ada.new_team(&name, "crew", "read").await;
    ada.new_repository_of(&name, "tools", true).await;
    ada.new_repository_of(&other, "foreign", false).await;
    ada.new_repository("own", json!({})).await;
    let path = format!("{team}/repos/TOOLS");
    for _ in 0..2 {
        ada.put_nothing(&path).await.empty(204);
        assert_eq!(ada.get(&format!("{team}/repos")).await.expect(200).each("name"), ["tools"]);
    }
    for _ in 0..2 {
        ada.delete(&path).await.empty(204);
        assert_eq!(ada.get(&format!("{team}/repos")).await.expect(200).json(), json!([]));
    }
    for unknown in ["absent", "foreign", "own"] {
        ada.put_nothing(&format!("{team}/repos/{unknown}")).await.refused(404);
        ada.delete(&format!("{team}/repos/{unknown}")).await.refused(404);
    }
}

async fn get_teams_repos_lists_what_a_team_holds(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "write").await;
    for repository in ["one", "two", "three"] {
        ada.new_repository_of(&name, repository, true).await;
    }
    for repository in ["one", "two"] {
        ada.put_nothing(&format!("{team}/repos/{repository}")).await.empty(204);
    }
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    let path = format!("{team}/repos");
    let mut listed = bob.get(&path).await.expect(200).each("full_name");
    listed.sort_unstable();
    assert_eq!(listed, [format!("{name}/one"), format!("{name}/two")]);
    let shown = bob.get(&path).await.expect(200).json();
    assert_eq!(shown[0]["permissions"], json!({"admin": false, "push": true, "pull": true}));
    assert_eq!(ada.get(&format!("{path}?limit=1&page=2")).await.expect(200).each("name").len(), 1);
    // A member outside the team sees only the repositories that it can read.
    let eve = cluster.user("eve").await;
    ada.put(&format!("/orgs/{name}/memberships/{}", eve.name), &json!({})).await.empty(204);
    assert_eq!(eve.get(&path).await.expect(200).json(), json!([]));
    ada.delete(&format!("/repos/{name}/one")).await.expect(204);
    assert_eq!(bob.get(&path).await.expect(200).each("name"), ["two"]);
}

async fn teams_are_managed_by_owners(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "admin").await;
    ada.new_repository_of(&name, "tools", true).await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    ada.put_nothing(&format!("{team}/repos/tools")).await.empty(204);
    let wrong = json!({"name": 7});
    bob.post(&format!("/orgs/{name}/teams"), &wrong).await.refused(403);
    bob.patch(&team, &wrong).await.refused(403);
    bob.delete(&team).await.refused(403);
    for (method, path) in [
        (Method::PUT, format!("{team}/members/{}", ada.name)),
        (Method::DELETE, format!("{team}/members/{}", bob.name)),
        (Method::PUT, format!("{team}/repos/tools")),
        (Method::DELETE, format!("{team}/repos/tools")),
    ] {
        Response::of(bob.request(method.clone(), &path)).await.refused(403);
        Response::of(cluster.anonymous().request(method, &path)).await.refused(401);
    }
    cluster.anonymous().post(&format!("/orgs/{name}/teams"), &wrong).await.refused(401);
    cluster.admin().await.patch(&team, &json!({"description": "By the site"})).await.expect(200);
}

/// The status for reading a repository, whether a push succeeds, and the status for its hooks.
async fn access(user: &User, organization: &str, name: &str) -> (u16, bool, u16) {
    let git = Git::new();
    let url = user.git_url(organization, name);
    let cloned = git.attempt("", &["clone", "-q", &url, "work"]).await.status.success();
    let seen = user.get(&format!("/repos/{organization}/{name}")).await.status.as_u16();
    assert_eq!(cloned, seen == 200, "what the API shows can be cloned");
    let mut pushed = false;
    if cloned {
        let branch = format!("HEAD:refs/heads/{}", unique("branch"));
        git.commit("work", "file", &unique("content")).await;
        pushed = git.attempt("work", &["push", "-q", "origin", &branch]).await.status.success();
    }
    (seen, pushed, user.get(&format!("/repos/{organization}/{name}/hooks")).await.status.as_u16())
}

async fn a_team_opens_its_repositories_over_git_and_the_api(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    ada.new_repository_of(&name, "hidden", true).await;
    let team = ada.new_team(&name, "crew", "read").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    assert_eq!(access(&bob, &name, "hidden").await, (404, false, 404), "a member without a team for it");
    ada.put_nothing(&format!("{team}/repos/hidden")).await.empty(204);
    for (permission, expected) in
        [("read", (200, false, 403)), ("write", (200, true, 403)), ("admin", (200, true, 200))]
    {
        ada.patch(&team, &json!({ "permission": permission })).await.expect(200);
        assert_eq!(access(&bob, &name, "hidden").await, expected, "{permission}");
    }
    bob.delete(&format!("/repos/{name}/hidden")).await.refused(403);
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "admin"})).await.empty(204);
    ada.delete(&team).await.empty(204);
    assert_eq!(access(&bob, &name, "hidden").await, (200, true, 200), "an owner");
    bob.delete(&format!("/repos/{name}/hidden")).await.empty(204);
}

async fn the_highest_of_all_levels_counts(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    ada.new_repository_of(&name, "mixed", false).await;
    let permissions = async || bob.get(&format!("/repos/{name}/mixed")).await.expect(200).json()["permissions"].clone();
    let may = |admin: bool, push: bool| json!({"admin": admin, "push": push, "pull": true});
    assert_eq!(permissions().await, may(false, false));
    let (readers, writers) =
        (ada.new_team(&name, "readers", "read").await, ada.new_team(&name, "writers", "write").await);
    for team in [&readers, &writers] {
        ada.put_nothing(&format!("{team}/repos/mixed")).await.empty(204);
    }
    ada.put_nothing(&format!("{readers}/members/{}", bob.name)).await.empty(204);
    assert_eq!(permissions().await, may(false, false));
    ada.put_nothing(&format!("{writers}/members/{}", bob.name)).await.empty(204);
    assert_eq!(permissions().await, may(false, true));
    let collaborator = format!("/repos/{name}/mixed/collaborators/{}", bob.name);
    ada.put(&collaborator, &json!({"permission": "admin"})).await.empty(204);
    assert_eq!(permissions().await, may(true, true));
    ada.put(&collaborator, &json!({"permission": "read"})).await.empty(204);
    assert_eq!(permissions().await, may(false, true));
}
