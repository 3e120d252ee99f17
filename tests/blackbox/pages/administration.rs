//! Pages for administrators of the site.

use serde_json::json;

use super::issues::{leads, send};
use super::{page, shows};
use crate::harness::client::unique;
use crate::harness::keys::ed25519;
use crate::harness::{Cluster, User};

on_profiles! {
    embedded {
        users_are_made_changed_and_deleted_by_forms
        limits_keys_and_addresses_of_a_user_are_managed
        organizations_and_stores_are_listed_and_managed
        the_audit_log_is_shown_with_filters
        administration_does_not_exist_for_others
    }
}

const HOSTILE: &str = "<script>alert(1)</script>";
const ESCAPED: &str = "&#60;script&#62;alert(1)&#60;/script&#62;";

async fn users_are_made_changed_and_deleted_by_forms(cluster: &Cluster) {
    let (admin, name) = (cluster.admin().await, unique("made"));
    let (email, users, user) = (format!("{name}@example.com"), "/-/admin/users", format!("/-/admin/users/{name}"));
    let new = [("username", name.as_str()), ("email", &email), ("full_name", HOSTILE), ("password", "short")];
    let refused = send(&admin, &format!("{users}/new"), &new).await.expect(422);
    shows(&refused, &["class=\"flash bad\"", &format!("value=\"{email}\""), ESCAPED]);
    assert!(!refused.text().contains("value=\"short\""));
    assert_eq!(refused.header("cache-control"), "no-store");
    let new = [("username", name.as_str()), ("email", &email), ("full_name", HOSTILE), ("password", "long enough")];
    leads(&send(&admin, &format!("{users}/new"), &new).await, &format!("{user}/edit"));

    admin.post(&format!("/admin/users/{name}/repos"), &json!({"name": "kept"})).await.expect(201);

    let list = page(&admin, &format!("{users}?q={name}&sort=newest")).await.expect(200);
    shows(&list, &[&format!("{user}/edit"), ESCAPED, &email]);
    assert!(!list.text().contains("Disabled"));
    shows(&page(&admin, &format!("{users}?q={name}-x")).await.expect(200), &["No user matches"]);
    leads(&page(&admin, "/-/admin").await, users);

    let edit = format!("{user}/edit");
    let fields = [("email", email.as_str()), ("full_name", "Ada"), ("website", "no address"), ("active", "true")];
    let refused = send(&admin, &edit, &fields).await.expect(422);
    shows(&refused, &["class=\"flash bad\"", "value=\"no address\"", "value=\"Ada\""]);
    let fields = [("email", email.as_str()), ("full_name", "Ada"), ("location", "London"), ("admin", "true")];
    leads(&send(&admin, &edit, &fields).await, &format!("{edit}?saved=1"));
    let shown = page(&admin, &format!("{edit}?saved=1")).await.expect(200);
    shows(&shown, &["Saved.", "value=\"London\"", "name=\"admin\" value=\"true\" checked"]);
    let changed = admin.get(&format!("/users/{name}")).await.expect(200).json();
    assert_eq!((&changed["active"], &changed["is_admin"]), (&json!(false), &json!(true)), "{changed}");
    shows(&page(&admin, &format!("{users}?q={name}")).await.expect(200), &["Disabled", "Administrator"]);

    let delete = format!("{user}/delete");
    shows(&send(&admin, &delete, &[("name", "another")]).await.expect(422), &["Type the name"]);
    let kept = send(&admin, &delete, &[("name", &name)]).await.expect(422);
    shows(&kept, &["still owns repositories"]);
    admin.delete(&format!("/repos/{name}/kept")).await.empty(204);
    leads(&send(&admin, &delete, &[("name", &name)]).await, users);
    page(&admin, &edit).await.expect(404);
}

async fn limits_keys_and_addresses_of_a_user_are_managed(cluster: &Cluster) {
    let (admin, bob) = (cluster.admin().await, cluster.user("bob").await);
    let user = format!("/-/admin/users/{}", bob.name);
    let quota = format!("{user}/quota");
    let fields = |bytes| [("repositories", "7"), ("organizations", "-1"), ("bytes", bytes), ("rate_percent", "")];
    let refused = send(&admin, &quota, &fields("many")).await.expect(422);
    shows(&refused, &["class=\"flash bad\"", "value=\"many\"", "value=\"7\""]);
    leads(&send(&admin, &quota, &fields("1024")).await, &format!("{quota}?saved=1"));
    shows(&page(&admin, &quota).await.expect(200), &["value=\"7\"", "value=\"-1\"", "of 1.0 KiB are used"]);
    let set = admin.get(&format!("/admin/users/{}/quota", bob.name)).await.expect(200).json();
    assert_eq!((&set["repositories"]["limit"], &set["organizations"]["limit"]), (&json!(7), &json!(null)), "{set}");
    leads(&send(&admin, &quota, &[]).await, &format!("{quota}?saved=1"));
    let set = admin.get(&format!("/admin/users/{}/quota", bob.name)).await.expect(200).json();
    assert_eq!(set["repositories"]["is_default"], true, "{set}");

    let (keys, key) = (format!("{user}/keys"), ed25519("x"));
    shows(&send(&admin, &keys, &[("title", HOSTILE), ("key", "none")]).await.expect(422), &[ESCAPED, "flash bad"]);
    leads(&send(&admin, &keys, &[("title", HOSTILE), ("key", &key)]).await, &keys);
    let shown = page(&admin, &keys).await.expect(200);
    shows(&shown, &[ESCAPED, "SHA256:"]);
    let id = bob.get("/user/keys").await.expect(200).json()[0]["id"].to_string();
    leads(&send(&admin, &keys, &[("action", "remove"), ("id", &id)]).await, &keys);
    shows(&page(&admin, &keys).await.expect(200), &["has no SSH keys"]);

    let (emails, email) = (format!("{user}/emails"), format!("work-{}", bob.email));
    for (action, is_verified) in [("verify", true), ("unverify", false)] {
        leads(&send(&admin, &emails, &[("action", action), ("email", &email)]).await, &format!("{emails}?saved=1"));
        let listed = bob.get("/user/emails").await.expect(200).json();
        let found = listed.as_array().unwrap().iter().find(|one| one["email"] == email.as_str());
        assert_eq!(found.map(|one| one["verified"] == true), Some(is_verified), "{listed}");
    }
    let primary = send(&admin, &emails, &[("action", "unverify"), ("email", &bob.email)]).await.expect(422);
    shows(&primary, &["primary address", &format!("value=\"{}\"", bob.email)]);
}

async fn organizations_and_stores_are_listed_and_managed(cluster: &Cluster) {
    let (admin, ada) = (cluster.admin().await, cluster.user("ada").await);
    let acme = ada.new_organization("acme").await;
    ada.patch(&format!("/orgs/{acme}"), &json!({"visibility": "private", "full_name": HOSTILE})).await.expect(200);
    let quota = format!("/-/admin/orgs/{acme}/quota");
    assert!(is_listed(&admin, "/-/admin/orgs", &[&quota, ESCAPED]).await);
    leads(&send(&admin, &quota, &[("repositories", "3")]).await, &format!("{quota}?saved=1"));
    shows(&page(&admin, &quota).await.expect(200), &["value=\"3\"", &acme]);
    page(&admin, &format!("/-/admin/users/{acme}/edit")).await.expect(404);
    shows(&page(&admin, &format!("/org/{acme}/settings")).await.expect(200), &[ESCAPED]);

    // Without a weight, so that no repository of another test is placed there.
    let (stores, name) = ("/-/admin/stores", unique("spare"));
    let add = |weight| [("action", "add"), ("name", name.as_str()), ("weight", weight)];
    shows(&send(&admin, stores, &add("many")).await.expect(422), &["flash bad", &format!("value=\"{name}\"")]);
    leads(&send(&admin, stores, &add("0")).await, stores);
    shows(&page(&admin, stores).await.expect(200), &[&name, "Not reachable", "Reachable"]);
    let change = [("action", "change"), ("name", name.as_str()), ("weight", "20000")];
    shows(&send(&admin, stores, &change).await.expect(422), &["flash bad"]);
    let delete = format!("{stores}/{name}/delete");
    shows(&send(&admin, &delete, &[("name", "other")]).await.expect(422), &["Type the name"]);
    leads(&send(&admin, &delete, &[("name", &name)]).await, stores);
    assert!(!page(&admin, stores).await.expect(200).text().contains(&name));
}

/// Whether a page of a list has all these texts.
async fn is_listed(user: &User, list: &str, texts: &[&str]) -> bool {
    for number in 1..50 {
        let html = page(user, &format!("{list}?page={number}")).await.expect(200).text();
        if texts.iter().all(|text| html.contains(text)) {
            return true;
        }
        if !html.contains("rel=\"next\"") {
            return false;
        }
    }
    false
}

async fn the_audit_log_is_shown_with_filters(cluster: &Cluster) {
    let (admin, bob) = (cluster.admin().await, cluster.user("bob").await);
    bob.post("/user/keys", &json!({"title": HOSTILE, "key": ed25519("x")})).await.expect(201);
    let log = format!("/-/admin/audit?target={}", bob.name);
    let shown = page(&admin, &log).await.expect(200);
    shows(&shown, &["user.create", "key.add", &format!("actor={}", bob.name), "token "]);
    assert!(!shown.text().contains(HOSTILE));
    let only = page(&admin, &format!("{log}&action=user&since=2020-01-01T00%3A00")).await.expect(200);
    shows(&only, &["user.create", "Clear"]);
    assert!(!only.text().contains("key.add"));
    shows(&page(&admin, &format!("{log}&until=2020-01-01T00%3A00")).await.expect(200), &["No entry matches"]);
    shows(&page(&admin, &format!("{log}&since=yesterday")).await.expect(422), &["flash bad", "value=\"yesterday\""]);
}

async fn administration_does_not_exist_for_others(cluster: &Cluster) {
    let (admin, bob) = (cluster.admin().await, cluster.user("bob").await);
    let user = format!("/-/admin/users/{}", bob.name);
    let rest = ["edit", "quota", "keys", "emails", "delete"].map(|rest| format!("{user}/{rest}"));
    let lists = ["", "/users", "/users/new", "/orgs", "/stores", "/stores/default/delete", "/audit"];
    for path in lists.map(|rest| format!("/-/admin{rest}")).into_iter().chain(rest) {
        page(&bob, &path).await.expect(404);
        let to = page(&cluster.anonymous(), &path).await.expect(303).header("location");
        assert!(to.starts_with("/user/login?redirect_to="), "{path}: {to}");
    }
    assert!(!page(&bob, "/").await.text().contains("Administration"));
    shows(&page(&admin, "/").await.expect(200), &["href=\"/-/admin/users\">Administration"]);
}
