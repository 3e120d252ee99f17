//! Feeds of activities: what somebody did, as each reader may see it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Cluster, Response, User};

on_profiles! {
    both {
        each_reader_sees_the_activities_of_what_they_can_read
    }
    embedded {
        a_user_can_hide_their_activity
    }
}

/// What was done, newest first.
fn kinds(page: &Value) -> Vec<&str> {
    page.as_array().unwrap().iter().map(|activity| activity["op_type"].as_str().unwrap()).collect()
}

fn has(page: &Value, wanted: &[&str]) -> bool {
    let kinds = kinds(page);
    wanted.iter().all(|kind| kinds.contains(kind))
}

fn of_user(user: &User) -> String {
    format!("/users/{}/activities/feeds", user.name)
}

async fn each_reader_sees_the_activities_of_what_they_can_read(cluster: &Cluster) {
    let (ada, bob, anonymous) = (cluster.user("ada").await, cluster.user("bob").await, cluster.anonymous());
    let open = ada.new_tracker("open", json!({"auto_init": true})).await;
    ada.new_issue(&open, "A <b>| title", json!({})).await;
    let comment = bob.new_comment(&open, 1, "Text").await;
    let secret = ada.new_tracker("secret", json!({"auto_init": true, "private": true})).await;
    ada.new_issue(&secret, "Hidden", json!({})).await;
    let (all, performed) = (of_user(&ada), format!("{}?only-performed-by=true", of_user(&ada)));
    let whole = |page: &Value| {
        let kinds = kinds(page);
        let count = |wanted: &str| kinds.iter().filter(|kind| **kind == wanted).count();
        count("create_repo") == 2 && count("commit_repo") == 2 && count("create_issue") == 2
    };
    ada.eventually(&performed, whole).await;
    ada.eventually(&all, |page| whole(page) && has(page, &["comment_issue"])).await;
    assert!(!has(&ada.get(&performed).await.expect(200).json(), &["comment_issue"]), "by another");

    // Others see what is public, newest first.
    anonymous
        .eventually(&all, |page| has(page, &["create_repo", "commit_repo", "create_issue", "comment_issue"]))
        .await;
    for reader in [&bob, &anonymous] {
        let seen = reader.get(&all).await.expect(200);
        let (list, total) = (seen.json(), seen.header("x-total-count"));
        let list = list.as_array().unwrap().clone();
        assert_eq!(list.len().to_string(), total);
        assert!(list.iter().all(|activity| activity["repo"]["name"] == "open"), "{list:?}");
        let ids: Vec<_> = list.iter().map(|activity| activity["id"].as_i64().unwrap()).collect();
        assert!(ids.is_sorted_by(|one, next| one > next), "{ids:?}");
        let second = reader.get(&format!("{all}?limit=1&page=2")).await.expect(200).json();
        assert_eq!(second[0]["id"], ids[1]);
    }
    let told = bob.get(&format!("{}?only-performed-by=true", of_user(&bob))).await.expect(200).json();
    let shown = &told[0];
    assert_eq!((kinds(&told), &shown["comment_id"]), (vec!["comment_issue"], &json!(comment)));
    assert_eq!((&shown["content"], &shown["act_user"]["login"]), (&json!("1|A <b>| title"), &json!(bob.name)));
    let of_open = anonymous.get(&format!("{open}/activities/feeds")).await.expect(200).json();
    assert!(has(&of_open, &["create_repo", "comment_issue"]));
    let pushed = of_open.as_array().unwrap().iter().find(|activity| activity["op_type"] == "commit_repo").unwrap();
    assert_eq!(pushed["ref_name"], "refs/heads/main");

    // The permission counts when they are read.
    anonymous.get(&format!("{secret}/activities/feeds")).await.refused(404);
    ada.share(&secret, &bob, "read").await;
    assert!(has(&bob.get(&format!("{secret}/activities/feeds")).await.expect(200).json(), &["create_issue"]));
    Response::of(ada.request(Method::DELETE, &format!("{secret}/collaborators/{}", bob.name))).await.empty(204);
    bob.get(&format!("{secret}/activities/feeds")).await.refused(404);
    ada.patch(&open, &json!({"private": true})).await.expect(200);
    assert_eq!(anonymous.get(&all).await.expect(200).json(), json!([]));
    anonymous.get("/users/no-such-user/activities/feeds").await.refused(404);
}

async fn a_user_can_hide_their_activity(cluster: &Cluster) {
    let (ada, bob) = (cluster.user("ada").await, cluster.user("bob").await);
    let acme = ada.new_organization("acme").await;
    ada.new_repository_of(&acme, "tools", false).await;
    let (path, of_acme) = (of_user(&ada), format!("/orgs/{acme}/activities/feeds"));
    bob.eventually(&path, |page| has(page, &["create_repo"])).await;
    let settings = ada.patch("/user/settings", &json!({"hide_activity": true})).await.expect(200).json();
    assert_eq!(settings["hide_activity"], true);
    for reader in [&bob, &cluster.anonymous()] {
        assert_eq!(reader.get(&path).await.expect(200).json(), json!([]));
    }
    assert!(has(&ada.get(&path).await.expect(200).json(), &["create_repo"]));
    // The organization's own list is that of its repositories.
    assert!(has(&bob.get(&of_acme).await.expect(200).json(), &["create_repo"]));
}
