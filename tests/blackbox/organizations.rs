use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::{Cluster, Response};

on_profiles! {
    production {
        post_user_orgs_makes_an_organization_owned_by_the_caller
        post_user_orgs_holds_names_to_the_rules_of_users
        post_user_orgs_shares_its_names_with_users
        post_user_orgs_limits_every_field
        get_orgs_needs_no_credential_and_finds_no_users
        patch_orgs_changes_what_is_there_and_clears_with_empty_texts
        patch_orgs_is_for_owners
        delete_orgs_is_for_owners_of_empty_ones
        get_user_orgs_lists_private_memberships_too
        get_users_orgs_lists_what_the_caller_may_know
        organizations_cannot_sign_in
        get_orgs_lists_all_of_the_site
        get_users_orgs_permissions_returns_what_a_user_may_do
    }
}

async fn get_orgs_lists_all_of_the_site(cluster: &Cluster) {
    let (ada, outsider, admin) = (cluster.user("ada").await, cluster.outsider().await, cluster.admin().await);
    let name = unique("listed");
    let made = ada.post("/orgs", &json!({"username": name, "full_name": "Listed"})).await.expect(201);
    assert!(made.header("location").ends_with(&format!("/api/v1/orgs/{name}")), "{}", made.header("location"));
    assert_eq!(ada.get(&format!("/orgs/{name}")).await.expect(200).json(), made.json());
    ada.post("/orgs", &json!({})).await.refused_fields(&[("username", "required")]);
    for (caller, path) in [(&outsider, "/orgs"), (&admin, "/orgs"), (&admin, "/admin/orgs")] {
        let first = caller.get(&format!("{path}?limit=1")).await.expect(200);
        assert_eq!(first.json().as_array().unwrap().len(), 1);
        let total: i64 = first.header("x-total-count").parse().unwrap();
        let mut found = false;
        // Other tests delete organizations, which moves those of later pages.
        for _ in 0..10 {
            for page in 1..=(total / 100 + 1) {
                let listed = caller.get(&format!("{path}?limit=100&page={page}")).await.expect(200);
                found |= listed.each("username").contains(&name);
            }
            if found {
                break;
            }
        }
        assert!(found, "{path}");
    }
    cluster.anonymous().get("/orgs").await.refused(401);
    outsider.get("/admin/orgs").await.refused(403);
}

async fn get_users_orgs_permissions_returns_what_a_user_may_do(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("acme").await;
    let path = |user: &str| format!("/users/{user}/orgs/{}/permissions", name.to_uppercase());
    let may = |owner: bool, write: bool| {
        json!({
            "is_owner": owner, "is_admin": owner, "can_write": write, "can_read": write, "can_create_repository": owner,
        })
    };
    assert_eq!(ada.get(&path(&ada.name)).await.expect(200).json(), may(true, true));
    assert_eq!(bob.get(&path(&bob.name)).await.expect(200).json(), may(false, false));
    bob.get(&path(&ada.name)).await.refused(403);
    let team = ada.new_team(&name, "crew", "write").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.empty(204);
    for caller in [&ada, &bob] {
        assert_eq!(caller.get(&path(&bob.name.to_uppercase())).await.expect(200).json(), may(false, true));
    }
    outsider.get(&path("no-such-user")).await.refused(404);
    outsider.get(&format!("/users/{}/orgs/no-such-org/permissions", outsider.name)).await.refused(404);
    bob.with_scopes(&["repo:admin"]).await.get(&path(&bob.name)).await.refused_with_message(403, "`org`");
    cluster.anonymous().get(&path(&bob.name)).await.refused(401);
}

fn shape(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn post_user_orgs_makes_an_organization_owned_by_the_caller(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = unique("Acme");
    let body = json!({
        "username": name, "full_name": "Acme Works", "description": "Anvils", "website": "https://acme.example",
        "location": "Here", "unknown": "ignored",
    });
    let made = ada.post("/user/orgs", &body).await.expect(201).json();
    let fields = [
        "avatar_url",
        "description",
        "email",
        "full_name",
        "id",
        "location",
        "name",
        "repo_admin_change_team_access",
        "username",
        "visibility",
        "website",
    ];
    assert_eq!(shape(&made), fields);
    assert_eq!((&made["visibility"], &made["email"]), (&json!("public"), &json!("")));
    for field in ["username", "full_name", "description", "website", "location"] {
        assert_eq!(made[field], body[field], "{field}");
    }
    assert_eq!(made["avatar_url"], format!("{}/avatars/{}", cluster.url, made["id"]));
    let teams = ada.get(&format!("/orgs/{name}/teams")).await.expect(200).json();
    assert_eq!(teams.as_array().unwrap().len(), 1);
    assert_eq!(teams[0]["organization"], made);
    assert_eq!((&teams[0]["name"], &teams[0]["permission"]), (&json!("Owners"), &json!("owner")));
    let members = format!("/teams/{}/members", teams[0]["id"]);
    assert_eq!(ada.get(&members).await.expect(200).each("username"), [ada.name.as_str()]);
    let membership = ada.get(&format!("/orgs/{name}/memberships/{}", ada.name)).await.expect(200).json();
    assert_eq!((&membership["role"], &membership["public"]), (&json!("admin"), &json!(false)));
}

async fn post_user_orgs_holds_names_to_the_rules_of_users(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for body in [json!({}), json!({"username": ""}), json!({"username": null})] {
        ada.post("/user/orgs", &body).await.refused_fields(&[("username", "required")]);
    }
    let long = "x".repeat(36);
    for wrong in ["a b", "a/b", "..", ".", "...", "-x", "admin", "API", "user", "x.keys", "\u{e4}", &long, "a\u{0}b"] {
        ada.post("/user/orgs", &json!({"username": wrong})).await.refused_field("username");
    }
    ada.post("/user/orgs", &json!({"username": 7})).await.refused_fields(&[("username", "type")]);
    let longest = format!("{:x<35}", unique("longest"));
    ada.post("/user/orgs", &json!({"username": longest})).await.expect(201);
}

async fn post_user_orgs_shares_its_names_with_users(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("taken").await;
    for taken in [&ada.name, &ada.name.to_uppercase(), &name, &name.to_uppercase()] {
        ada.post("/user/orgs", &json!({"username": taken})).await.refused_fields(&[("username", "taken")]);
    }
    let body = json!({"username": name, "email": format!("{name}@example.com"), "password": "long enough"});
    cluster.admin().await.post("/admin/users", &body).await.refused(422);
}

async fn post_user_orgs_limits_every_field(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = unique("limits");
    for (field, most) in [("full_name", 100), ("description", 255), ("location", 50)] {
        let mut body = json!({ "username": name });
        body[field] = json!("\u{e9}".repeat(most + 1));
        ada.post("/user/orgs", &body).await.refused_fields(&[(field, "too_long")]);
        body[field] = json!(7);
        ada.post("/user/orgs", &body).await.refused_fields(&[(field, "type")]);
    }
    for wrong in
        ["javascript:alert(1)", "example.com", "ftp://example.com", &format!("https://{}.example", "x".repeat(100))]
    {
        ada.post("/user/orgs", &json!({"username": name, "website": wrong})).await.refused_field("website");
    }
    let full = json!({
        "username": name, "full_name": "\u{e9}".repeat(100), "description": "\u{e9}".repeat(255),
        "location": "\u{e9}".repeat(50),
    });
    ada.post("/user/orgs", &full).await.expect(201);
}

async fn get_orgs_needs_no_credential_and_finds_no_users(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("open").await;
    let shown = cluster.anonymous().get(&format!("/orgs/{}", name.to_uppercase())).await.expect(200).json();
    assert_eq!(shown["username"], name);
    assert_eq!(ada.get(&format!("/orgs/{name}")).await.expect(200).json(), shown);
    for missing in [ada.name.as_str(), "no-such-user", "a%2Fb"] {
        ada.get(&format!("/orgs/{missing}")).await.refused(404);
        cluster.anonymous().get(&format!("/orgs/{missing}")).await.refused(404);
    }
}

async fn patch_orgs_changes_what_is_there_and_clears_with_empty_texts(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("edited").await;
    let path = format!("/orgs/{name}");
    let all = json!({"full_name": "F", "description": "D", "website": "https://w.example", "location": "L"});
    let shown = ada.patch(&path, &all).await.expect(200).json();
    let edit = async |body: Value| ada.patch(&path, &body).await.expect(200).json();
    for body in [json!({}), json!({"full_name": null, "description": null, "website": null, "location": null})] {
        assert_eq!(edit(body).await, shown);
    }
    let expected = |field: &str, value: &str| {
        let mut expected = shown.clone();
        expected[field] = json!(value);
        expected
    };
    assert_eq!(edit(json!({"description": "Other"})).await, expected("description", "Other"));
    assert_eq!(edit(json!({"description": ""})).await, expected("description", ""));
    assert_eq!(ada.get(&path).await.expect(200).json(), expected("description", ""));
    for field in ["full_name", "website", "location"] {
        assert_eq!(edit(json!({ field: "" })).await[field], "");
    }
    ada.patch(&path, &json!({"full_name": "f".repeat(101)})).await.refused_fields(&[("full_name", "too_long")]);
    ada.patch(&path, &json!({"website": "nope"})).await.refused_field("website");
    ada.patch(&path, &json!({"username": "other"})).await.expect(200);
    assert_eq!(ada.get(&path).await.expect(200).json()["username"], name, "names stay");
}

async fn patch_orgs_is_for_owners(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let name = ada.new_organization("guarded").await;
    let path = format!("/orgs/{name}");
    ada.put(&format!("{path}/memberships/{}", bob.name), &json!({"role": "member"})).await.expect(204);
    for caller in [&bob, &outsider] {
        for body in [json!({"full_name": "Mine"}), json!({"full_name": 7})] {
            caller.patch(&path, &body).await.refused(403);
        }
        caller.delete(&path).await.refused(403);
    }
    cluster.anonymous().patch(&path, &json!({"full_name": 7})).await.refused(401);
    cluster.anonymous().delete(&path).await.refused(401);
    for missing in [ada.name.as_str(), "no-such-user"] {
        ada.patch(&format!("/orgs/{missing}"), &json!({"full_name": 7})).await.refused(404);
        ada.delete(&format!("/orgs/{missing}")).await.refused(404);
    }
    cluster.admin().await.patch(&path, &json!({"full_name": "By the site"})).await.expect(200);
    ada.put(&format!("{path}/memberships/{}", bob.name), &json!({"role": "admin"})).await.expect(204);
    bob.patch(&path, &json!({"full_name": "By a new owner"})).await.expect(200);
    let broken = ada.request(Method::PATCH, &path).header("content-type", "application/json").body("{");
    Response::of(broken).await.refused(400);
}

async fn delete_orgs_is_for_owners_of_empty_ones(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let name = ada.new_organization("doomed").await;
    let path = format!("/orgs/{name}");
    let team = ada.new_team(&name, "crew", "read").await;
    ada.put_nothing(&format!("{team}/members/{}", bob.name)).await.expect(204);
    ada.new_repository_of(&name, "last", true).await;
    ada.delete(&path).await.refused(422);
    ada.delete(&format!("/repos/{name}/last")).await.expect(204);
    ada.delete(&path).await.empty(204);
    ada.delete(&path).await.refused(404);
    ada.get(&path).await.refused(404);
    bob.get(&team).await.refused(404);
    assert_eq!(bob.get("/user/orgs").await.expect(200).json(), json!([]));
    ada.post("/user/orgs", &json!({"username": name})).await.expect(201);
}

async fn get_user_orgs_lists_private_memberships_too(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (first, second) = (ada.new_organization("first").await, ada.new_organization("second").await);
    ada.put(&format!("/orgs/{second}/memberships/{}", bob.name), &json!({})).await.expect(204);
    assert_eq!(ada.get("/user/orgs").await.expect(200).each("username").len(), 2);
    assert_eq!(bob.get("/user/orgs").await.expect(200).each("username"), [second]);
    let page = ada.get("/user/orgs?limit=1").await.expect(200);
    assert_eq!(page.each("username"), [first]);
    assert!(page.header("link").contains("/api/v1/user/orgs?limit=1&page=2>; rel=\"next\""));
    cluster.anonymous().get("/user/orgs").await.refused(401);
}

async fn get_users_orgs_lists_what_the_caller_may_know(cluster: &Cluster) {
    let (ada, bob, outsider) = (cluster.user("ada").await, cluster.user("bob").await, cluster.outsider().await);
    let (closed, open) = (ada.new_organization("closed").await, ada.new_organization("open").await);
    ada.put_nothing(&format!("/orgs/{open}/public_members/{}", ada.name)).await.expect(204);
    ada.put(&format!("/orgs/{closed}/memberships/{}", bob.name), &json!({})).await.expect(204);
    let path = format!("/users/{}/orgs", ada.name.to_uppercase());
    for stranger in [&outsider, &cluster.anonymous()] {
        assert_eq!(stranger.get(&path).await.expect(200).each("username"), [open.as_str()]);
        let of_bob = format!("/users/{}/orgs", bob.name);
        assert_eq!(stranger.get(&of_bob).await.expect(200).each("username"), [""; 0]);
    }
    assert_eq!(bob.get(&path).await.expect(200).each("username").len(), 2, "members see each other");
    assert_eq!(ada.get(&path).await.expect(200).each("username").len(), 2);
    outsider.get("/users/no-such-user/orgs").await.refused(404);
}

async fn organizations_cannot_sign_in(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let name = ada.new_organization("silent").await;
    for password in ["", "password", ada.password.as_str()] {
        let list = ada.raw(Method::GET, &format!("/api/v1/users/{name}/tokens"));
        Response::of(list.basic_auth(&name, Some(password))).await.refused(401);
    }
    let list = ada.raw(Method::GET, &format!("/api/v1/users/{name}/tokens"));
    let status = Response::of(list.basic_auth(&ada.name, Some(&ada.password))).await.status.as_u16();
    assert!(status == 403 || status == 404, "{status}");
}
