use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, User};

on_profiles! {
    production {
        get_repos_collaborators_lists_the_users_that_were_added
        get_repos_collaborators_name_tells_whether_a_user_was_added
        put_repos_collaborators_gives_the_level_that_is_named
        put_repos_collaborators_without_a_level_gives_write_or_keeps_what_is_there
        put_repos_collaborators_names_what_is_wrong
        delete_repos_collaborators_removes_and_then_does_not_find
        collaborators_are_managed_by_administrators_of_the_repository
        collaborators_see_repositories_and_change_them_by_their_level
        collaborators_are_shown_to_readers
        get_collaborators_permission_returns_the_highest
        get_repos_assignees_and_reviewers_lists_the_users_with_a_role
    }
}

fn path(owner: &User, collaborator: &str) -> String {
    owner.repo("shared", &format!("/collaborators/{collaborator}"))
}

async fn level(owner: &User, collaborator: &User) -> Value {
    let listed = owner.get(&owner.repo("shared", "/collaborators")).await.expect(200).json();
    let found = listed.as_array().unwrap().iter().find(|one| one["username"] == collaborator.name.as_str());
    found.map_or(Value::Null, |one| one["permissions"].clone())
}

fn may(admin: bool, push: bool) -> Value {
    json!({"admin": admin, "push": push, "pull": true})
}

async fn get_repos_collaborators_lists_the_users_that_were_added(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    ada.new_repository("shared", json!({"private": true})).await;
    let list = ada.repo("shared", "/collaborators");
    assert_eq!(ada.get(&list).await.expect(200).json(), json!([]));
    ada.put(&path(&ada, &eve.name), &json!({"permission": "read"})).await.empty(204);
    ada.put(&path(&ada, &bob.name), &json!({"permission": "admin"})).await.empty(204);
    let listed = ada.get(&list).await.expect(200);
    assert_eq!(listed.each("username"), [bob.name.clone(), eve.name.clone()], "by id, without the owner");
    let expected = json!({
        "id": bob.id, "username": bob.name, "login": bob.name, "full_name": "The bob", "email": bob.email,
        "avatar_url": format!("{}/avatars/{}", cluster.url, bob.id), "visibility": "public",
        "permissions": may(true, true),
    });
    assert_eq!(listed.json()[0], expected);
    assert_eq!(listed.json()[1]["permissions"], may(false, false));
    let page = ada.get(&format!("{list}?limit=1&page=2")).await.expect(200);
    assert_eq!(page.each("username"), [eve.name.as_str()]);
    let first = format!("<{}/api/v1{list}?limit=1&page=1>", cluster.url);
    assert_eq!(page.header("link"), format!("{first}; rel=\"first\",{first}; rel=\"prev\""));
    let organization = ada.new_organization("acme").await;
    ada.new_repository_of(&organization, "tools", true).await;
    let team = ada.new_team(&organization, "crew", "write").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    ada.put_nothing(&format!("{team}/repos/tools")).await.empty(204);
    assert_eq!(ada.get(&format!("/repos/{organization}/tools/collaborators")).await.expect(200).json(), json!([]));
}

async fn get_repos_collaborators_name_tells_whether_a_user_was_added(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("shared", json!({})).await;
    ada.get(&path(&ada, &bob.name)).await.refused(404);
    ada.get(&path(&ada, &ada.name)).await.refused(404);
    ada.get(&path(&ada, "no-such-user")).await.refused_field("collaborator");
    ada.put_nothing(&path(&ada, &bob.name)).await.empty(204);
    ada.get(&path(&ada, &bob.name.to_uppercase())).await.empty(204);
}

async fn put_repos_collaborators_gives_the_level_that_is_named(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("shared", json!({})).await;
    for (permission, expected) in [
        ("read", may(false, false)),
        ("write", may(false, true)),
        ("admin", may(true, true)),
        ("admin", may(true, true)),
        ("read", may(false, false)),
    ] {
        ada.put(&path(&ada, &bob.name), &json!({ "permission": permission })).await.empty(204);
        assert_eq!(level(&ada, &bob).await, expected, "{permission}");
        assert_eq!(bob.get(&ada.repo("shared", "")).await.expect(200).json()["permissions"], expected);
    }
}

async fn put_repos_collaborators_without_a_level_gives_write_or_keeps_what_is_there(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    ada.new_repository("shared", json!({})).await;
    ada.put_nothing(&path(&ada, &bob.name)).await.empty(204);
    ada.put(&path(&ada, &eve.name), &json!({})).await.empty(204);
    assert_eq!((level(&ada, &bob).await, level(&ada, &eve).await), (may(false, true), may(false, true)));
    for kept in ["read", "admin"] {
        ada.put(&path(&ada, &bob.name), &json!({ "permission": kept })).await.empty(204);
        let before = level(&ada, &bob).await;
        ada.put_nothing(&path(&ada, &bob.name)).await.empty(204);
        ada.put(&path(&ada, &bob.name), &json!({})).await.empty(204);
        for absent in [json!({"permission": null}), json!({"permission": ""})] {
            ada.put(&path(&ada, &bob.name), &absent).await.empty(204);
        }
        assert_eq!(level(&ada, &bob).await, before, "{kept}");
    }
}

async fn put_repos_collaborators_names_what_is_wrong(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let organization = ada.new_organization("acme").await;
    ada.new_repository("shared", json!({})).await;
    for wrong in ["owner", "none", " ", "READ", "Write", "pull"] {
        ada.put(&path(&ada, &bob.name), &json!({ "permission": wrong })).await.refused_field("permission");
    }
    ada.put(&path(&ada, &bob.name), &json!({"permission": 7})).await.refused_fields(&[("permission", "type")]);
    for wrong in ["no-such-user", organization.as_str(), ada.name.as_str(), &ada.name.to_uppercase()] {
        ada.put(&path(&ada, wrong), &json!({})).await.refused_field("collaborator");
    }
    let put = ada.request(Method::PUT, &path(&ada, &bob.name)).header("content-type", "application/json").body("{");
    Response::of(put).await.refused(400);
    let put = ada.request(Method::PUT, &path(&ada, &bob.name)).header("content-type", "text/plain").body("read");
    Response::of(put).await.refused(415);
    assert_eq!(ada.get(&ada.repo("shared", "/collaborators")).await.expect(200).json(), json!([]));
}

async fn delete_repos_collaborators_removes_and_then_does_not_find(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("shared", json!({"private": true})).await;
    ada.put_nothing(&path(&ada, &bob.name)).await.empty(204);
    bob.get(&ada.repo("shared", "")).await.expect(200);
    ada.delete(&path(&ada, &bob.name.to_uppercase())).await.empty(204);
    bob.get(&ada.repo("shared", "")).await.refused(404);
    for absent in [bob.name.as_str(), ada.name.as_str(), "no-such-user"] {
        ada.delete(&path(&ada, absent)).await.refused(404);
    }
}

async fn collaborators_are_managed_by_administrators_of_the_repository(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    ada.new_repository("shared", json!({})).await;
    let all = async |caller: &User, status: u16| {
        let one = path(&ada, &eve.name);
        caller.put(&one, &json!({"permission": "king"})).await.refused(status);
        caller.put(&path(&ada, "no-such-user"), &json!({})).await.refused(status);
        let broken = caller.request(Method::PUT, &one).header("content-type", "application/json").body("{");
        Response::of(broken).await.refused(status);
        caller.delete(&one).await.refused(status);
    };
    all(&cluster.anonymous(), 401).await;
    all(&bob, 403).await;
    ada.put(&path(&ada, &bob.name), &json!({"permission": "write"})).await.empty(204);
    all(&bob, 403).await;
    all(&ada.with_scopes(&["repo:write", "issue", "hook"]).await, 403).await;
    ada.put(&path(&ada, &bob.name), &json!({"permission": "admin"})).await.empty(204);
    bob.put(&path(&ada, &eve.name), &json!({"permission": "admin"})).await.empty(204);
    assert_eq!(level(&ada, &eve).await, may(true, true));
    bob.put(&path(&ada, &bob.name), &json!({"permission": "read"})).await.empty(204);
    all(&bob, 403).await;
    cluster.admin().await.delete(&path(&ada, &bob.name)).await.empty(204);
    ada.delete(&ada.repo("shared", "")).await.empty(204);
    all(&eve, 404).await;
}

async fn collaborators_are_shown_to_readers(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    ada.new_repository("shared", json!({"private": true})).await;
    ada.put(&path(&ada, &bob.name), &json!({"permission": "read"})).await.empty(204);
    let list = ada.repo("shared", "/collaborators");
    assert_eq!(bob.get(&list).await.expect(200).each("username"), [bob.name.as_str()]);
    bob.get(&path(&ada, &bob.name)).await.empty(204);
    bob.get(&path(&ada, &eve.name)).await.refused(404);
    for hidden in [&list, &path(&ada, &bob.name)] {
        eve.get(hidden).await.refused(404);
        cluster.anonymous().get(hidden).await.refused(401);
    }
}

async fn get_collaborators_permission_returns_the_highest(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    ada.new_repository("shared", json!({"private": true})).await;
    ada.put(&path(&ada, &bob.name), &json!({"permission": "write"})).await.empty(204);
    let asked = |user: &User| format!("{}/permission", path(&ada, &user.name.to_uppercase()));
    for (user, word) in [(&ada, "owner"), (&bob, "write"), (&eve, "none")] {
        let shown = ada.get(&asked(user)).await.expect(200).json();
        assert_eq!((&shown["permission"], &shown["role_name"]), (&json!(word), &json!(word)));
        assert_eq!(shown["user"]["login"], user.name.as_str());
    }
    assert_eq!(bob.get(&asked(&bob)).await.expect(200).json()["permission"], "write");
    bob.get(&asked(&ada)).await.refused(403);
    bob.get(&format!("{}/permission", path(&ada, "no-such-user"))).await.refused(404);
    eve.get(&asked(&eve)).await.refused(404);
    let organization = ada.new_organization("acme").await;
    ada.new_repository_of(&organization, "tools", false).await;
    let team = ada.new_team(&organization, "crew", "admin").await;
    ada.put_nothing(&format!("{team}/repos/tools")).await.empty(204);
    let asked = format!("/repos/{organization}/tools/collaborators/{}/permission", bob.name);
    assert_eq!(bob.get(&asked).await.expect(200).json()["permission"], "read");
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    assert_eq!(bob.get(&asked).await.expect(200).json()["permission"], "admin");
}

async fn collaborators_see_repositories_and_change_them_by_their_level(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    ada.new_repository("shared", json!({"private": true, "auto_init": true})).await;
    let token = bob.token.as_deref().unwrap();
    let file = json!({"message": "x", "content": ""});
    // Read the repository, write a file, list hooks, delete; fetch and push.
    for (number, (permission, expected)) in [
        (None, [404, 404, 404, 404, 404, 404]),
        (Some("read"), [200, 403, 403, 403, 200, 403]),
        (Some("write"), [200, 201, 403, 403, 200, 200]),
        (Some("admin"), [200, 201, 200, 403, 200, 200]),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(permission) = permission {
            ada.put(&path(&ada, &bob.name), &json!({ "permission": permission })).await.empty(204);
        }
        let found = [
            bob.get(&ada.repo("shared", "")).await.status.as_u16(),
            bob.put(&ada.repo("shared", &format!("/contents/{number}")), &file).await.status.as_u16(),
            bob.get(&ada.repo("shared", "/hooks")).await.status.as_u16(),
            bob.delete(&ada.repo("shared", "")).await.status.as_u16(),
            bob.git_status("upload-pack", &ada.name, "shared", token).await,
            bob.git_status("receive-pack", &ada.name, "shared", &bob.password).await,
        ];
        assert_eq!(found, expected, "{permission:?}");
    }
}

async fn get_repos_assignees_and_reviewers_lists_the_users_with_a_role(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (carol, eve) = (cluster.user("carol").await, cluster.user("eve").await);
    let organization = ada.new_organization("acme").await;
    ada.new_repository_of(&organization, "tools", false).await;
    let tools = format!("/repos/{organization}/tools");
    let team = ada.new_team(&organization, "crew", "read").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    ada.put_nothing(&format!("{team}/repos/tools")).await.empty(204);
    ada.put(&format!("{tools}/collaborators/{}", carol.name), &json!({"permission": "read"})).await.empty(204);
    for list in ["assignees", "reviewers"] {
        let list = format!("{tools}/{list}");
        let all = [&ada, &bob, &carol];
        for (reader, expected) in [(&bob, &all[..]), (&eve, &[&carol]), (&cluster.anonymous(), &[&carol])] {
            let names: Vec<_> = expected.iter().map(|user| user.name.as_str()).collect();
            assert_eq!(reader.get(&list).await.expect(200).each("login"), names, "{list}");
        }
        let page = bob.get(&format!("{list}?limit=1&page=2")).await.expect(200);
        assert_eq!((page.each("login"), page.header("x-total-count")), (vec![bob.name.clone()], "3".to_owned()));
    }
}
