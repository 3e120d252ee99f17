//! E-mail addresses of an account, for sign-in and for commit authors.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::unique;
use crate::harness::{Cluster, Git, Response, User};

on_profiles! {
    both {
        a_verified_secondary_address_signs_in_with_the_password
        a_verified_secondary_address_identifies_the_author_of_a_commit
        an_unverified_address_does_not_keep_its_owner_from_it
    }
    production {
        get_user_emails_lists_the_primary_one_first
        post_user_emails_adds_a_list_or_a_bare_array
        post_user_emails_adds_all_or_none
        post_user_emails_refuses_bodies_without_valid_addresses
        post_user_emails_refuses_addresses_that_are_taken
        delete_user_emails_ignores_addresses_of_others
        delete_user_emails_never_removes_the_primary_one
        put_admin_users_emails_verified_is_for_administrators
    }
}

const PATH: &str = "/user/emails";

fn address(stem: &str) -> String {
    format!("{}@example.org", unique(stem))
}

async fn remove(user: &User, body: &Value) -> Response {
    Response::of(user.request(Method::DELETE, PATH).json(body)).await
}

/// As an administrator, adds a verified address to a user.
async fn verify(cluster: &Cluster, user: &User, email: &str) -> Response {
    cluster.admin().await.put_nothing(&format!("/admin/users/{}/emails/{email}/verified", user.name)).await
}

async fn get_user_emails_lists_the_primary_one_first(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let primary = json!({"email": ada.email, "verified": true, "primary": true});
    assert_eq!(ada.get(PATH).await.expect(200).json(), json!([primary]));
    let (one, two) = (address("a-first"), address("a-second"));
    ada.post(PATH, &json!({"emails": [one, two]})).await.expect(201);
    let listed = ada.get(PATH).await.expect(200);
    assert_eq!(listed.each("email"), [ada.email.clone(), one.clone(), two]);
    assert_eq!(listed.json()[1], json!({"email": one, "verified": false, "primary": false}));
    let page = ada.get(&format!("{PATH}?limit=1&page=2")).await.expect(200);
    assert_eq!(page.each("email"), [one]);
    assert!(page.header("link").contains(&format!("{PATH}?limit=1&page=3>; rel=\"next\"")));
    cluster.anonymous().get(PATH).await.refused(401);
    assert_eq!(ada.get("/user").await.json()["email"], ada.email, "a profile shows the primary one");
}

async fn post_user_emails_adds_a_list_or_a_bare_array(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let (list, bare) = (address("List"), address("BARE"));
    let added = ada.post(PATH, &json!({"emails": [list]})).await.expect(201).json();
    assert_eq!(added, json!([{"email": list.to_lowercase(), "verified": false, "primary": false}]));
    let added = ada.post(PATH, &json!([bare])).await.expect(201).json();
    assert_eq!(added[0]["email"], bare.to_lowercase());
    assert_eq!(ada.get(PATH).await.each("email").len(), 3);
    assert!(remove(&ada, &json!([bare])).await.empty(204).header("content-type").is_empty());
    assert_eq!(ada.get(PATH).await.each("email").len(), 2);
}

async fn post_user_emails_adds_all_or_none(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let free = address("free");
    ada.post(PATH, &json!({"emails": [free, bob.email]})).await.refused(422);
    ada.post(PATH, &json!({"emails": [free, "no address"]})).await.refused_field("emails");
    assert_eq!(ada.get(PATH).await.each("email"), [ada.email.as_str()]);
    bob.post(PATH, &json!({"emails": [free]})).await.expect(201);
}

async fn post_user_emails_refuses_bodies_without_valid_addresses(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    for body in [json!({}), json!({"emails": []}), json!({"emails": null}), json!([])] {
        ada.post(PATH, &body).await.refused_fields(&[("emails", "required")]);
    }
    for body in [json!({"emails": "a@example.com"}), json!({"emails": [7]}), json!([null])] {
        let refused = ada.post(PATH, &body).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], "emails", "{body}: {refused}");
    }
    let long = format!("{}@example.com", "x".repeat(250));
    for wrong in ["no address", "@", "", "a b@example.com", "a@example.com\n", long.as_str()] {
        let refused = ada.post(PATH, &json!([wrong])).await.refused(422).json();
        assert_eq!(refused["errors"][0]["field"], "emails", "{wrong:?}: {refused}");
    }
    let many: Vec<_> = (0..101).map(|_| address("many")).collect();
    ada.post(PATH, &json!(many)).await.refused(422);
    let broken = ada.request(Method::POST, PATH).header("content-type", "application/json").body("[\"a@");
    Response::of(broken).await.refused(400);
    assert_eq!(ada.get(PATH).await.each("email").len(), 1);
}

async fn post_user_emails_refuses_addresses_that_are_taken(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let secondary = address("secondary");
    bob.post(PATH, &json!([secondary])).await.expect(201);
    for taken in [&bob.email, &bob.email.to_uppercase(), &secondary, &secondary.to_uppercase(), &ada.email] {
        ada.post(PATH, &json!([taken])).await.refused_fields(&[("emails", "taken")]);
    }
    bob.post(PATH, &json!([secondary])).await.refused(422);
    verify(cluster, &bob, &secondary).await.empty(204);
    ada.post(PATH, &json!([secondary])).await.refused(422);
    let name = unique("late");
    let body = json!({"username": name, "email": secondary, "password": "long enough"});
    cluster.admin().await.post("/admin/users", &body).await.refused(422);
}

async fn delete_user_emails_ignores_addresses_of_others(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let (mine, his) = (address("mine"), address("his"));
    ada.post(PATH, &json!([mine])).await.expect(201);
    bob.post(PATH, &json!([his])).await.expect(201);
    for body in [json!({"emails": [his, "unknown@example.net"]}), json!({"emails": []}), json!({}), json!([])] {
        remove(&ada, &body).await.empty(204);
    }
    Response::of(ada.request(Method::DELETE, PATH)).await.empty(204);
    assert_eq!((ada.get(PATH).await.each("email").len(), bob.get(PATH).await.each("email").len()), (2, 2));
    remove(&ada, &json!({"emails": [mine.to_uppercase()]})).await.empty(204);
    assert_eq!(ada.get(PATH).await.each("email"), [ada.email.as_str()]);
    bob.post(PATH, &json!([mine])).await.expect(201);
}

async fn delete_user_emails_never_removes_the_primary_one(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let other = address("other");
    ada.post(PATH, &json!([other])).await.expect(201);
    for primary in [ada.email.clone(), ada.email.to_uppercase()] {
        remove(&ada, &json!({"emails": [other, primary]})).await.refused_field("emails");
    }
    assert_eq!(ada.get(PATH).await.each("email").len(), 2);
}

async fn a_verified_secondary_address_signs_in_with_the_password(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    let other = address("other");
    let sign_in = async |name: &str| {
        let request = ada.raw(Method::GET, &format!("/api/v1/users/{}/tokens", ada.name));
        Response::of(request.basic_auth(name, Some(&ada.password))).await
    };
    sign_in(&other).await.refused(401);
    ada.post(PATH, &json!([other])).await.expect(201);
    sign_in(&other).await.refused(401);
    verify(cluster, &ada, &other).await.empty(204);
    sign_in(&other).await.expect(200);
    sign_in(&other.to_uppercase()).await.expect(200);
    sign_in(&ada.email).await.expect(200);
    remove(&ada, &json!([other])).await.empty(204);
    sign_in(&other).await.refused(401);
}

async fn a_verified_secondary_address_identifies_the_author_of_a_commit(cluster: &Cluster) {
    let ada = cluster.user("ada").await;
    ada.new_repository("written", json!({})).await;
    let other = address("Author");
    let git = Git::new();
    git.small("work").await;
    let author = format!("An Author <{other}>");
    let arguments = ["-c", "commit.gpgsign=false", "commit", "-q", "--allow-empty", "-m", "x", "--author", &author];
    git.run("work", &arguments).await;
    git.run("work", &["push", "-q", &ada.git_url(&ada.name, "written"), "main"]).await;
    let authors = async || {
        let branch = ada.get(&ada.repo("written", "/branches/main")).await.expect(200).json();
        let commit = ada.get(&ada.repo("written", "/commits/main")).await.expect(200).json();
        assert_eq!(commit["commit"]["author"]["email"], other);
        (branch["commit"]["author"]["username"].clone(), commit["author"]["login"].clone())
    };
    assert_eq!(authors().await, (json!(""), Value::Null));
    ada.post(PATH, &json!([other])).await.expect(201);
    assert_eq!(authors().await, (json!(""), Value::Null), "an unverified address links no commits");
    verify(cluster, &ada, &other).await.empty(204);
    let mut found = authors().await;
    for _ in 0..200 {
        if found.0 == ada.name.as_str() && found.1 == ada.name.as_str() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        found = authors().await;
    }
    assert_eq!(found, (json!(ada.name), json!(ada.name)));
}

async fn an_unverified_address_does_not_keep_its_owner_from_it(cluster: &Cluster) {
    let (ada, mallory) = (cluster.user("ada").await, cluster.user("mallory").await);
    let (owned, primary) = (address("owned"), address("primary"));
    mallory.post(PATH, &json!([owned, primary])).await.expect(201);
    // An administrator can add the address to its account, as a secondary one or on creation.
    verify(cluster, &ada, &owned).await.empty(204);
    verify(cluster, &ada, &owned).await.empty(204);
    let body = json!({"username": unique("late"), "email": primary.to_uppercase(), "password": "long enough"});
    cluster.admin().await.post("/admin/users", &body).await.expect(201);
    assert_eq!(mallory.get(PATH).await.expect(200).each("email"), [mallory.email.as_str()]);
    let listed = ada.get(PATH).await.expect(200).json();
    assert_eq!(listed[1], json!({"email": owned, "verified": true, "primary": false}));
    mallory.post(PATH, &json!([owned])).await.refused(422);
    verify(cluster, &mallory, &owned).await.refused(422);
}

async fn put_admin_users_emails_verified_is_for_administrators(cluster: &Cluster) {
    let (ada, admin) = (cluster.user("ada").await, cluster.admin().await);
    let other = address("other");
    ada.post(PATH, &json!([other])).await.expect(201);
    let path = format!("/admin/users/{}/emails/{other}/verified", ada.name);
    ada.put_nothing(&path).await.refused(403);
    ada.delete(&path).await.refused(403);
    cluster.anonymous().put_nothing(&path).await.refused(401);
    admin.put_nothing(&path).await.empty(204);
    assert_eq!(ada.get(PATH).await.expect(200).json()[1]["verified"], true);
    for _ in 0..2 {
        admin.delete(&path).await.empty(204);
    }
    assert_eq!(ada.get(PATH).await.expect(200).json()[1]["verified"], false);
    admin.delete(&format!("/admin/users/{}/emails/{}/verified", ada.name, ada.email)).await.refused_field("email");
    admin.put_nothing(&format!("/admin/users/{}/emails/none/verified", ada.name)).await.refused_field("email");
    admin.put_nothing(&format!("/admin/users/no-such-user/emails/{other}/verified")).await.refused(404);
    let events = admin.get(&format!("/admin/audit?target={}&action=email", ada.name)).await.expect(200);
    assert_eq!(events.each("action"), ["email.unverify", "email.verify", "email.add"]);
}
