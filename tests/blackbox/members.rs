//! Members and owners of organizations.

use serde_json::{Value, json};

use crate::harness::Cluster;

on_profiles! {
    both {
        the_last_owner_stays
    }
    production {
        put_memberships_makes_members_and_owners
        put_memberships_names_what_is_wrong
        get_memberships_returns_the_role
        get_members_shows_outsiders_the_public_ones
        get_members_name_tells_as_far_as_the_caller_may_know
        put_and_delete_public_members_are_for_the_member_itself
        delete_members_takes_a_user_out_of_everything
        delete_memberships_lets_members_leave
        members_are_managed_by_owners
    }
}

async fn put_memberships_makes_members_and_owners(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{name}/memberships/{}", bob.name);
    let role = async || ada.get(&path).await.expect(200).json()["role"].clone();
    let owners = ada.team_of_owners(&name).await;
    for (body, expected) in [
        (json!({}), "member"),
        (json!({"role": "admin"}), "admin"),
        (json!({"role": "admin"}), "admin"),
        (json!({"role": "member"}), "member"),
        (json!({"role": null}), "member"),
    ] {
        ada.put(&path, &body).await.empty(204);
        assert_eq!(role().await, expected, "{body}");
        let is_owner = ada.get(&format!("{owners}/members")).await.expect(200).each("username").contains(&bob.name);
        assert_eq!(is_owner, expected == "admin", "{body}");
    }
    ada.put_nothing(&path).await.empty(204);
}

async fn put_memberships_names_what_is_wrong(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (name, other) = (ada.new_organization("acme").await, ada.new_organization("other").await);
    let path = format!("/orgs/{name}/memberships/{}", bob.name);
    for wrong in [json!("owner"), json!("ADMIN"), json!("Member")] {
        ada.put(&path, &json!({ "role": wrong })).await.refused_field("role");
    }
    ada.put(&path, &json!({"role": 7})).await.refused_fields(&[("role", "type")]);
    for unknown in ["no-such-user", other.as_str()] {
        ada.put(&format!("/orgs/{name}/memberships/{unknown}"), &json!({})).await.refused(404);
    }
    for missing in ["no-such-user", ada.name.as_str()] {
        ada.put(&format!("/orgs/{missing}/memberships/{}", bob.name), &json!({})).await.refused(404);
    }
    ada.get(&path).await.refused(404);
}

async fn get_memberships_returns_the_role(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{name}/memberships/{}", ada.name.to_uppercase());
    let membership = ada.get(&path).await.expect(200).json();
    assert_eq!(membership.as_object().unwrap().keys().collect::<Vec<_>>(), ["public", "role", "user"]);
    assert_eq!(membership["user"]["login"], ada.name);
    bob.get(&path).await.refused(404);
    ada.put_nothing(&format!("/orgs/{name}/public_members/{}", ada.name)).await.empty(204);
    assert_eq!(bob.get(&path).await.expect(200).json()["public"], true);
    ada.get(&format!("/orgs/{name}/memberships/{}", bob.name)).await.refused(404);
    ada.get(&format!("/orgs/{name}/memberships/no-such-user")).await.refused(404);
    ada.get(&format!("/orgs/no-such-user/memberships/{}", ada.name)).await.refused(404);
}

async fn get_members_shows_outsiders_the_public_ones(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    let path = format!("/orgs/{}/members", name.to_uppercase());
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    let both = [ada.name.clone(), bob.name.clone()];
    let admin = cluster.admin().await;
    for member in [&ada, &bob, &admin] {
        assert_eq!(member.get(&path).await.expect(200).each("username"), both, "{}", member.name);
    }
    assert_eq!(outsider.get(&path).await.expect(200).json(), json!([]));
    let public = format!("/orgs/{name}/public_members");
    ada.get(&format!("{public}/{}", bob.name)).await.refused(404);
    bob.put_nothing(&format!("{public}/{}", bob.name)).await.empty(204);
    assert_eq!(outsider.get(&path).await.expect(200).each("username"), both[1..]);
    for caller in [&ada, &outsider] {
        assert_eq!(caller.get(&public).await.expect(200).each("username"), both[1..], "{}", caller.name);
        caller.get(&format!("{public}/{}", bob.name.to_uppercase())).await.empty(204);
        caller.get(&format!("{public}/{}", ada.name)).await.refused(404);
    }
    ada.get("/orgs/no-such-user/public_members").await.refused(404);
    let page = ada.get(&format!("{path}?limit=1&page=2")).await.expect(200);
    assert_eq!(page.each("username"), both[1..]);
    assert!(page.header("link").contains("rel=\"prev\""));
    for list in [&path, &public] {
        assert_eq!(cluster.anonymous().get(list).await.expect(200).each("username"), both[1..], "{list}");
    }
    for missing in ["no-such-user", ada.name.as_str()] {
        ada.get(&format!("/orgs/{missing}/members")).await.refused(404);
    }
}

async fn get_members_name_tells_as_far_as_the_caller_may_know(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    let name = ada.new_organization("acme").await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    let path = format!("/orgs/{name}/members/{}", bob.name);
    for member in [&ada, &bob] {
        member.get(&path).await.empty(204);
    }
    eve.get(&path).await.refused(404);
    ada.get(&format!("/orgs/{name}/members/{}", eve.name)).await.refused(404);
    bob.put_nothing(&format!("/orgs/{name}/public_members/{}", bob.name)).await.empty(204);
    eve.get(&path).await.empty(204);
}

async fn put_and_delete_public_members_are_for_the_member_itself(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    let name = ada.new_organization("acme").await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    let path = format!("/orgs/{name}/public_members/{}", bob.name);
    ada.put_nothing(&path).await.refused(403);
    ada.delete(&path).await.refused(403);
    eve.put_nothing(&path).await.refused(403);
    eve.put_nothing(&format!("/orgs/{name}/public_members/{}", eve.name)).await.refused_any(&[403, 404]);
    cluster.anonymous().put_nothing(&path).await.refused(401);
    let is_public =
        async || ada.get(&format!("/orgs/{name}/memberships/{}", bob.name)).await.expect(200).json()["public"].clone();
    for _ in 0..2 {
        bob.put_nothing(&path).await.empty(204);
        assert_eq!(is_public().await, true);
    }
    for _ in 0..2 {
        bob.delete(&path).await.empty(204);
        assert_eq!(is_public().await, false);
    }
}

async fn delete_members_takes_a_user_out_of_everything(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let team = ada.new_team(&name, "crew", "read").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    ada.new_repository_of(&name, "hidden", true).await;
    ada.put_nothing(&format!("{team}/repos/hidden")).await.empty(204);
    bob.get(&format!("/repos/{name}/hidden")).await.expect(200);
    let path = format!("/orgs/{name}/members/{}", bob.name);
    ada.delete(&path).await.empty(204);
    bob.get(&format!("/repos/{name}/hidden")).await.refused(404);
    bob.get(&team).await.refused(404);
    assert_eq!(ada.get(&format!("{team}/members")).await.expect(200).json(), json!([]));
    ada.delete(&path).await.refused(404);
    // A returning member is in no team.
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    bob.get(&format!("/repos/{name}/hidden")).await.refused(404);
}

async fn delete_memberships_lets_members_leave(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    let name = ada.new_organization("acme").await;
    for user in [&bob, &eve] {
        ada.put(&format!("/orgs/{name}/memberships/{}", user.name), &json!({})).await.empty(204);
    }
    bob.delete(&format!("/orgs/{name}/memberships/{}", eve.name)).await.refused(403);
    bob.delete(&format!("/orgs/{name}/memberships/{}", bob.name.to_uppercase())).await.empty(204);
    bob.delete(&format!("/orgs/{name}/memberships/{}", bob.name)).await.refused_any(&[403, 404]);
    eve.delete(&format!("/orgs/{name}/members/{}", eve.name)).await.empty(204);
    assert_eq!(ada.get(&format!("/orgs/{name}/members")).await.expect(200).each("username"), [ada.name.as_str()]);
}

async fn the_last_owner_stays(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("acme").await;
    let owners = ada.team_of_owners(&name).await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    let admin = cluster.admin().await;
    let last = async || {
        ada.put(&format!("/orgs/{name}/memberships/{}", ada.name), &json!({"role": "member"})).await.refused(422);
        ada.delete(&format!("/orgs/{name}/memberships/{}", ada.name)).await.refused(422);
        ada.delete(&format!("/orgs/{name}/members/{}", ada.name)).await.refused(422);
        ada.delete(&format!("{owners}/members/{}", ada.name)).await.refused(422);
        admin.delete(&format!("/admin{owners}/members/{}", ada.name)).await.refused(422);
    };
    last().await;
    ada.put_nothing(&format!("{owners}/members/{}", bob.name)).await.empty(204);
    ada.delete(&format!("{owners}/members/{}", bob.name)).await.empty(204);
    last().await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "admin"})).await.empty(204);
    ada.put(&format!("/orgs/{name}/memberships/{}", ada.name), &json!({"role": "member"})).await.empty(204);
    ada.patch(&format!("/orgs/{name}"), &json!({"full_name": "x"})).await.refused(403);
    bob.delete(&format!("/orgs/{name}/memberships/{}", bob.name)).await.refused(422);
    // Two owners remove each other at the same time: one remains.
    bob.put(&format!("/orgs/{name}/memberships/{}", ada.name), &json!({"role": "admin"})).await.empty(204);
    let (one, other) = (format!("/orgs/{name}/members/{}", bob.name), format!("/orgs/{name}/members/{}", ada.name));
    let outcomes = tokio::join!(ada.delete(&one), bob.delete(&other));
    let statuses = [outcomes.0.status.as_u16(), outcomes.1.status.as_u16()];
    assert!(statuses.contains(&204) && statuses != [204, 204], "{statuses:?}");
    assert_eq!(admin.get(&format!("/orgs/{name}/members")).await.expect(200).each("username").len(), 1);
}

async fn members_are_managed_by_owners(cluster: &Cluster) {
    let (ada, bob, eve) = (cluster.user("ada").await, cluster.user("bob").await, cluster.user("eve").await);
    let name = ada.new_organization("acme").await;
    ada.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({})).await.empty(204);
    let path = format!("/orgs/{name}/memberships/{}", eve.name);
    let unknown = json!({"role": "king"});
    for (caller, status) in [(&bob, 403), (&eve, 403), (&cluster.anonymous(), 401)] {
        for body in [&json!({"role": "admin"}), &unknown, &Value::Null] {
            caller.put(&path, body).await.refused(status);
        }
        caller.delete(&format!("/orgs/{name}/members/{}", ada.name)).await.refused(status);
        caller.delete(&format!("/orgs/{name}/memberships/{}", ada.name)).await.refused(status);
    }
    ada.with_scopes(&["repo:admin"]).await.put(&path, &json!({})).await.refused_with_message(403, "`org`");
    cluster.admin().await.put(&path, &json!({"role": "admin"})).await.empty(204);
    eve.put(&format!("/orgs/{name}/memberships/{}", bob.name), &json!({"role": "admin"})).await.empty(204);
}
