use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response};

on_profiles! {
    production {
        post_org_repos_makes_a_repository_of_the_organization
        post_org_repos_is_for_owners
        post_org_repos_of_a_missing_organization_is_not_found
        post_org_repos_names_wrong_fields_to_owners_alone
        get_orgs_repos_lists_what_the_caller_may_see
        get_orgs_repos_has_pages
    }
}

async fn post_org_repos_makes_a_repository_of_the_organization(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("Acme").await;
    for (number, path) in ["org", "orgs"].into_iter().enumerate() {
        let repository = format!("Tools-{number}");
        let body = json!({
            "name": repository, "description": "Anvils", "private": true, "auto_init": true, "readme": "Default",
        });
        let made = ada.post(&format!("/{path}/{}/repos", name.to_lowercase()), &body).await.expect(201).json();
        assert_eq!(made["full_name"], format!("{name}/{repository}"));
        assert_eq!((&made["owner"]["login"], &made["owner"]["email"]), (&json!(name), &json!("")));
        assert_eq!((&made["private"], &made["empty"]), (&json!(true), &json!(false)));
        assert_eq!(made["permissions"], json!({"admin": true, "push": true, "pull": true}));
        let commit = ada.get(&format!("/repos/{name}/{repository}/commits/main")).await.expect(200).json();
        assert_eq!(commit["author"]["login"], ada.name, "the caller is the author");
        ada.post(&format!("/{path}/{name}/repos"), &json!({"name": repository.to_lowercase()})).await.refused(422);
    }
}

async fn post_org_repos_is_for_owners(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "admin").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    for path in [format!("/org/{name}/repos"), format!("/orgs/{name}/repos")] {
        for (caller, status) in [(&bob, 403), (&outsider, 403), (&cluster.anonymous(), 401)] {
            caller.post(&path, &json!({"name": "mine"})).await.refused(status);
        }
        let scoped = ada.with_scopes(&["org", "repo:write"]).await;
        scoped.post(&path, &json!({"name": "mine"})).await.refused_with_message(403, "`repo:admin`");
    }
    cluster.admin().await.post(&format!("/org/{name}/repos"), &json!({"name": "by-the-site"})).await.expect(201);
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "admin"})).await.empty(204);
    bob.post(&format!("/org/{name}/repos"), &json!({"name": "by-a-new-owner"})).await.expect(201);
}

async fn post_org_repos_of_a_missing_organization_is_not_found(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for missing in ["no-such-user", ada.name.as_str(), "a%2Fb"] {
        for path in ["org", "orgs"] {
            ada.post(&format!("/{path}/{missing}/repos"), &json!({"name": "x"})).await.refused(404);
        }
    }
}

async fn post_org_repos_names_wrong_fields_to_owners_alone(cluster: &Cluster) {
    let (ada, outsider) = (cluster.user("ada").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    let path = format!("/org/{name}/repos");
    for (body, field) in [
        (json!({}), "name"),
        (json!({"name": "a b"}), "name"),
        (json!({"name": "x.git"}), "name"),
        (json!({"name": "x", "private": "yes"}), "private"),
        (json!({"name": "x", "description": "d".repeat(256)}), "description"),
        (json!({"name": "x", "auto_init": true, "license": "None Such"}), "license"),
    ] {
        ada.post(&path, &body).await.refused_field(field);
        outsider.post(&path, &body).await.refused(403);
        ada.post("/org/no-such-user/repos", &body).await.refused(404);
    }
    let broken = |user: &crate::harness::User| {
        user.request(Method::POST, &path).header("content-type", "application/json").body("{\"name\":")
    };
    Response::of(broken(&ada)).await.refused(400);
    Response::of(broken(&outsider)).await.refused(403);
    assert_eq!(ada.get(&format!("/orgs/{name}/repos")).await.expect(200).json(), json!([]));
}

async fn get_orgs_repos_lists_what_the_caller_may_see(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    for (repository, is_private) in [("open", false), ("crew", true), ("lent", true), ("hidden", true)] {
        ada.new_repository_of(&name, repository, is_private).await;
    }
    let team = ada.new_team(&name, "crew", "write").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    ada.put_nothing(&format!("{team}/repos/crew")).await.empty(204);
    let lent = format!("/repos/{name}/lent/collaborators/{}", bob.name);
    ada.put(&lent, &json!({"permission": "read"})).await.empty(204);
    let path = format!("/orgs/{}/repos", name.to_uppercase());
    let sorted = |response: Response| {
        let mut names = response.expect(200).each("name");
        names.sort_unstable();
        names
    };
    let all = ["crew", "hidden", "lent", "open"];
    assert_eq!(sorted(ada.get(&path).await), all);
    assert_eq!(sorted(cluster.admin().await.get(&path).await), all);
    assert_eq!(sorted(bob.get(&path).await), ["crew", "lent", "open"]);
    assert_eq!(sorted(outsider.get(&path).await), ["open"]);
    assert_eq!(sorted(cluster.anonymous().get(&path).await), ["open"]);
    let shown = bob.get(&path).await.json();
    let of = |wanted: &str| {
        let list: &Vec<Value> = shown.as_array().unwrap();
        list.iter().find(|one| one["name"] == wanted).unwrap()["permissions"].clone()
    };
    assert_eq!(of("crew"), json!({"admin": false, "push": true, "pull": true}));
    assert_eq!(of("lent"), json!({"admin": false, "push": false, "pull": true}));
    for missing in ["no-such-user", ada.name.as_str()] {
        ada.get(&format!("/orgs/{missing}/repos")).await.refused(404);
    }
}

async fn get_orgs_repos_has_pages(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("acme").await;
    for repository in ["one", "two", "three"] {
        let body = json!({ "name": repository });
        ada.post(&format!("/org/{name}/repos"), &body).await.expect(201);
    }
    let path = format!("/orgs/{name}/repos");
    assert_eq!(ada.get(&path).await.expect(200).each("name"), ["three", "two", "one"], "last updated first");
    let page = ada.get(&format!("{path}?limit=2")).await.expect(200);
    assert_eq!(page.each("name"), ["three", "two"]);
    let link = |number: u8, relation: &str| {
        format!("<{}/api/v1{path}?limit=2&page={number}>; rel=\"{relation}\"", cluster.url)
    };
    assert_eq!(page.header("link"), format!("{},{}", link(2, "next"), link(2, "last")));
    assert_eq!(page.header("x-total-count"), "3");
    let past = ada.get(&format!("{path}?limit=2&page=9")).await.expect(200);
    assert_eq!((past.json(), past.header("link")), (json!([]), format!("{},{}", link(1, "first"), link(2, "prev"))));
}
